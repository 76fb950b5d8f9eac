/** The operations on tables (contract C6). */
import { counted } from '../../contract/message-text.js';
import * as distribution from '../../contract/wire/distribution.js';
import * as wire from '../../contract/wire/tables.js';
import { memberOf } from '../../codec/index.js';
import { shownColumn } from '../../engine/schema/column-properties.js';
import { distributeTable } from '../../engine/schema/distribution.js';
import type { ColumnDefinition } from '../../engine/schema/definition.js';
import { alterTable, createTable, dropTable, readSchema, readTable } from '../../engine/schema/tables.js';
import type { Table } from '../../engine/catalog/catalog.js';
import { changeOptions, exactValue, projectOf, schemaOptions, TableInPath, tableInPath } from './call-inputs.js';
import { GROWING_ERRORS, type Operation, SCHEMA_ERRORS, succeeds } from './operation.js';
import type { Call } from '../route.js';

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

const CREATE_TABLE: Operation = {
  method: 'POST',
  url: '/api/cdp/schema/table',
  access: ['schema:write'],
  operationId: 'createTable',
  hasDryRun: true,
  summary: 'Create a table',
  description: 'Adds an `id` column (UUID v7) as primary key. One transaction creates table, columns and comments.',
  key: 'accepted',
  tag: 'schema',
  audit: { operation: 'create_table', isChange: true, object: 'table_name' },
  slot: 'typed',
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
    const body = call.request.body as wire.CreateTableBody;
    const definition = { ...body, columns: await withDefaults(call, body.columns) };
    const { response: columns, replayed } = await createTable(projectOf(call), definition, changeOptions(call));
    return { body: { success: true, message: 'table created', table: body.table_name, columns }, replayed };
  },
};

const ALTER_TABLE: Operation = {
  method: 'PUT',
  url: '/api/cdp/schema/table/:table_name',
  access: ['schema:write'],
  operationId: 'alterTable',
  hasDryRun: true,
  summary: 'Rename or comment a table',
  description: 'Give at least one of the two; both are changed in one transaction. Indexes keep their names.',
  key: 'accepted',
  tag: 'schema',
  audit: { operation: 'alter_table', isChange: true },
  slot: 'typed',
  command: 'ALTER TABLE',
  params: TableInPath,
  body: wire.AlterTableBody,
  example: { new_name: 'buyers', comment: '' },
  success: succeeds(200, wire.AlterTableResponse, 'table altered', { table: 'buyers', comment: null }),
  errors: ['invalid_name', 'reserved_name', 'table_not_found', 'table_exists', ...GROWING_ERRORS],
  async handle(call) {
    const body = call.request.body as wire.AlterTableBody;
    const { response, replayed } = await alterTable(projectOf(call), tableInPath(call), body, changeOptions(call));
    return { body: { success: true, message: 'table altered', ...response }, replayed };
  },
};

export const READ_SCHEMA: Operation = {
  method: 'GET',
  url: '/api/cdp/schema',
  access: ['schema:read'],
  operationId: 'readSchema',
  summary: 'List all tables with their columns',
  tag: 'schema',
  audit: { operation: 'read_schema', isChange: false },
  slot: 'typed',
  success: succeeds(200, wire.SchemaResponse, '1 table', { tables: [TABLE_EXAMPLE] }),
  errors: ['result_too_large'],
  async handle(call) {
    const tables = await readSchema(projectOf(call), schemaOptions(call));
    const message = counted(tables.length, 'table');
    return { body: { success: true, message, tables: tables.map(shownTable) } };
  },
};

export const READ_TABLE: Operation = {
  method: 'GET',
  url: '/api/cdp/schema/table/:table_name',
  access: ['schema:read'],
  operationId: 'readTable',
  summary: 'Show one table with its columns and indexes',
  tag: 'schema',
  audit: { operation: 'read_table', isChange: false },
  slot: 'typed',
  params: TableInPath,
  success: succeeds(200, wire.TableResponse, 'table found', {
    table: { ...TABLE_EXAMPLE, indexes: [PRIMARY_KEY] },
  }),
  errors: ['table_not_found'],
  async handle(call) {
    const table = await readTable(projectOf(call), tableInPath(call), schemaOptions(call));
    return { body: { success: true, message: 'table found', table: { ...shownTable(table), indexes: table.indexes } } };
  },
};

const DROP_TABLE: Operation = {
  method: 'DELETE',
  url: '/api/cdp/schema/table/:table_name',
  access: ['schema:write'],
  operationId: 'dropTable',
  hasDryRun: true,
  summary: 'Drop a table with its records',
  key: 'accepted',
  tag: 'schema',
  audit: { operation: 'drop_table', isChange: true },
  slot: 'typed',
  command: 'DROP TABLE',
  params: TableInPath,
  success: succeeds(200, wire.DropTableResponse, 'table dropped', { table: 'customers' }),
  errors: ['table_not_found', 'dependent_objects', ...SCHEMA_ERRORS],
  async handle(call) {
    const tableName = tableInPath(call);
    const { replayed } = await dropTable(projectOf(call), tableName, changeOptions(call));
    return { body: { success: true, message: 'table dropped', table: tableName }, replayed };
  },
};

const DISTRIBUTE_TABLE: Operation = {
  method: 'PUT',
  url: '/api/cdp/schema/table/:table_name/distribution',
  access: ['schema:write'],
  operationId: 'distributeTable',
  hasDryRun: true,
  summary: 'Distribute a table over the workers of a Citus cluster, or make it local again',
  description:
    'Only for projects on a cluster. The rows are copied in one transaction, during which the table cannot be used. A primary key that is only `id` also gets the distribution column.',
  key: 'accepted',
  tag: 'schema',
  audit: { operation: 'distribute_table', isChange: true },
  slot: 'typed',
  params: TableInPath,
  body: distribution.DistributeBody,
  example: { kind: 'hash', column: 'customer_id' },
  success: succeeds(200, distribution.DistributionResponse, 'table distributed', {
    table: 'orders',
    distribution: { kind: 'hash', column: 'customer_id' },
    primary_key: ['id', 'customer_id'],
  }),
  errors: ['table_not_found', 'unknown_column', ...GROWING_ERRORS],
  async handle(call) {
    const tableName = tableInPath(call);
    const body = call.request.body as distribution.DistributeBody;
    const { response, replayed } = await distributeTable(projectOf(call), tableName, body, changeOptions(call));
    const { kind, column, primaryKey } = response;
    const message = kind === 'local' ? 'table is local' : 'table distributed';
    const facts = { table: tableName, distribution: { kind, column }, primary_key: primaryKey };
    return { body: { success: true, message, ...facts }, replayed };
  },
};

/** With every digit of the defaults. */
async function withDefaults(call: Call, columns: readonly wire.AddColumnBody[]): Promise<ColumnDefinition[]> {
  const hasDefaults = columns.some((column) => column.default !== undefined);
  const read = hasDefaults ? await exactValue(call, 'columns') : undefined;
  const nodes = read?.kind === 'array' ? read.items : [];
  return columns.map(({ default: _, ...column }, i) => {
    const value = memberOf(nodes[i], 'default');
    return value === undefined ? column : { ...column, default: value };
  });
}

export const shownTable = ({ name, kind, comment, approximateRows, columns, distribution }: Table): wire.Table => ({
  name,
  kind,
  comment,
  approximate_rows: approximateRows,
  columns: columns.map(shownColumn),
  ...(distribution === undefined ? {} : { distribution }),
});

export const TABLES: readonly Operation[] = [
  CREATE_TABLE,
  ALTER_TABLE,
  READ_SCHEMA,
  READ_TABLE,
  DROP_TABLE,
  DISTRIBUTE_TABLE,
];
