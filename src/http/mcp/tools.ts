/** The tools: they list and describe tables, run SQL and insert records. Each runs an operation of the API. */
import type { JsonNode } from '../../codec/index.js';
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { quoted } from '../../contract/message-text.js';
import { STRICT, Type } from '../../contract/schema.js';
import { BatchBody, BatchResponse } from '../../contract/wire/batch.js';
import { Index } from '../../contract/wire/indexes.js';
import { SqlParams, SqlResponse } from '../../contract/wire/sql.js';
import { Table } from '../../contract/wire/tables.js';
import type { Project } from '../../db/project.js';
import { arrayOfRecords, rowsChanged } from '../../engine/insert/batch.js';
import { insertRecords } from '../../engine/insert/insert.js';
import { checkTableInPath } from '../../engine/schema/definition.js';
import { readSchema, readTable } from '../../engine/schema/tables.js';
import { collectSql } from '../../engine/sql/collect-sql.js';
import type { SqlAnswer } from '../../engine/sql/sql-result.js';
import { exactValue, projectOf, schemaOptions } from '../api/call-inputs.js';
import type { RouteResponse, Call } from '../route.js';
import { INSERT_RECORDS } from '../api/records.js';
import { READ_SCHEMA, READ_TABLE, shownTable } from '../api/tables.js';
import { dryRunBody } from '../response/response.js';
import { sqlResponse } from '../response/sql-response.js';
import { DRY_RUN, ResultSchema, takeFitting, tool, toolResult, type ToolResult } from './tool.js';

/** The size limit of the list of tables, and of the columns of a table. */
const MAX_BYTES = 128 * 1024;

const TableName = Type.String({ description: 'Name of a table, as list_tables writes it.' });

const Listed = Type.Object({
  name: Type.String(),
  kind: Type.String(),
  comment: Type.Nullable(Type.String()),
  approximate_rows: Type.Nullable(Type.Integer()),
  columns: Type.Integer({ description: 'How many.' }),
});

export const LIST_TABLES = tool({
  name: 'list_tables',
  title: 'List tables',
  description: 'List the tables and views: kind, comment, approximate number of rows, number of columns.',
  scope: 'schema:read',
  audit: READ_SCHEMA.audit,
  annotations: { readOnlyHint: true },
  input: Type.Object({}, STRICT),
  output: ResultSchema(Type.Object({ tables: Type.Array(Listed), table_count: Type.Integer() })),
  async run(call) {
    const tables = (await readSchema(projectOf(call), schemaOptions(call))).map(shownTable);
    const tableList = takeFitting(
      tables.map((table) => ({ ...table, columns: table.columns.length })),
      MAX_BYTES,
    );
    const json = JSON.stringify({ tables: tableList, table_count: tables.length });
    return toolResult(json, ...cutRemark(tableList.length, tables.length, 'tables', 'Query pg_tables for the others.'));
  },
});

export const DESCRIBE_TABLE = tool({
  name: 'describe_table',
  title: 'Describe a table',
  description:
    'Show one table or view: its columns with types, NOT NULL, defaults and comments, its approximate number of rows, its indexes.',
  scope: 'schema:read',
  audit: READ_TABLE.audit,
  annotations: { readOnlyHint: true },
  input: Type.Object({ table: TableName }, STRICT),
  output: ResultSchema(
    Type.Object({
      table: Table,
      column_count: Type.Integer(),
      indexes: Type.Array(Index),
      index_count: Type.Integer(),
    }),
  ),
  async run(call, { table: name }) {
    const project = projectOf(call);
    const { indexes: all, ...read } = await readTable(project, name, schemaOptions(call)).catch((error: unknown) => {
      throw withoutSchema(error, name, project.schema);
    });
    const table = shownTable(read);
    const columns = takeFitting(table.columns, MAX_BYTES);
    const indexes = takeFitting(all, MAX_BYTES);
    const counts = { column_count: table.columns.length, index_count: all.length };
    return toolResult(
      JSON.stringify({ table: { ...table, columns }, indexes, ...counts }),
      ...cutRemark(columns.length, counts.column_count, 'columns', 'Query information_schema.columns for the others.'),
      ...cutRemark(indexes.length, counts.index_count, 'indexes', 'Query pg_indexes for the others.'),
    );
  },
});

/** Agents know names with a schema from SQL. */
function withoutSchema(error: unknown, name: string, own: string): unknown {
  if (!(error instanceof EngineError) || error.code !== 'table_not_found') return error;
  const [schema = '', ...rest] = name.split('.');
  if (rest.length === 0) return error;
  error.hint =
    schema === own
      ? `Leave the schema out: ${quoted(rest.join('.'))}`
      : `This describes tables of the schema ${own}, by their names alone. For others, query information_schema.columns.`;
  return error;
}

const cutRemark = (shownOf: number, all: number, what: string, hint: string): string[] =>
  shownOf === all ? [] : [`Cut off: only ${shownOf} of ${all} ${what} are shown. ${hint}`];

// Tools that run SQL: queries as the reader, and dry runs as the writer.

/** The size limit of the rows of all statements: about as much as an agent can process. */
const MAX_ROW_BYTES = 128 * 1024;

const MAX_ROWS = 1_000;
const DEFAULT_ROWS = 100;

const sqlInput = (what: string) =>
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

/** An argument with every digit of its numbers. */
const exactArgument = (call: Call, name: string) => exactValue(call, 'params', 'arguments', name);

export const QUERY = tool({
  name: 'query',
  title: 'Query',
  description:
    'Run SQL that only reads, in a READ ONLY transaction of a role that cannot write, and return its rows. The result is cut ' +
    `off at max_rows or ${MAX_ROW_BYTES / 1024} KiB and says so.`,
  scope: 'sql:read',
  audit: { operation: 'sql_read', isChange: false },
  annotations: { readOnlyHint: true },
  input: sqlInput('SQL of Postgres that only reads.'),
  output: ResultSchema(SqlResponse),
  async run(call, args) {
    const answer = await run(call, projectOf(call), { ...args, readOnly: true }, await exactArgument(call, 'params'));
    call.request.context.rows = answer.results.at(-1)?.rowCount ?? 0;
    call.request.context.moved = { in: 0, out: call.request.context.rows };
    return shownRows(answer, textOf(sqlResponse(answer)));
  },
});

export const DRY_RUN_SQL = tool({
  name: 'dry_run_sql',
  title: 'Dry run of SQL',
  description:
    'Run SQL that writes, and roll it back: returns which rows, locks and tables it would touch, and the error if it fails. ' +
    'Nothing is stored. It takes the locks of the write while it runs.',
  scope: 'sql:write',
  ...DRY_RUN,
  input: sqlInput('SQL of Postgres that writes.'),
  output: ResultSchema(SqlResponse),
  async run(call, args) {
    const project = projectOf(call).inDryRun();
    const answer = await run(call, project, { ...args, readOnly: false }, await exactArgument(call, 'params'));
    return shownRows(answer, textOf(dryRunBody(sqlResponse(answer), project)));
  },
});

interface SqlGiven {
  sql: string;
  max_rows?: number;
  timeout_ms?: number;
  readOnly: boolean;
}

/** @throws EngineError as `collectSql` */
async function run(call: Call, project: Project, args: SqlGiven, params: JsonNode | undefined): Promise<SqlAnswer> {
  const { response } = await collectSql(call.engine.services, project, {
    sql: args.sql,
    params: params?.kind === 'array' ? params.items : [],
    readOnly: args.readOnly,
    timeoutMs: args.timeout_ms ?? LIMITS.timeoutMsDefault,
    rowMode: 'object',
    maxRows: args.max_rows ?? DEFAULT_ROWS,
    maxBytes: MAX_ROW_BYTES,
    signal: call.signal,
  });
  for (const { rows } of response.results) if (rows !== null) call.request.context.freeWhenSent(rows);
  return response;
}

function shownRows({ results }: SqlAnswer, json: string): ToolResult {
  const cut = results.filter(({ truncated }) => truncated);
  const remarks = cut.map(({ rowCount }) =>
    rowCount === 0
      ? `Cut off: the first row alone is larger than ${MAX_ROW_BYTES / 1024} KiB. Select fewer columns, or left(column, 1000).`
      : `Cut off: there are more rows than these ${rowCount}. Aggregate, or add WHERE or LIMIT.`,
  );
  return toolResult(json, ...remarks);
}

/** The response of free SQL is text, or pieces of it. */
const textOf = (body: RouteResponse['body']): string =>
  typeof body === 'string' ? body : Buffer.concat(body as readonly Buffer[]).toString();

// Tools that insert records, or do so in a dry run.

const INSERT_INPUT = Type.Object({ table: TableName, records: BatchBody }, STRICT);

const ALL_OR_NONE = '1 to 250 records, all or none. A missing key takes the default of its column.';

export const INSERT = tool({
  name: 'insert',
  title: 'Insert records',
  description: `Insert ${ALL_OR_NONE} An error names every wrong value, and nothing is stored then.`,
  scope: 'data:write',
  audit: INSERT_RECORDS.audit,
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false },
  input: INSERT_INPUT,
  output: ResultSchema(BatchResponse),
  async run(call, { table }) {
    const response = await insert(call, projectOf(call), table, await exactArgument(call, 'records'));
    call.request.context.rows = rowsChanged(response);
    return toolResult(JSON.stringify(response));
  },
});

export const DRY_RUN_INSERT = tool({
  name: 'dry_run_insert',
  title: 'Dry run of an insert',
  description: `Insert ${ALL_OR_NONE} Then roll it back: returns the errors, or what would be stored. Nothing is stored.`,
  scope: 'data:write',
  ...DRY_RUN,
  input: INSERT_INPUT,
  output: ResultSchema(BatchResponse),
  async run(call, { table }) {
    const project = projectOf(call).inDryRun();
    const response = await insert(call, project, table, await exactArgument(call, 'records'));
    return toolResult(JSON.stringify(dryRunBody(response, project)));
  },
});

/** @throws EngineError as `insertRecords` */
async function insert(
  { engine, signal }: Call,
  project: Project,
  tableName: string,
  records: JsonNode | undefined,
): Promise<BatchResponse> {
  checkTableInPath(tableName);
  const body = arrayOfRecords(Buffer.from(records?.kind === 'array' ? records.text : '[]'));
  const { tableCache, throttle, quarantineDays } = engine.services;
  const plain = { returnIds: false, key: null, upsert: null, quarantine: false };
  const options = { tableCache, throttle, quarantineDays, ...plain, signal };
  return (await insertRecords(project, tableName, body, options)).response;
}
