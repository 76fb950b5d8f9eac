/**
 * Translates errors of Postgres, and of connections to it, for callers: the only table from SQLSTATEs to our codes
 * (contract C2.9). Errors of the service's own work in Postgres have one translation, whatever they say.
 */
import {
  type Dependency,
  EngineError,
  type ErrorCode,
  type PostgresDetails,
  type Redacted,
} from '../contract/errors.js';
import { LIMITS } from '../contract/limits.js';
import type { Warning } from '../contract/wire/sql.js';
import { CommitNotReplicated, ConnectionLost, MessageTooLarge, PostgresError, SQLSTATE } from '../pg/index.js';
import { LockHeld } from './locks.js';

/** Codes of whole SQLSTATE classes (first two characters; Postgres manual, PostgreSQL Error Codes). */
const BY_CLASS: Readonly<Record<string, ErrorCode>> = {
  '08': 'database_unavailable',
  '23': 'constraint_violation',
  '40': 'table_busy',
  '53': 'database_unavailable',
  '57': 'database_unavailable',
  '58': 'database_unavailable',
};

/** Codes of single states, which take precedence. A state of neither table is an error in the caller's SQL. */
const BY_SQLSTATE: Readonly<Record<string, ErrorCode>> = {
  [SQLSTATE.UNIQUE_VIOLATION]: 'unique_violation',
  [SQLSTATE.READ_ONLY_SQL_TRANSACTION]: 'permission_denied', // a write in a READ ONLY transaction
  [SQLSTATE.IDLE_IN_TRANSACTION_SESSION_TIMEOUT]: 'query_timeout',
  [SQLSTATE.TRANSACTION_TIMEOUT]: 'query_timeout',
  [SQLSTATE.DEPENDENT_OBJECTS_STILL_EXIST]: 'dependent_objects',
  [SQLSTATE.INVALID_TRANSACTION_TERMINATION]: 'statement_not_allowed', // COMMIT in a procedure: a request is one transaction
  [SQLSTATE.INSUFFICIENT_PRIVILEGE]: 'permission_denied',
  [SQLSTATE.DUPLICATE_COLUMN]: 'column_exists',
  [SQLSTATE.DUPLICATE_OBJECT]: 'table_exists',
  [SQLSTATE.DUPLICATE_TABLE]: 'table_exists',
  [SQLSTATE.OUT_OF_MEMORY]: 'overloaded', // out of shared memory; for a process's own memory, see below
  [SQLSTATE.CONFIGURATION_LIMIT_EXCEEDED]: 'sql_error', // temp_file_limit: the statement is too greedy, not the server too small
  [SQLSTATE.PROGRAM_LIMIT_EXCEEDED]: 'row_too_large',
  [SQLSTATE.DISK_FULL]: 'disk_full',
  [SQLSTATE.LOCK_NOT_AVAILABLE]: 'table_busy', // lock_timeout or NOWAIT
  [SQLSTATE.QUERY_CANCELED]: 'query_timeout',
  [SQLSTATE.UNDEFINED_FILE]: 'sql_error', // a file that a statement named does not exist
};

export function codeOf(error: PostgresError): ErrorCode {
  const { sqlstate } = error;
  if (isOutOfOwnMemory(error)) return 'sql_error';
  if (isCitusLimit(error)) return 'citus_limit';
  if (isCorruption(error)) return 'data_corrupted';
  if (isStorageError(error)) return 'database_unavailable';
  return BY_SQLSTATE[sqlstate] ?? BY_CLASS[sqlstate.slice(0, 2)] ?? 'sql_error';
}

/**
 * Errors from the functions with which Citus refuses a statement about a distributed table before it takes effect:
 * `ErrorIfUnsupportedIndexStmt` and others.
 */
const isCitusLimit = ({ sqlstate, fields: { routine } }: PostgresError): boolean =>
  (sqlstate === SQLSTATE.FEATURE_NOT_SUPPORTED || sqlstate === SQLSTATE.INTERNAL_ERROR) &&
  /^Error(If|OutFor)[A-Z]/.test(routine ?? '');

/** Source files in which Postgres reads and writes database files and temporary files. */
const STORAGE = new Set(['md.c', 'smgr.c', 'fd.c', 'buffile.c', 'copydir.c', 'slru.c', 'storage.c']);

/**
 * Failed writes without an SQLSTATE of their own: Postgres reports XX000 (too large for the file system, a quota), or
 * 42501 for a read-only file system. Other errors from there have specific states (53100, 53400). The message is no
 * help, since it is in the server's language.
 */
const isStorageError = ({ sqlstate, fields: { source } }: PostgresError): boolean =>
  (sqlstate === SQLSTATE.INTERNAL_ERROR || sqlstate === SQLSTATE.INSUFFICIENT_PRIVILEGE) &&
  source !== undefined &&
  STORAGE.has(source);

/** Where Postgres reads tables, indexes and its own catalogs: a file that is missing there was not named by a statement. */
const DATA_FILES = new Set(['md.c', 'slru.c', 'relmapper.c']);

/** Functions of Postgres 15 to 18 that report a failed read of a page (md.c). */
const READS = /^md_?readv?(?:_report)?$/;

/**
 * Damaged data: a wrong checksum, an index that contradicts itself, a file that is gone or that the disk does not give
 * back. Code of the project may raise the same states.
 */
export function isCorruption({ sqlstate, fields: { source = '', routine = '' } }: PostgresError): boolean {
  switch (sqlstate) {
    case SQLSTATE.DATA_CORRUPTED:
    case SQLSTATE.INDEX_CORRUPTED:
      return source !== 'pl_exec.c';
    case SQLSTATE.UNDEFINED_FILE:
      return DATA_FILES.has(source);
    case SQLSTATE.IO_ERROR:
      return source === 'md.c' && READS.test(routine);
    case SQLSTATE.INTERNAL_ERROR:
      return source === 'relmapper.c';
    default:
      return false;
  }
}

/**
 * What an operator needs to know of damaged data: Postgres's message without anything that a project has chosen, such as
 * the name of an index.
 */
export function damageOf({ sqlstate, message, fields: { routine } }: PostgresError) {
  const [file] =
    /\b(?:base\/\d+|global|pg_[a-z]+)\/(?:\d+(?:_(?:fsm|vm|init))?(?:\.\d+)?\b|[\dA-F]{4,}\b|pg_filenode\.map)/.exec(
      message,
    ) ?? [];
  const [, block] = /\bblocks? (\d+)/.exec(message) ?? [];
  return {
    sqlstate,
    ...(routine === undefined ? {} : { routine }),
    ...(file === undefined ? {} : { file }),
    ...(block === undefined ? {} : { block: Number(block) }),
  };
}

/** States whose hints are for the operator: settings to raise, a log to check. */
const HINTS_FOR_THE_OPERATOR = new Set<string>([SQLSTATE.OUT_OF_MEMORY, SQLSTATE.DEADLOCK_DETECTED]);

/** A refused or unknown extension. */
const comesFromExtension = ({ sqlstate, fields: { source, routine } }: PostgresError): boolean =>
  source === 'extension.c' &&
  (sqlstate === SQLSTATE.INSUFFICIENT_PRIVILEGE || routine === 'parse_extension_control_file');

/** Postgres's hint, or ours where the caller cannot do what it says. */
function hintOf(error: PostgresError): string | undefined {
  const { sqlstate, fields } = error;
  if (HINTS_FOR_THE_OPERATOR.has(sqlstate)) return undefined;
  if (sqlstate === SQLSTATE.DISK_FULL)
    return 'DROP and TRUNCATE free space if they still work; otherwise ask the operator.';
  if (comesFromExtension(error))
    return 'Only the operator can add extensions (setting extensions). Those you have: SELECT extname FROM pg_extension';
  return fields.hint;
}

/**
 * Source files in which Postgres allocates shared memory, and in which PL/pgSQL raises an error for the project's code.
 */
const NOT_OWN_MEMORY = new Set(['lock.c', 'predicate.c', 'shmem.c', 'pl_exec.c']);

/** The process may not allocate more memory. The same state also stands for shared memory. */
const isOutOfOwnMemory = ({ sqlstate, fields: { source } }: PostgresError): boolean =>
  sqlstate === SQLSTATE.OUT_OF_MEMORY && !NOT_OWN_MEMORY.has(source ?? '');

const UNAVAILABLE = 'The database is not available at the moment';

const DAMAGED =
  'Data of the project is damaged on the disk of its Postgres server, and can only be restored from a backup';

/** Our messages, if Postgres's would mention settings that the caller does not know. */
const OWN_MESSAGE: Partial<Record<ErrorCode, string>> = {
  query_timeout: 'The statement exceeded its time limit and was canceled',
  table_busy: 'The table is in use by another request; its lock could not be acquired in time',
  overloaded: 'The database has no room for more locks at the moment. Nothing was done',
  database_unavailable: UNAVAILABLE,
  disk_full: 'The disk of the Postgres server is full',
  data_corrupted: DAMAGED,
};

/** A deadlock or a serialization failure: Postgres's message is better than ours for a lock. */
const isRolledBack = ({ sqlstate }: PostgresError): boolean => sqlstate.startsWith('40');

/** Postgres names dependent objects only in the detail; contract C6.11 wants them in the message. */
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

/** The details that the caller may see. Without the position, since the caller may not know the statement. */
export function detailsOf({ sqlstate, fields }: PostgresError): PostgresDetails {
  const details: PostgresDetails = { sqlstate };
  const { table, column, constraint, detail } = fields;
  if (table !== undefined) details.table = table;
  if (column !== undefined) details.column = column;
  if (constraint !== undefined) details.constraint = constraint;
  if (detail !== undefined) details.detail = detail;
  return details;
}

/** Raised by RAISE, so the words are the project's own. */
const isRaised = ({ fields: { routine } }: PostgresError): boolean => routine === 'exec_stmt_raise';

/**
 * What to say in place of a message that may quote stored values: that of a data exception (class 22) in an expression or
 * a trigger of the table, and that of a statement which a function has composed (class 42). Other classes name
 * constraints, tables and columns.
 * @returns undefined if the message quotes no values
 */
export function withoutValues(error: PostgresError): Redacted | undefined {
  const { sqlstate, fields } = error;
  const isComposed = sqlstate.startsWith('42') && fields.where !== undefined;
  const quotes = sqlstate.startsWith('22') || (isComposed && sqlstate !== SQLSTATE.INSUFFICIENT_PRIVILEGE);
  if (!quotes || isRaised(error)) return undefined;
  const message = `An expression of the table, such as a check, an index or a trigger, failed with SQLSTATE ${sqlstate}`;
  return { reveals: 'values', message };
}

/** Codes of warnings that are for the operator, unless the project's own code has raised them. */
const FOR_THE_OPERATOR: ReadonlySet<ErrorCode> = new Set([
  'overloaded',
  'database_unavailable',
  'disk_full',
  'data_corrupted',
]);

/**
 * A warning as whoever sent the statement may read it.
 * @returns null if it concerns the server rather than the statement
 */
export function warningOf(warning: PostgresError): Warning | null {
  if (!isRaised(warning) && FOR_THE_OPERATOR.has(codeOf(warning))) return null;
  const { detail } = warning.fields;
  const hint = hintOf(warning);
  return {
    code: warning.sqlstate,
    message: warning.message,
    ...(detail === undefined ? {} : { detail }),
    ...(hint === undefined ? {} : { hint }),
  };
}

/** Translates an error of Postgres, or of a connection to it. Any other passes unchanged. */
export function fromPostgres(error: unknown): unknown {
  if (error instanceof PostgresError) {
    const code = codeOf(error);
    const options = { postgres: detailsOf(error), cause: error, hint: hintOf(error), redacted: withoutValues(error) };
    return new EngineError(code, messageOf(error, code), options);
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

/** By its health check, an added server does not answer. The outcome of commits that were running there is unknown. */
export class ServerUnreachable extends ConnectionLost {
  constructor(
    readonly server: string,
    cause: Error,
  ) {
    super(`The server does not answer: ${cause.message}`, { cause });
    this.name = 'ServerUnreachable';
  }
}

/** The error if the service's own work failed in Postgres, whose message the caller must not see. */
export const failureOf = (cause: unknown): EngineError =>
  cause instanceof PostgresError && isCorruption(cause)
    ? new EngineError('data_corrupted', DAMAGED, { cause })
    : unavailable(cause);

/** The error if Postgres is unavailable and nothing was done. */
export function unavailable(cause: unknown): EngineError {
  const dependency: Dependency = cause instanceof ServerUnreachable ? `server ${cause.server}` : 'database';
  return new EngineError('database_unavailable', UNAVAILABLE, { cause, dependency });
}

/**
 * Runs work of the service itself: logins, the control database, creating and repairing projects. A failure in Postgres
 * is then not an error in the caller's SQL, and the caller must not see Postgres's message.
 * @throws EngineError database_unavailable or data_corrupted with Postgres's error, or LockHeld, as its cause; any other
 * error of `work`
 */
export async function serviceWork<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw comesFromPostgres(error) ? failureOf(error) : error;
  }
}

const comesFromPostgres = (error: unknown): boolean =>
  error instanceof PostgresError ||
  error instanceof ConnectionLost ||
  error instanceof CommitNotReplicated ||
  error instanceof LockHeld;

/** The error for a write while the project is moved. */
export const projectMovingError = (): EngineError =>
  new EngineError('database_unavailable', 'The project is being moved to another server; retry the write shortly', {
    dependency: null,
  });
