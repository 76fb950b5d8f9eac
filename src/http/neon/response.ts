/** Responses for Neon's driver: results with fields as in node-postgres, and errors with the fields of Postgres. */
import { type EngineError, ERROR_CODES, type ErrorCode } from '../../contract/errors.js';
import type { ErrorBody } from '../../contract/wire/failure.js';
import { sqlstateOf } from '../../engine/sessions/session-error.js';
import { type QueryResult, saidByPostgres } from '../../engine/sql/run-queries.js';
import { joinedParts, type Part, withoutFirstComma } from '../response/sql-response.js';

/** @param isBatch an array `results`; otherwise the result of the only query */
export function neonResponse(
  results: readonly QueryResult[],
  isBatch: boolean,
  rowAsArray: boolean,
): string | readonly Buffer[] {
  const all = results.map((result) => partsOf(result, rowAsArray));
  if (!isBatch) return joinedParts(all.flat());
  return joinedParts(['{"results":[', ...all.flatMap((parts, i) => (i === 0 ? parts : [',', ...parts])), ']}']);
}

function partsOf({ type, rowCount, fields, rows }: QueryResult, rowAsArray: boolean): Part[] {
  const described = fields.map(({ name, tableOid, columnNumber, typeOid, typeSize, typeModifier }) => ({
    name,
    dataTypeID: typeOid,
    tableID: tableOid,
    columnID: columnNumber,
    dataTypeSize: typeSize,
    dataTypeModifier: typeModifier,
    format: 'text',
  }));
  // As in node-postgres: only the first word of CREATE TABLE.
  const command = type.split(' ', 1)[0];
  const head = JSON.stringify({ command, rowCount, fields: described, rowAsArray });
  return [`${head.slice(0, -1)},"rows":[`, ...withoutFirstComma(rows), ']}'];
}

/** Errors that do not concern the statement: they keep their status, and the driver shows their text. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set([
  'database_unavailable',
  'internal',
  'outcome_unknown',
  'overloaded',
  'quota_exceeded',
]);

/**
 * An error of Postgres about a statement is a 400 with its own fields (Postgres manual 54.8) in addition to those of
 * every failure, but without its place in Postgres's sources (contract section 1). Other errors get the SQLSTATE that
 * Postgres would use.
 */
export function neonFailure(error: EngineError, body: ErrorBody): ErrorBody {
  const { code, postgres } = error;
  const cause = saidByPostgres(error);
  if (REFUSALS.has(code) || cause === null || postgres === undefined) {
    // The time may run out before Postgres reports it.
    const { status } = code === 'query_timeout' ? ERROR_CODES.sql_error : body;
    return { ...body, status, ...{ severity: 'ERROR', code: sqlstateOf(code) } };
  }
  const { detail, internalPosition, internalQuery, where, schema, table, column, dataType, constraint } = cause.fields;
  // The position in the query that was sent.
  const { position } = postgres;
  return {
    ...body,
    status: ERROR_CODES.sql_error.status,
    severity: cause.severity,
    code: postgres.sqlstate,
    detail,
    position: position === undefined ? undefined : String(position),
    internalPosition: internalPosition === undefined ? undefined : String(internalPosition),
    internalQuery,
    where,
    schema,
    table,
    column,
    dataType,
    constraint,
  } as ErrorBody;
}
