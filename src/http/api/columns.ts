/** The operations on columns (contract C6). */
import * as wire from '../../contract/wire/tables.js';
import { addColumn, alterColumn, dropColumn } from '../../engine/schema/columns.js';
import {
  changeOptions,
  ColumnInPath,
  columnInPath,
  exactValue,
  projectOf,
  TableInPath,
  tableInPath,
} from './call-inputs.js';
import { GROWING_ERRORS, type Operation, SCHEMA_ERRORS, succeeds } from './operation.js';
import type { Call } from '../route.js';

const ADD_COLUMN: Operation = {
  method: 'POST',
  url: '/api/cdp/schema/table/:table_name/column',
  access: ['schema:write'],
  operationId: 'addColumn',
  hasDryRun: true,
  summary: 'Add a column',
  key: 'accepted',
  tag: 'schema',
  audit: { operation: 'add_column', isChange: true, object: 'name' },
  slot: 'typed',
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
    const { body } = call.request;
    const tableName = tableInPath(call);
    const definition = await withDefault(call, body as wire.AddColumnBody);
    const { response: column, replayed } = await addColumn(projectOf(call), tableName, definition, changeOptions(call));
    return { body: { success: true, message: 'column added', table: tableName, column }, replayed };
  },
};

const ALTER_COLUMN: Operation = {
  method: 'PUT',
  url: '/api/cdp/schema/table/:table_name/column/:column_name',
  access: ['schema:write'],
  operationId: 'alterColumn',
  hasDryRun: true,
  summary: 'Change a column: name, type, comment, default, NOT NULL, unique',
  description:
    'Give at least one; all are changed in one transaction. A type change keeps every value or changes nothing.',
  key: 'accepted',
  tag: 'schema',
  audit: { operation: 'alter_column', isChange: true },
  slot: 'typed',
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
    ...GROWING_ERRORS,
  ],
  async handle(call) {
    const { body, query } = call.request;
    const tableName = tableInPath(call);
    const { response: column, replayed } = await alterColumn(
      projectOf(call),
      tableName,
      columnInPath(call),
      await withDefault(call, body as wire.AlterColumnBody),
      { ...changeOptions(call), showValues: (query as wire.AlterColumnQuery).return === 'values' && mayReadAll(call) },
    );
    return { body: { success: true, message: 'column altered', table: tableName, column }, replayed };
  },
};

const DROP_COLUMN: Operation = {
  method: 'DELETE',
  url: '/api/cdp/schema/table/:table_name/column/:column_name',
  access: ['schema:write'],
  operationId: 'dropColumn',
  hasDryRun: true,
  summary: 'Drop a column with its values',
  key: 'accepted',
  tag: 'schema',
  audit: { operation: 'drop_column', isChange: true },
  slot: 'typed',
  command: 'ALTER TABLE',
  params: ColumnInPath,
  success: succeeds(200, wire.DropColumnResponse, 'column dropped', { table: 'customers', column: 'country' }),
  errors: ['reserved_name', 'table_not_found', 'column_not_found', 'dependent_objects', ...SCHEMA_ERRORS],
  async handle(call) {
    const tableName = tableInPath(call);
    const column = columnInPath(call);
    const { replayed } = await dropColumn(projectOf(call), tableName, column, changeOptions(call));
    return { body: { success: true, message: 'column dropped', table: tableName, column }, replayed };
  },
};

/**
 * Whether an error may list values: only if the caller can query every row. Row level security may hide some from the
 * reader.
 */
const mayReadAll = ({ caller }: Call): boolean => caller.scopes.has('sql:write');

/** With every digit of the default. */
async function withDefault<Body extends { default?: unknown }>(call: Call, { default: defaultValue, ...body }: Body) {
  const value = defaultValue === undefined ? undefined : await exactValue(call, 'default');
  return value === undefined ? body : { ...body, default: value };
}

export const COLUMNS: readonly Operation[] = [ADD_COLUMN, ALTER_COLUMN, DROP_COLUMN];
