/**
 * What an error of Postgres, or of the way to it, means to a caller: the one table from SQLSTATE to the contract's
 * codes.
 */
import { type Dependency, EngineError, type ErrorCode, type PostgresDetails } from '../contract/errors.js';
import { LIMITS } from '../contract/limits.js';
import { ConnectionLost, MessageTooLarge, PostgresError, SQLSTATE } from '../pg/index.js';

/** Codes of whole SQLSTATE classes (first two characters; Postgres manual appendix A) … */
const BY_CLASS: Readonly<Record<string, ErrorCode>> = {
  '08': 'database_unavailable',
  '23': 'constraint_violation',
  '40': 'table_busy',
  '53': 'database_unavailable',
  '57': 'database_unavailable',
  '58': 'database_unavailable',
};

/** … and of single states, which win. Everything else is an error in the caller's SQL. */
const BY_SQLSTATE: Readonly<Record<string, ErrorCode>> = {
  [SQLSTATE.UNIQUE_VIOLATION]: 'unique_violation',
  [SQLSTATE.READ_ONLY_SQL_TRANSACTION]: 'permission_denied', // a write in a READ ONLY transaction
  [SQLSTATE.IDLE_IN_TRANSACTION_SESSION_TIMEOUT]: 'query_timeout',
  [SQLSTATE.TRANSACTION_TIMEOUT]: 'query_timeout',
  [SQLSTATE.DEPENDENT_OBJECTS_STILL_EXIST]: 'dependent_objects',
  [SQLSTATE.INVALID_TRANSACTION_TERMINATION]: 'statement_not_allowed', // COMMIT in a procedure: the request is the transaction
  [SQLSTATE.INSUFFICIENT_PRIVILEGE]: 'permission_denied',
  [SQLSTATE.DUPLICATE_COLUMN]: 'column_exists',
  [SQLSTATE.DUPLICATE_OBJECT]: 'table_exists',
  [SQLSTATE.DUPLICATE_TABLE]: 'table_exists',
  [SQLSTATE.OUT_OF_MEMORY]: 'overloaded', // out of shared memory; out of a process's own, see below
  [SQLSTATE.CONFIGURATION_LIMIT_EXCEEDED]: 'sql_error', // temp_file_limit: the statement is too greedy, not the server too small
  [SQLSTATE.PROGRAM_LIMIT_EXCEEDED]: 'row_too_large',
  [SQLSTATE.LOCK_NOT_AVAILABLE]: 'table_busy', // lock_timeout or NOWAIT
  [SQLSTATE.QUERY_CANCELED]: 'query_timeout',
  [SQLSTATE.UNDEFINED_FILE]: 'sql_error', // a file that a statement named does not exist
  [SQLSTATE.DATA_CORRUPTED]: 'database_unavailable', // corrupted data; project code may also raise it
  [SQLSTATE.INDEX_CORRUPTED]: 'database_unavailable',
};

export function errorCode(error: PostgresError): ErrorCode {
  const { sqlstate } = error;
  if (isOutOfOwnMemory(error)) return 'sql_error';
  if (isCitusLimit(error)) return 'citus_limit';
  if (isOfStorage(error)) return 'database_unavailable';
  return BY_SQLSTATE[sqlstate] ?? BY_CLASS[sqlstate.slice(0, 2)] ?? 'sql_error';
}

/**
 * Where Citus refuses a statement about a distributed table, before it does anything: `ErrorIfUnsupportedIndexStmt` and
 * others.
 */
const isCitusLimit = ({ sqlstate, fields: { routine } }: PostgresError): boolean =>
  (sqlstate === SQLSTATE.FEATURE_NOT_SUPPORTED || sqlstate === SQLSTATE.INTERNAL_ERROR) &&
  /^Error(If|OutFor)[A-Z]/.test(routine ?? '');

/** Where Postgres reads and writes the files of its databases, and temporary ones. */
const STORAGE = new Set(['md.c', 'smgr.c', 'fd.c', 'buffile.c', 'copydir.c', 'slru.c', 'storage.c']);

/**
 * Failing writes that Postgres knows no state for: it calls them XX000 (too large for the file system, a quota), or, of
 * a read-only file system, 42501. What else comes from there has a state of its own (53100, 53400). The message would
 * say it in the server's language.
 */
const isOfStorage = ({ sqlstate, fields: { source } }: PostgresError): boolean =>
  (sqlstate === SQLSTATE.INTERNAL_ERROR || sqlstate === SQLSTATE.INSUFFICIENT_PRIVILEGE) &&
  source !== undefined &&
  STORAGE.has(source);

/** States whose hints are for the operator: settings to raise, a log to look into. */
const HINTS_FOR_THE_OPERATOR = new Set<string>([SQLSTATE.OUT_OF_MEMORY, SQLSTATE.DEADLOCK_DETECTED]);

/**
 * Where Postgres shares out the memory that all sessions have in common, and where code of a project raises the state
 * by hand.
 */
const NOT_OWN_MEMORY = new Set(['lock.c', 'predicate.c', 'shmem.c', 'pl_exec.c']);

/** The statement was too greedy: its process may take no more memory. The same state stands for shared memory, too. */
const isOutOfOwnMemory = ({ sqlstate, fields: { source } }: PostgresError): boolean =>
  sqlstate === SQLSTATE.OUT_OF_MEMORY && !NOT_OWN_MEMORY.has(source ?? '');

/** Messages of our own where Postgres's would speak of settings that the caller does not know. */
const OWN_MESSAGE: Partial<Record<ErrorCode, string>> = {
  query_timeout: 'The statement exceeded its time limit and was canceled',
  table_busy: 'The table is in use by another request; its lock could not be acquired in time',
  overloaded: 'The database cannot hold more locks at the moment. Nothing was done',
  database_unavailable: 'The database is not available at the moment',
  internal: 'Internal error',
};

/** A deadlock, or transactions that could not be serialized: Postgres says it better than the message for a lock. */
const isRolledBack = ({ sqlstate }: PostgresError): boolean => sqlstate.startsWith('40');

/** What depends on a dropped object is named in the detail alone, which the contract wants in the message. */
function messageOf(error: PostgresError, code: ErrorCode): string {
  const { sqlstate, message, fields } = error;
  const own = isRolledBack(error) ? undefined : OWN_MESSAGE[code];
  if (own !== undefined) return own;
  if (isOutOfOwnMemory(error)) return 'The statement needed more memory than the limit allows';
  const { detail } = fields;
  return sqlstate === SQLSTATE.DEPENDENT_OBJECTS_STILL_EXIST && detail !== undefined
    ? `${message}: ${detail.replaceAll('\n', ', ')}`
    : message;
}

/** The part of it that may be shown to the caller, who has not seen the statement that a position would point into. */
export function detailsOf({ sqlstate, fields }: PostgresError): PostgresDetails {
  const details: PostgresDetails = { sqlstate };
  const { table, column, constraint, detail } = fields;
  if (table !== undefined) details.table = table;
  if (column !== undefined) details.column = column;
  if (constraint !== undefined) details.constraint = constraint;
  if (detail !== undefined) details.detail = detail;
  return details;
}

/** The answer for an error of Postgres, or of the way to it. Everything else passes unchanged. */
export function toEngineError(error: unknown): unknown {
  if (error instanceof PostgresError) {
    const code = errorCode(error);
    const hint = HINTS_FOR_THE_OPERATOR.has(error.sqlstate) ? undefined : error.fields.hint;
    return new EngineError(code, messageOf(error, code), {
      postgres: detailsOf(error),
      cause: error,
      ...(hint === undefined ? {} : { hint }),
    });
  }
  if (error instanceof MessageTooLarge) {
    return new EngineError(
      'result_too_large',
      `One row of the result, or a message from Postgres, is larger than ${LIMITS.resultBytes} bytes`,
      { cause: error },
    );
  }
  return error instanceof ConnectionLost ? unavailable(error) : error;
}

/** Nothing was done. */
export const unavailable = (cause: unknown, away: Dependency = 'database'): EngineError =>
  new EngineError('database_unavailable', 'The database is not available at the moment', { cause, dependency: away });
