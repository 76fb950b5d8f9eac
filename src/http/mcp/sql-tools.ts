/** Tools that run SQL: queries as the reader, and dry runs as the writer. */
import { LIMITS } from '../../contract/limits.js';
import { STRICT, Type } from '../../contract/schema.js';
import { SqlParams, SqlResponse } from '../../contract/wire/sql.js';
import type { Project } from '../../engine/project.js';
import { collectSql } from '../../engine/sql/collect-sql.js';
import type { SqlResult } from '../../engine/sql/sql-result.js';
import type { JsonNode } from '../../codec/index.js';
import { projectOf } from '../api/call.js';
import type { RouteResponse, Call } from '../api/route.js';
import { dryRunBody } from '../response/dry-run-body.js';
import { sqlResponse } from '../response/sql-response.js';
import { ResultSchema, toolResult, type ToolResult } from './tool-results.js';
import { DRY_RUN, tool } from './tool.js';

/** The size limit of the rows of all statements: about as much as an agent can process. */
const MAX_BYTES = 128 * 1024;

const MAX_ROWS = 1_000;
const DEFAULT_ROWS = 100;

const input = (what: string) =>
  Type.Object(
    {
      sql: Type.String({ minLength: 1, description: `${what} Put values into params, not into the text.` }),
      params: Type.Optional(SqlParams),
      max_rows: Type.Optional(
        Type.Integer({ minimum: 1, maximum: MAX_ROWS, description: `Rows to return. Default: ${DEFAULT_ROWS}.` }),
      ),
      timeout_ms: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: LIMITS.timeoutMsMax,
          description: `Time limit. Default: ${LIMITS.timeoutMsDefault}.`,
        }),
      ),
    },
    STRICT,
  );

export const QUERY = tool({
  name: 'query',
  title: 'Query',
  description:
    'Run SQL that only reads, in a READ ONLY transaction of a role that cannot write, and return its rows. The result is cut ' +
    `off at max_rows or ${MAX_BYTES / 1024} KiB and says so.`,
  scope: 'sql:read',
  audit: 'sql_read',
  annotations: { readOnlyHint: true },
  input: input('SQL of Postgres that only reads.'),
  output: ResultSchema(SqlResponse),
  async run(call, given, exact) {
    const responses = await run(call, projectOf(call), { ...given, readOnly: true }, exact('params'));
    call.request.context.rows = responses.at(-1)?.rowCount ?? 0;
    return shownRows(responses, textOf(sqlResponse(responses)));
  },
});

export const DRY_RUN_SQL = tool({
  name: 'dry_run_sql',
  title: 'Dry run of SQL',
  description:
    'Run SQL that writes, and roll it back: returns which rows, locks and tables it would touch, and the error if it fails. ' +
    'Nothing is stored. It takes the locks of the write while it runs.',
  scope: 'sql:write',
  audit: 'dry_run',
  annotations: DRY_RUN,
  input: input('SQL of Postgres that writes.'),
  output: ResultSchema(SqlResponse),
  async run(call, given, exact) {
    const project = projectOf(call).inDryRun();
    const responses = await run(call, project, { ...given, readOnly: false }, exact('params'));
    return shownRows(responses, textOf(dryRunBody(sqlResponse(responses), project)));
  },
});

interface Given {
  sql: string;
  max_rows?: number;
  timeout_ms?: number;
  readOnly: boolean;
}

/** @throws EngineError as `collectSql` */
async function run(call: Call, project: Project, given: Given, params: JsonNode | undefined): Promise<SqlResult[]> {
  const { response } = await collectSql(project, {
    sql: given.sql,
    params: params?.kind === 'array' ? params.items : [],
    readOnly: given.readOnly,
    timeoutMs: given.timeout_ms ?? LIMITS.timeoutMsDefault,
    rowMode: 'object',
    maxRows: given.max_rows ?? DEFAULT_ROWS,
    maxBytes: MAX_BYTES,
    signal: call.signal,
  });
  for (const { rows } of response) if (rows !== null) call.request.context.freeWhenSent(rows);
  return response;
}

function shownRows(responses: readonly SqlResult[], json: string): ToolResult {
  const cut = responses.filter(({ truncated }) => truncated);
  const remarks = cut.map(({ rowCount }) =>
    rowCount === 0
      ? `Cut off: the first row alone is larger than ${MAX_BYTES / 1024} KiB. Select fewer columns, or left(column, 1000).`
      : `Cut off: there are more rows than these ${rowCount}. Aggregate, or add WHERE or LIMIT.`,
  );
  return toolResult(json, ...remarks);
}

/** The response of free SQL is text, or pieces of it. */
const textOf = (body: RouteResponse['body']): string =>
  typeof body === 'string' ? body : Buffer.concat(body as readonly Buffer[]).toString();
