/** Free SQL of the API (specification 4.5; contract section 7). */
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { SqlHeaders } from '../../contract/wire/replicas.js';
import * as wire from '../../contract/wire/sql.js';
import type { Project } from '../../engine/project.js';
import { boundedRead, type ServedBy } from '../../engine/sql/bounded-read.js';
import { collectSql } from '../../engine/sql/collect-sql.js';
import type { CollectRequest } from '../../engine/sql/run-sql.js';
import { requireScope, runsAsReader } from '../admission.js';
import { keyOfRequest, projectOf } from './call.js';
import { RECORD_ERRORS } from './data-operations.js';
import type { Call, Operation } from './route.js';
import { sqlResponse, streamResponse, streamFormat } from '../response/sql-response.js';

/** Errors of every operation that runs a caller's statements. */
export const SQL_ERRORS = [
  'sql_error',
  'citus_limit',
  'statement_not_allowed',
  'invalid_value',
  'result_too_large',
  'row_too_large',
  'constraint_violation',
] as const;

export const RUN_SQL: Operation = {
  operationId: 'runSql',
  hasDryRun: true,
  summary: 'Run SQL',
  description:
    'One request is one transaction. With `read_only`, or with a token that has only sql:read, it runs as the ' +
    'reader in a READ ONLY transaction. `Accept: application/x-ndjson` streams the rows without a cap, one per ' +
    'line, then `{"done":true,"row_count":N}`; `Accept: text/csv` streams CSV. ' +
    'With the header `Idempotency-Key` a retry of a request that writes does nothing and returns the first response, ' +
    `without its rows if they are larger than ${LIMITS.idempotencyResponseBytes / 1024} KiB.`,
  tag: 'sql',
  audit: 'sql',
  work: 'sql',
  headers: SqlHeaders,
  body: wire.SqlBody,
  dataField: 'params',
  example: { sql: 'SELECT email FROM customers WHERE age > $1', params: [30] },
  success: {
    status: 200,
    response: wire.SqlResponse,
    example: {
      success: true,
      type: 'SELECT',
      rows: [{ email: 'ada@example.com' }],
      row_count: 1,
      columns: [{ name: 'email', type: 'TEXT' }],
      truncated: false,
    },
  },
  errors: [
    ...SQL_ERRORS,
    'unique_violation',
    'table_exists',
    'column_exists',
    'dependent_objects',
    'quota_exceeded',
    ...RECORD_ERRORS,
  ],
  async handle(call) {
    const { context, raw } = call.request;
    const sqlRequest = requestOf(call);
    const format = streamFormat(raw);
    const key = keyOfRequest(call);
    if (key !== null && (format !== null || sqlRequest.readOnly)) {
      throw new EngineError(
        'invalid_request',
        `Idempotency-Key is supported only for SQL that writes and returns JSON; this request ${format === null ? 'only reads' : 'streams its response'}`,
        { hint: 'Send it without an Idempotency-Key.' },
      );
    }
    if (context.project?.dryRun && (format !== null || sqlRequest.readOnly)) {
      throw new EngineError('invalid_request', '`dry_run` is for free SQL that writes and whose response is JSON');
    }
    if (format !== null) {
      const { columns = false } = call.request.body as wire.SqlBody;
      await atItsPlace(call, sqlRequest.readOnly, (place) =>
        streamResponse(call, place, { ...sqlRequest, format, columns }),
      );
      return { body: null };
    }
    const { response: results, replayed } = await atItsPlace(call, sqlRequest.readOnly, (place) =>
      collectSql(place, { ...sqlRequest, idempotency: key }),
    );
    for (const { rows } of results) if (rows !== null) context.freeWhenSent(rows);
    return { body: sqlResponse(results), rows: results.at(-1)?.rowCount ?? 0, replayed };
  },
};

/** Runs a bounded read on a replica, if the server has any; everything else runs where the project lives. */
function atItsPlace<T>(call: Call, readOnly: boolean, run: (place: Project) => Promise<T>): Promise<T> {
  const { request, reply } = call;
  const own = projectOf(call);
  const { consistency = own.consistency } = request.body as wire.SqlBody;
  if (!readOnly || !own.hasReplicas || consistency === 'strong') return run(own);
  const { 'x-consistency': position } = request.headers;
  const runAt = (place: Project, servedBy: ServedBy) => {
    void reply.header('x-served-by', servedBy);
    return run(place);
  };
  return boundedRead(own, position === undefined ? undefined : String(position), runAt, () => reply.raw.headersSent);
}

/** @throws EngineError insufficient_scope */
function requestOf(call: Call): CollectRequest {
  const { request, caller, signal } = call;
  const body = request.body as wire.SqlBody;
  const readOnly = runsAsReader(caller, body.read_only);
  request.context.sql = { text: body.sql, readOnly };
  requireScope(caller, readOnly ? 'sql:read' : 'sql:write');
  return {
    sql: body.sql,
    params: request.context.data,
    readOnly,
    timeoutMs: body.timeout_ms ?? LIMITS.timeoutMsDefault,
    rowMode: body.row_mode ?? 'object',
    numbers: body.numbers,
    maxRows: body.max_rows ?? LIMITS.maxRowsDefault,
    signal,
  };
}
