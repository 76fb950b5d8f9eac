/** The API of the specification (sections 4.1 to 4.5) with the reads and drops of the contract, one row a route. */
import Type from 'typebox';
import { EngineError } from '../contract/errors.js';
import { LIMITS } from '../contract/limits.js';
import * as wire from '../contract/wire.js';
import { refuseText } from '../engine/batch/text.js';
import { addColumn, alterColumn, dropColumn } from '../engine/columns.js';
import { idempotencyKey } from '../engine/idempotency.js';
import { type JsonNode } from '../engine/json.js';
import type { Project } from '../engine/project.js';
import { insertRecords } from '../engine/records.js';
import { collectSql } from '../engine/sql/collect.js';
import { checkTableInPath, createTable, dropTable, readSchema, readTable } from '../engine/tables.js';
import type { TableDescription } from '../postgres/catalog.js';
import { requireScope, runsAsReader } from './authenticate.js';
import { decodeBody } from './body.js';
import type { Context, Route } from './route.js';
import { sqlAnswer, streamAnswer, streamFormat } from './sql-answer.js';

const TableInPath = Type.Object({ table_name: Type.String() });
const ColumnInPath = Type.Object({ table_name: Type.String(), column_name: Type.String() });

const TABLE_EXAMPLE = {
  name: 'customers',
  kind: 'table',
  comment: 'People who bought something',
  approximate_rows: 250,
  columns: [
    { name: 'id', type: 'uuid', comment: null },
    { name: 'email', type: 'TEXT', comment: 'Primary address' },
    { name: 'age', type: 'INTEGER', comment: null },
    { name: 'signed_up', type: 'TIMESTAMP', comment: null },
  ],
};

const SCHEMA_ERRORS = ['table_busy', 'outcome_unknown'] as const;

export const ROUTES: readonly Route[] = [
  {
    method: 'POST',
    url: '/api/cdp/schema/table',
    access: ['schema:write'],
    operationId: 'createTable',
    summary: 'Create a table',
    description: 'Adds an `id` column (UUID v7) as primary key. Table, columns and comments come in one transaction.',
    tag: 'schema',
    body: wire.CreateTableBody,
    example: {
      table_name: 'customers',
      comment: 'People who bought something',
      columns: [
        { name: 'email', type: 'TEXT', comment: 'Primary address' },
        { name: 'age', type: 'INTEGER' },
        { name: 'signed_up', type: 'TIMESTAMP' },
      ],
    },
    success: {
      status: 201,
      answer: wire.CreateTableAnswer,
      example: {
        success: true,
        message: 'table created',
        table: 'customers',
        columns: ['id', 'email', 'age', 'signed_up'],
      },
    },
    errors: ['invalid_name', 'reserved_name', 'unknown_type', 'table_exists', ...SCHEMA_ERRORS],
    async handle(context) {
      const body = context.request.body as wire.CreateTableBody;
      refuseUnstorable(body.comment, ...body.columns.map(({ comment }) => comment));
      const columns = await createTable(project(context), body, limits(context));
      return created({ success: true, message: 'table created', table: body.table_name, columns });
    },
  },
  {
    method: 'POST',
    url: '/api/cdp/schema/table/:table_name/column',
    access: ['schema:write'],
    operationId: 'addColumn',
    summary: 'Add a column',
    tag: 'schema',
    params: TableInPath,
    body: wire.AddColumnBody,
    example: { name: 'country', type: 'TEXT', comment: 'ISO 3166-1 alpha-2' },
    success: {
      status: 201,
      answer: wire.ColumnAnswer,
      example: {
        success: true,
        message: 'column added',
        table: 'customers',
        column: { name: 'country', type: 'TEXT', comment: 'ISO 3166-1 alpha-2' },
      },
    },
    errors: ['invalid_name', 'reserved_name', 'unknown_type', 'table_not_found', 'column_exists', ...SCHEMA_ERRORS],
    async handle(context) {
      const body = context.request.body as wire.AddColumnBody;
      refuseUnstorable(body.comment);
      const table = tableInPath(context);
      const column = await addColumn(project(context), table, body, limits(context));
      return created({ success: true, message: 'column added', table, column });
    },
  },
  {
    method: 'PUT',
    url: '/api/cdp/schema/table/:table_name/column/:column_name',
    access: ['schema:write'],
    operationId: 'alterColumn',
    summary: 'Rename, retype or comment a column',
    description:
      'At least one of the three, all in one transaction. A type change keeps every value or changes nothing.',
    tag: 'schema',
    params: ColumnInPath,
    body: wire.AlterColumnBody,
    example: { new_name: 'country_code', comment: '' },
    success: {
      status: 200,
      answer: wire.ColumnAnswer,
      example: {
        success: true,
        message: 'column altered',
        table: 'customers',
        column: { name: 'country_code', type: 'TEXT', comment: null },
      },
    },
    errors: [
      'invalid_name',
      'reserved_name',
      'unknown_type',
      'table_not_found',
      'column_not_found',
      'column_exists',
      'not_convertible',
      'dependent_objects',
      'unique_violation',
      // What the project's own indexes, checks and their functions say to the new values.
      'constraint_violation',
      'row_too_large',
      'sql_error',
      ...SCHEMA_ERRORS,
    ],
    async handle(context) {
      const body = context.request.body as wire.AlterColumnBody;
      refuseUnstorable(body.comment);
      const table = tableInPath(context);
      const column = await alterColumn(project(context), table, columnInPath(context), body, limits(context));
      return ok({ success: true, message: 'column altered', table, column });
    },
  },
  {
    method: 'GET',
    url: '/api/cdp/schema',
    access: ['schema:read'],
    operationId: 'readSchema',
    summary: 'All tables with their columns',
    tag: 'schema',
    success: {
      status: 200,
      answer: wire.SchemaAnswer,
      example: { success: true, message: '1 table', tables: [TABLE_EXAMPLE] },
    },
    errors: [],
    async handle(context) {
      const tables = await readSchema(project(context), limits(context));
      const message = `${tables.length} ${tables.length === 1 ? 'table' : 'tables'}`;
      return ok({ success: true, message, tables: tables.map(shown) });
    },
  },
  {
    method: 'GET',
    url: '/api/cdp/schema/table/:table_name',
    access: ['schema:read'],
    operationId: 'readTable',
    summary: 'One table with its columns',
    tag: 'schema',
    params: TableInPath,
    success: {
      status: 200,
      answer: wire.TableAnswer,
      example: {
        success: true,
        message: 'table found',
        table: TABLE_EXAMPLE,
      },
    },
    errors: ['table_not_found'],
    async handle(context) {
      const table = await readTable(project(context), tableInPath(context), limits(context));
      return ok({ success: true, message: 'table found', table: shown(table) });
    },
  },
  {
    method: 'DELETE',
    url: '/api/cdp/schema/table/:table_name',
    access: ['schema:write'],
    operationId: 'dropTable',
    summary: 'Drop a table with its records',
    tag: 'schema',
    params: TableInPath,
    success: {
      status: 200,
      answer: wire.DropTableAnswer,
      example: { success: true, message: 'table dropped', table: 'customers' },
    },
    errors: ['table_not_found', 'dependent_objects', ...SCHEMA_ERRORS],
    async handle(context) {
      const table = tableInPath(context);
      await dropTable(project(context), table, limits(context));
      return ok({ success: true, message: 'table dropped', table });
    },
  },
  {
    method: 'DELETE',
    url: '/api/cdp/schema/table/:table_name/column/:column_name',
    access: ['schema:write'],
    operationId: 'dropColumn',
    summary: 'Drop a column with its values',
    tag: 'schema',
    params: ColumnInPath,
    success: {
      status: 200,
      answer: wire.DropColumnAnswer,
      example: { success: true, message: 'column dropped', table: 'customers', column: 'country' },
    },
    errors: ['reserved_name', 'table_not_found', 'column_not_found', 'dependent_objects', ...SCHEMA_ERRORS],
    async handle(context) {
      const table = tableInPath(context);
      const column = columnInPath(context);
      await dropColumn(project(context), table, column, limits(context));
      return ok({ success: true, message: 'column dropped', table, column });
    },
  },
  {
    method: 'POST',
    url: '/api/cdp/data/:table_name',
    access: ['data:write'],
    operationId: 'insertRecords',
    summary: 'Insert 1 to 250 records in one transaction',
    description:
      'All or none. A missing key takes the default of its column. With the header `Idempotency-Key` (1 to 255 ' +
      'characters) a repeat within 24 hours answers the first answer and inserts nothing. The body may be gzipped.',
    tag: 'data',
    params: TableInPath,
    query: wire.BatchQuery,
    body: wire.BatchBody,
    rawBody: true,
    example: [
      { email: 'ada@example.com', age: 36, signed_up: '2026-01-31T09:30:00Z' },
      { email: 'grace@example.com', age: null },
    ],
    success: {
      status: 201,
      answer: wire.BatchAnswer,
      example: { success: true, inserted_rows: 2, message: '2 records inserted' },
    },
    errors: [
      'empty_batch',
      'too_many_records',
      'unknown_column',
      'invalid_value',
      'constraint_violation',
      'row_too_large',
      'table_not_found',
      'unique_violation',
      'request_in_flight',
      'idempotency_key_reused',
      'permission_denied',
      'table_busy',
      'query_timeout',
      'outcome_unknown',
    ],
    async handle(context) {
      const { request, signal } = context;
      const table = tableInPath(context);
      const body = await decodeBody(request);
      const returnIds = (request.query as wire.BatchQuery).return === 'ids';
      const { 'idempotency-key': header } = request.headers;
      const idempotency =
        header === undefined ? null : idempotencyKey(String(header), table, returnIds ? 'return=ids' : '', body);
      const inserted = await insertRecords(project(context), table, body, { returnIds, idempotency, signal });
      request.rows = inserted.replayed ? 0 : inserted.answer.inserted_rows;
      const headers = inserted.replayed ? { 'idempotency-replayed': 'true' } : {};
      return { ...created(inserted.answer), headers };
    },
  },
  {
    method: 'POST',
    url: '/api/cdp/sql',
    // Which of the two the request needs shows only in its body.
    access: ['sql:read', 'sql:write'],
    operationId: 'runSql',
    summary: 'Run SQL',
    description:
      'One request is one transaction. With `read_only`, or with a token that has sql:read alone, it runs as the ' +
      'reader in a READ ONLY transaction. `Accept: application/x-ndjson` or `text/csv` streams the rows without a cap.',
    tag: 'sql',
    body: wire.SqlBody,
    dataField: 'params',
    example: { sql: 'SELECT email FROM customers WHERE age > $1', params: [30] },
    success: {
      status: 200,
      answer: wire.SqlAnswer,
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
      'sql_error',
      'statement_not_allowed',
      'invalid_value',
      'result_too_large',
      'row_too_large',
      'constraint_violation',
      'unique_violation',
      'table_exists',
      'column_exists',
      'dependent_objects',
      'permission_denied',
      'table_busy',
      'query_timeout',
      'outcome_unknown',
    ],
    async handle(context) {
      const { request, caller } = context;
      const body = request.body as wire.SqlBody;
      if (Buffer.byteLength(body.sql) > LIMITS.sqlBytes) {
        throw new EngineError('payload_too_large', `"sql" is larger than ${LIMITS.sqlBytes} bytes`);
      }
      const readOnly = runsAsReader(caller, body.read_only);
      requireScope(caller, readOnly ? 'sql:read' : 'sql:write');
      const sqlRequest = {
        sql: body.sql,
        params: paramsOf(context),
        readOnly,
        timeoutMs: body.timeout_ms ?? LIMITS.timeoutMsDefault,
        rowMode: body.row_mode ?? 'object',
        signal: context.signal,
      };
      const format = streamFormat(request.headers.accept);
      if (format !== null) {
        await streamAnswer(context, project(context), { ...sqlRequest, format });
        return { status: 200, body: null };
      }
      const maxRows = body.max_rows ?? LIMITS.maxRowsDefault;
      const results = await collectSql(project(context), { ...sqlRequest, maxRows });
      request.rows = results.at(-1)?.rowCount ?? 0;
      return { status: 200, body: sqlAnswer(results) };
    },
  },
];

const ok = (body: object) => ({ status: 200, body });
const created = (body: object) => ({ status: 201, body });

function project({ engine, caller }: Context): Project {
  if (caller.project === null) throw new Error('The route needs a project and its access is admin');
  return engine.project(caller.project);
}

const limits = ({ settings, signal }: Context) => ({ holdMs: settings.schemaHoldMs, signal });

function tableInPath({ request }: Context): string {
  const { table_name: name } = request.params as { table_name: string };
  checkTableInPath(name);
  return name;
}

const columnInPath = ({ request }: Context): string => (request.params as { column_name: string }).column_name;

/** Postgres text holds no U+0000, and a lone surrogate has no UTF-8. */
function refuseUnstorable(...comments: (string | null | undefined)[]): void {
  for (const comment of comments) {
    const refusal = comment == null ? undefined : refuseText(comment);
    if (refusal !== undefined) throw new EngineError('invalid_request', `comment: ${refusal.reason}`);
  }
}

/** The params as they were sent, digit by digit. */
function paramsOf({ request }: Context): readonly JsonNode[] {
  const root = request.document?.root;
  const params = root?.kind === 'object' ? root.members.find(([key]) => key === 'params')?.[1] : undefined;
  return params?.kind === 'array' ? params.items : [];
}

const shown = ({ name, kind, comment, approximateRows, columns }: TableDescription): wire.Table => ({
  name,
  kind,
  comment,
  approximate_rows: approximateRows,
  columns: columns.map((column) => ({ name: column.name, type: column.displayType, comment: column.comment })),
});
