/** The calls of the API for indexes. */
import { counted } from '../../contract/message-text.js';
import * as wire from '../../contract/wire/indexes.js';
import { createIndex, dropIndex, listIndexes } from '../../engine/schema/indexes.js';
import { IndexInPath, indexInPath, projectOf, TableInPath, tableInPath } from './call.js';
import { type Operation, succeeds } from './route.js';
import { changeOptions, GROWING_ERRORS, schemaLimits, SCHEMA_ERRORS } from './schema-operations.js';

const INDEX_EXAMPLE = {
  name: 'customers_email_idx',
  columns: ['email'],
  unique: true,
  primary: false,
  partial: false,
  valid: true,
};

export const CREATE_INDEX: Operation = {
  operationId: 'createIndex',
  hasDryRun: true,
  summary: 'Create an index',
  description: 'While the index is built, the table can be read but not written. Upserts need a unique index.',
  key: 'taken',
  tag: 'schema',
  audit: 'create_index',
  work: 'typed',
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
    'sql_error',
    ...GROWING_ERRORS,
  ],
  async handle(call) {
    const table = tableInPath(call);
    const body = call.request.body as wire.CreateIndexBody;
    const { response: index, replayed } = await createIndex(projectOf(call), table, body, changeOptions(call));
    return { body: { success: true, message: 'index created', table, index }, replayed };
  },
};

export const READ_INDEXES: Operation = {
  operationId: 'readIndexes',
  summary: 'List the indexes of a table',
  tag: 'schema',
  audit: 'read_indexes',
  work: 'typed',
  params: TableInPath,
  success: succeeds(200, wire.IndexesResponse, '2 indexes', {
    table: 'customers',
    indexes: [{ ...INDEX_EXAMPLE, name: 'customers_pkey', columns: ['id'], primary: true }, INDEX_EXAMPLE],
  }),
  errors: ['table_not_found'],
  async handle(call) {
    const table = tableInPath(call);
    const indexes = await listIndexes(projectOf(call), table, schemaLimits(call));
    const message = counted(indexes.length, 'index', 'indexes');
    return { body: { success: true, message, table, indexes } };
  },
};

export const DROP_INDEX: Operation = {
  operationId: 'dropIndex',
  hasDryRun: true,
  summary: 'Drop an index',
  description:
    'Also drops the unique constraint that the index belongs to. The index of the primary key cannot be dropped.',
  key: 'taken',
  tag: 'schema',
  audit: 'drop_index',
  work: 'typed',
  command: 'DROP INDEX',
  params: IndexInPath,
  success: succeeds(200, wire.DropIndexResponse, 'index dropped', { table: 'customers', index: 'customers_email_idx' }),
  errors: ['reserved_name', 'table_not_found', 'index_not_found', 'dependent_objects', ...SCHEMA_ERRORS],
  async handle(call) {
    const table = tableInPath(call);
    const index = indexInPath(call);
    const { replayed } = await dropIndex(projectOf(call), table, index, changeOptions(call));
    return { body: { success: true, message: 'index dropped', table, index }, replayed };
  },
};
