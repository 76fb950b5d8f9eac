/** Free SQL of the API (contract C13, C14). */
import type { JsonNode } from '../../codec/index.js';
import type { SqlResult } from '../../engine/sql/sql-result.js';
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { SqlHeaders } from '../../contract/wire/replicas.js';
import * as wire from '../../contract/wire/sql.js';
import { primaryMayAnswer } from '../../db/position.js';
import type { Project } from '../../db/project.js';
import { collectSql } from '../../engine/sql/collect-sql.js';
import type { CollectRequest } from '../../engine/sql/run-sql.js';
import { type StreamFormat, streamSql } from '../../engine/sql/stream-sql.js';
import { requireScope, runsAsReader } from '../admission.js';
import { keyOfRequest, projectOf } from './call-inputs.js';
import { type Operation, SQL_ERRORS } from './operation.js';
import type { RouteResponse, Call } from '../route.js';
import { sqlResponse, streamFormat, streamResponse } from '../response/sql-response.js';

export const RUN_SQL: Operation = {
  method: 'POST',
  url: '/api/cdp/sql',
  access: ['sql:read', 'sql:write'],
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
  audit: { operation: 'sql', isChange: true },
  slot: 'sql',
  key: 'accepted',
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
  errors: SQL_ERRORS,
  async handle(call) {
    const { request, caller } = call;
    const body = request.body as wire.SqlBody;
    const readOnly = runsAsReader(caller, body.read_only);
    // A refusal has it in its entry, too.
    request.context.sql = { text: body.sql, readOnly };
    requireScope(caller, readOnly ? 'sql:read' : 'sql:write');
    return answerSql(call, { text: body.sql, params: request.context.data, readOnly });
  },
};

/** SQL that a caller may run. */
interface AllowedSql {
  readonly text: string;
  readonly params: readonly JsonNode[];
  /** As the reader. */
  readonly readOnly: boolean;
}

/** Runs it as the options in the body say, in the format that the client accepts, on a replica if an older state may be seen. */
export async function answerSql(call: Call, sql: AllowedSql): Promise<RouteResponse> {
  const { request, reply } = call;
  const { readOnly } = sql;
  request.context.sql = { text: sql.text, readOnly };
  const sqlRequest = requestOf(call, sql);
  const { key } = sqlRequest;
  const format = streamFormat(request.raw);
  if (key && (format !== null || readOnly)) {
    throw new EngineError(
      'invalid_request',
      `Idempotency-Key is supported only for SQL that writes and returns JSON; this request ${format === null ? 'only reads' : 'streams its response'}`,
      { hint: 'Send it without an Idempotency-Key.' },
    );
  }
  const project = projectOf(call);
  if (project.dryRun && (format !== null || readOnly)) {
    throw new EngineError('invalid_request', '`dry_run` is for free SQL that writes and whose response is JSON');
  }
  // A bounded read may show an older state. If a replica cannot answer it, the primary does.
  const { consistency = project.consistency } = (request.body ?? {}) as RunOptions;
  const isBounded = readOnly && project.hasReplicas && consistency !== 'strong';
  const replica = isBounded ? project.atReplica(request.headers['x-consistency']?.toString()) : null;
  if (replica !== null) {
    void reply.header('x-served-by', 'replica');
    try {
      return await respond(call, replica, sqlRequest, format);
    } catch (error) {
      if (reply.raw.headersSent || !primaryMayAnswer(error)) throw error;
    }
  }
  if (isBounded) void reply.header('x-served-by', 'primary');
  return respond(call, project, sqlRequest, format);
}

/** What the bodies of requests that run SQL have in common. */
type RunOptions = Omit<wire.SqlBody, 'sql' | 'params' | 'read_only'>;

async function respond(
  call: Call,
  project: Project,
  sqlRequest: CollectRequest,
  format: StreamFormat | null,
): Promise<RouteResponse> {
  const { context, body } = call.request;
  if (format !== null) {
    const { columns = false } = (body ?? {}) as RunOptions;
    const streamed = { ...sqlRequest, format, columns };
    await streamResponse(call, streamed, (write) => streamSql(call.engine.services, project, streamed, write));
    return { body: null };
  }
  const { response, replayed } = await collectSql(call.engine.services, project, sqlRequest);
  for (const { rows } of response.results) if (rows !== null) context.freeWhenSent(rows);
  const { results } = response;
  return { body: sqlResponse(response), rows: results.at(-1)?.rowCount ?? 0, moved: rowsMoved(results), replayed };
}

/** Rows of all statements. */
const rowsMoved = (results: readonly SqlResult[]) => ({
  in: results.reduce((sum, { affectedRows = 0 }) => sum + affectedRows, 0),
  out: results.reduce((sum, { rows, rowCount }) => sum + (rows === null ? 0 : rowCount), 0),
});

function requestOf(call: Call, { text, params, readOnly }: AllowedSql): CollectRequest {
  const { request, signal } = call;
  const body = (request.body ?? {}) as RunOptions;
  return {
    sql: text,
    params,
    readOnly,
    timeoutMs: body.timeout_ms ?? LIMITS.timeoutMsDefault,
    rowMode: body.row_mode ?? 'object',
    numbers: body.numbers,
    maxRows: body.max_rows ?? LIMITS.maxRowsDefault,
    signal,
    key: keyOfRequest(call),
  };
}
