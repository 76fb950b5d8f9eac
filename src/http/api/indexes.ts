/** The operations on indexes. */
import { counted } from '../../contract/message-text.js';
import * as wire from '../../contract/wire/indexes.js';
import { createIndex, dropIndex, listIndexes } from '../../engine/schema/indexes.js';
import {
  changeOptions,
  IndexInPath,
  indexInPath,
  projectOf,
  schemaOptions,
  TableInPath,
  tableInPath,
} from './call-inputs.js';
import { GROWING_ERRORS, type Operation, SCHEMA_ERRORS, succeeds } from './operation.js';

const INDEX_EXAMPLE = {
  name: 'customers_email_idx',
  columns: ['email'],
  unique: true,
  primary: false,
  partial: false,
  valid: true,
};

const CREATE_INDEX: Operation = {
  method: 'POST',
  url: '/api/cdp/schema/table/:table_name/index',
  access: ['schema:write'],
  operationId: 'createIndex',
  hasDryRun: true,
  summary: 'Create an index',
  description: 'While the index is built, the table can be read but not written. Upserts need a unique index.',
  key: 'accepted',
  tag: 'schema',
  audit: { operation: 'create_index', isChange: true },
  slot: 'typed',
  command: 'CREATE INDEX',
  params: TableInPath,
  body: wire.CreateIndexBody,
  example: { columns: ['email'], unique: true },
  success: succeeds(201, wire.IndexResponse, 'index created', { table: 'customers', index: INDEX_EXAMPLE }),
  errors: [
    'invalid_name',
    'reserved_name',
    'unknown_column',
    'table_not_found',
    'table_exists',
    'unique_violation',
    // If Postgres cannot index the values or types.
    'row_too_large',
    ...GROWING_ERRORS,
  ],
  async handle(call) {
    const tableName = tableInPath(call);
    const body = call.request.body as wire.CreateIndexBody;
    const { response: index, replayed } = await createIndex(projectOf(call), tableName, body, changeOptions(call));
    return { body: { success: true, message: 'index created', table: tableName, index }, replayed };
  },
};

const READ_INDEXES: Operation = {
  method: 'GET',
  url: '/api/cdp/schema/table/:table_name/index',
  access: ['schema:read'],
  operationId: 'readIndexes',
  summary: 'List the indexes of a table',
  tag: 'schema',
  audit: { operation: 'read_indexes', isChange: false },
  slot: 'typed',
  params: TableInPath,
  success: succeeds(200, wire.IndexesResponse, '2 indexes', {
    table: 'customers',
    indexes: [{ ...INDEX_EXAMPLE, name: 'customers_pkey', columns: ['id'], primary: true }, INDEX_EXAMPLE],
  }),
  errors: ['table_not_found'],
  async handle(call) {
    const tableName = tableInPath(call);
    const indexes = await listIndexes(projectOf(call), tableName, schemaOptions(call));
    const message = counted(indexes.length, 'index', 'indexes');
    return { body: { success: true, message, table: tableName, indexes } };
  },
};

const DROP_INDEX: Operation = {
  method: 'DELETE',
  url: '/api/cdp/schema/table/:table_name/index/:index_name',
  access: ['schema:write'],
  operationId: 'dropIndex',
  hasDryRun: true,
  summary: 'Drop an index',
  description:
    'Also drops the unique constraint that the index belongs to. The index of the primary key cannot be dropped.',
  key: 'accepted',
  tag: 'schema',
  audit: { operation: 'drop_index', isChange: true },
  slot: 'typed',
  command: 'DROP INDEX',
  params: IndexInPath,
  success: succeeds(200, wire.DropIndexResponse, 'index dropped', { table: 'customers', index: 'customers_email_idx' }),
  errors: ['reserved_name', 'table_not_found', 'index_not_found', 'dependent_objects', ...SCHEMA_ERRORS],
  async handle(call) {
    const tableName = tableInPath(call);
    const index = indexInPath(call);
    const { replayed } = await dropIndex(projectOf(call), tableName, index, changeOptions(call));
    return { body: { success: true, message: 'index dropped', table: tableName, index }, replayed };
  },
};

export const INDEXES: readonly Operation[] = [CREATE_INDEX, READ_INDEXES, DROP_INDEX];
