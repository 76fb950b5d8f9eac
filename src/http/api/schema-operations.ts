/**
 * The schema calls of the API (specification 4.1 to 4.3; reads and drops of contract section 5).
 */
import { readDataBody } from '../../codec/index.js';
import { counted } from '../../contract/message-text.js';
import * as wire from '../../contract/wire/tables.js';
import { shownColumn } from '../../engine/schema/column-properties.js';
import { addColumn, alterColumn, dropColumn } from '../../engine/schema/columns.js';
import type { ColumnDefinition } from '../../engine/schema/definition.js';
import { alterTable, createTable, dropTable, readSchema, readTable } from '../../engine/schema/tables.js';
import type { Table } from '../../engine/catalog/catalog.js';
import { memberOf } from '../body.js';
import { ColumnInPath, columnInPath, keyOfRequest, projectOf, TableInPath, tableInPath } from './call.js';
import { type Call, type Operation, succeeds } from './route.js';

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

const PRIMARY_KEY = {
  name: 'customers_pkey',
  columns: ['id'],
  unique: true,
  primary: true,
  partial: false,
  valid: true,
};

export const SCHEMA_ERRORS = ['table_busy', 'outcome_unknown', 'citus_limit'] as const;
export const GROWING_ERRORS = ['quota_exceeded', ...SCHEMA_ERRORS] as const;

export const CREATE_TABLE: Operation = {
  operationId: 'createTable',
  hasDryRun: true,
  summary: 'Create a table',
  description: 'Adds an `id` column (UUID v7) as primary key. One transaction creates table, columns and comments.',
  key: 'taken',
  tag: 'schema',
  audit: 'create_table',
  work: 'typed',
  command: 'CREATE TABLE',
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
  success: succeeds(201, wire.CreateTableResponse, 'table created', {
    table: 'customers',
    columns: ['id', 'email', 'age', 'signed_up'],
  }),
  errors: ['invalid_name', 'reserved_name', 'unknown_type', 'invalid_value', 'table_exists', ...GROWING_ERRORS],
  async handle(call) {
    const { context } = call.request;
    const body = call.request.body as wire.CreateTableBody;
    const definition = { ...body, columns: withDefaults(body.columns, context.body) };
    const { response: columns, replayed } = await createTable(projectOf(call), definition, changeOptions(call));
    return { body: { success: true, message: 'table created', table: body.table_name, columns }, replayed };
  },
};

export const ALTER_TABLE: Operation = {
  operationId: 'alterTable',
  hasDryRun: true,
  summary: 'Rename or comment a table',
  description: 'Give at least one of the two; both are changed in one transaction. Indexes keep their names.',
  key: 'taken',
  tag: 'schema',
  audit: 'alter_table',
  work: 'typed',
  command: 'ALTER TABLE',
  params: TableInPath,
  body: wire.AlterTableBody,
  example: { new_name: 'buyers', comment: '' },
  success: succeeds(200, wire.AlterTableResponse, 'table altered', { table: 'buyers', comment: null }),
  errors: ['invalid_name', 'reserved_name', 'table_not_found', 'table_exists', ...SCHEMA_ERRORS],
  async handle(call) {
    const body = call.request.body as wire.AlterTableBody;
    const { response, replayed } = await alterTable(projectOf(call), tableInPath(call), body, changeOptions(call));
    return { body: { success: true, message: 'table altered', ...response }, replayed };
  },
};

export const ADD_COLUMN: Operation = {
  operationId: 'addColumn',
  hasDryRun: true,
  summary: 'Add a column',
  key: 'taken',
  tag: 'schema',
  audit: 'add_column',
  work: 'typed',
  command: 'ALTER TABLE',
  params: TableInPath,
  body: wire.AddColumnBody,
  example: { name: 'country', type: 'TEXT', comment: 'ISO 3166-1 alpha-2' },
  success: succeeds(201, wire.ColumnResponse, 'column added', {
    table: 'customers',
    column: { name: 'country', type: 'TEXT', comment: 'ISO 3166-1 alpha-2' },
  }),
  errors: [
    'invalid_name',
    'reserved_name',
    'unknown_type',
    'invalid_value',
    'table_not_found',
    'column_exists',
    'constraint_violation',
    'unique_violation',
    ...GROWING_ERRORS,
  ],
  async handle(call) {
    const { context, body } = call.request;
    const table = tableInPath(call);
    const definition = withDefault(body as wire.AddColumnBody, context.body);
    const { response: column, replayed } = await addColumn(projectOf(call), table, definition, changeOptions(call));
    return { body: { success: true, message: 'column added', table, column }, replayed };
  },
};

export const ALTER_COLUMN: Operation = {
  operationId: 'alterColumn',
  hasDryRun: true,
  summary: 'Change a column: name, type, comment, default, NOT NULL, unique',
  description:
    'Give at least one; all are changed in one transaction. A type change keeps every value or changes nothing.',
  key: 'taken',
  tag: 'schema',
  audit: 'alter_column',
  work: 'typed',
  command: 'ALTER TABLE',
  params: ColumnInPath,
  query: wire.AlterColumnQuery,
  body: wire.AlterColumnBody,
  example: { new_name: 'country_code', comment: '' },
  success: succeeds(200, wire.ColumnResponse, 'column altered', {
    table: 'customers',
    column: { name: 'country_code', type: 'TEXT', comment: null },
  }),
  errors: [
    'invalid_name',
    'reserved_name',
    'unknown_type',
    'table_not_found',
    'column_not_found',
    'column_exists',
    'invalid_value',
    'not_convertible',
    'dependent_objects',
    'unique_violation',
    // If the project's own indexes, checks or functions reject the new values.
    'constraint_violation',
    'row_too_large',
    'sql_error',
    ...GROWING_ERRORS,
  ],
  async handle(call) {
    const { context, body, query } = call.request;
    const table = tableInPath(call);
    const { response: column, replayed } = await alterColumn(
      projectOf(call),
      table,
      columnInPath(call),
      withDefault(body as wire.AlterColumnBody, context.body),
      { ...changeOptions(call), showValues: (query as wire.AlterColumnQuery).return === 'values' && mayReadAll(call) },
    );
    return { body: { success: true, message: 'column altered', table, column }, replayed };
  },
};

export const READ_SCHEMA: Operation = {
  operationId: 'readSchema',
  summary: 'List all tables with their columns',
  tag: 'schema',
  audit: 'read_schema',
  work: 'typed',
  success: succeeds(200, wire.SchemaResponse, '1 table', { tables: [TABLE_EXAMPLE] }),
  errors: ['result_too_large'],
  async handle(call) {
    const tables = await readSchema(projectOf(call), schemaLimits(call));
    const message = counted(tables.length, 'table');
    return { body: { success: true, message, tables: tables.map(shownTable) } };
  },
};

export const READ_TABLE: Operation = {
  operationId: 'readTable',
  summary: 'Show one table with its columns and indexes',
  tag: 'schema',
  audit: 'read_table',
  work: 'typed',
  params: TableInPath,
  success: succeeds(200, wire.TableResponse, 'table found', {
    table: { ...TABLE_EXAMPLE, indexes: [PRIMARY_KEY] },
  }),
  errors: ['table_not_found'],
  async handle(call) {
    const table = await readTable(projectOf(call), tableInPath(call), schemaLimits(call));
    return { body: { success: true, message: 'table found', table: { ...shownTable(table), indexes: table.indexes } } };
  },
};

export const DROP_TABLE: Operation = {
  operationId: 'dropTable',
  hasDryRun: true,
  summary: 'Drop a table with its records',
  key: 'taken',
  tag: 'schema',
  audit: 'drop_table',
  work: 'typed',
  command: 'DROP TABLE',
  params: TableInPath,
  success: succeeds(200, wire.DropTableResponse, 'table dropped', { table: 'customers' }),
  errors: ['table_not_found', 'dependent_objects', ...SCHEMA_ERRORS],
  async handle(call) {
    const table = tableInPath(call);
    const { replayed } = await dropTable(projectOf(call), table, changeOptions(call));
    return { body: { success: true, message: 'table dropped', table }, replayed };
  },
};

export const DROP_COLUMN: Operation = {
  operationId: 'dropColumn',
  hasDryRun: true,
  summary: 'Drop a column with its values',
  key: 'taken',
  tag: 'schema',
  audit: 'drop_column',
  work: 'typed',
  command: 'ALTER TABLE',
  params: ColumnInPath,
  success: succeeds(200, wire.DropColumnResponse, 'column dropped', { table: 'customers', column: 'country' }),
  errors: ['reserved_name', 'table_not_found', 'column_not_found', 'dependent_objects', ...SCHEMA_ERRORS],
  async handle(call) {
    const table = tableInPath(call);
    const column = columnInPath(call);
    const { replayed } = await dropColumn(projectOf(call), table, column, changeOptions(call));
    return { body: { success: true, message: 'column dropped', table, column }, replayed };
  },
};

/**
 * Whether an error may list values: only if the caller can query every row. Row level security may hide some from the
 * reader.
 */
const mayReadAll = ({ caller }: Call): boolean => caller.scopes.has('sql:write');

/** @param bytes of the body, to keep every digit of the default */
function withDefault<Body extends { default?: unknown }>({ default: defaultValue, ...body }: Body, bytes: Buffer) {
  const value = defaultValue === undefined ? undefined : memberOf(readDataBody(bytes), 'default');
  return value === undefined ? body : { ...body, default: value };
}

/** @param bytes of the body, to keep every digit of the defaults */
function withDefaults(columns: readonly wire.AddColumnBody[], bytes: Buffer): ColumnDefinition[] {
  const read = columns.some((column) => column.default !== undefined)
    ? memberOf(readDataBody(bytes), 'columns')
    : undefined;
  const nodes = read?.kind === 'array' ? read.items : [];
  return columns.map(({ default: _, ...column }, i) => {
    const value = memberOf(nodes[i], 'default');
    return value === undefined ? column : { ...column, default: value };
  });
}

export const schemaLimits = ({ settings, signal }: Call) => ({ holdMs: settings.schemaHoldMs, signal });

export const changeOptions = (call: Call) => ({ ...schemaLimits(call), idempotency: keyOfRequest(call) });

export const shownTable = ({ name, kind, comment, approximateRows, columns, distribution }: Table): wire.Table => ({
  name,
  kind,
  comment,
  approximate_rows: approximateRows,
  columns: columns.map(shownColumn),
  ...(distribution === undefined ? {} : { distribution }),
});
