/** Turns an error of Postgres into the error of a record: its code, and the place in the batch. */
import type { ErrorCode } from '../../contract/errors.js';
import { type PostgresError, SQLSTATE } from '../../pg/index.js';
import { errorCode } from '../../tenancy/engine-error.js';

/** Errors caused by the state of the server or by time, not by a record. */
export const NO_RECORDS_FAULT: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'query_timeout',
  'table_busy',
  'overloaded',
  'database_unavailable',
]);

/** In a batch, an error in the generated SQL comes from a value, or from the project's own check. */
export function recordErrorCode(error: PostgresError): ErrorCode {
  const code = errorCode(error);
  const { sqlstate } = error;
  if (code !== 'sql_error') return code;
  return sqlstate.startsWith('22') || sqlstate === SQLSTATE.GENERATED_ALWAYS ? 'invalid_value' : 'constraint_violation';
}

export interface RefusedRecord {
  record: number;
  /** undefined: no column is at fault, or several are, or it is unknown. */
  column?: string | undefined;
  /** Several columns of one constraint. */
  columns?: string[];
  error: PostgresError;
}

export function recordPlace({ record, column, columns, error: { sqlstate, fields, message } }: RefusedRecord) {
  const { constraint } = fields;
  const about = sqlstate === SQLSTATE.UNIQUE_VIOLATION ? (column ?? constraint) : (constraint ?? column);
  return {
    record,
    ...(column === undefined ? {} : { column }),
    ...(columns === undefined ? {} : { columns }),
    message: `Record ${record}${about === undefined ? '' : `, "${about}"`}: ${message}`,
  };
}
