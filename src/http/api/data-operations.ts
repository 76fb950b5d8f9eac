/**
 * The calls of the API that change records: batch inserts (specification 4.4; contract section 6), and deletes by key.
 */
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import * as wire from '../../contract/wire/batch.js';
import { deletesFrom } from '../../engine/write/idempotency.js';
import { deleteRecords } from '../../engine/insert/delete-records.js';
import { insertRecords } from '../../engine/insert/insert.js';
import { rowsChanged } from '../../engine/insert/insert-request.js';
import type { UpsertRule } from '../../engine/insert/upsert.js';
import { decodeBody } from '../body.js';
import { keyFor, projectOf, TableInPath, tableInPath } from './call.js';
import type { Operation } from './route.js';

/** Errors of every operation that changes records. */
export const RECORD_ERRORS = ['permission_denied', 'table_busy', 'query_timeout', 'outcome_unknown'] as const;

export const INSERT_RECORDS: Operation = {
  operationId: 'insertRecords',
  hasDryRun: true,
  summary: 'Insert 1 to 250 records in one transaction',
  description:
    "All or none. A missing key takes its column's default. With the header `Idempotency-Key` (1 to " +
    `${LIMITS.idempotencyKeyCharacters} characters) a retry within ${LIMITS.idempotencyHours} hours returns the first ` +
    'response and inserts nothing. The body may be gzipped.',
  tag: 'data',
  audit: 'insert',
  work: 'typed',
  command: 'INSERT',
  params: TableInPath,
  query: wire.BatchQuery,
  key: 'taken',
  body: wire.BatchBody,
  rawBody: 'json',
  example: [
    { email: 'ada@example.com', age: 36, signed_up: '2026-01-31T09:30:00Z' },
    { email: 'grace@example.com', age: null },
  ],
  success: {
    status: 201,
    response: wire.BatchResponse,
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
    'quota_exceeded',
    ...RECORD_ERRORS,
  ],
  async handle(call) {
    const { request, signal } = call;
    const tableName = tableInPath(call);
    const body = await decodeBody(request);
    const query = request.query as wire.BatchQuery;
    const returnIds = query.return === 'ids';
    const upsert = upsertRule(query);
    const quarantine = query.on_error === 'quarantine';
    if (quarantine && returnIds) {
      throw new EngineError('invalid_request', '`return=ids` cannot be combined with `on_error=quarantine`');
    }
    const idempotency = keyFor(call, tableName, queryText(query), body);
    const options = { returnIds, idempotency, upsert, quarantine, signal };
    const { response, replayed } = await insertRecords({ project: projectOf(call), tableName, body, ...options });
    const { quarantined_rows = 0 } = response;
    return { body: quarantine ? { ...response, quarantined_rows } : response, rows: rowsChanged(response), replayed };
  },
};

export const DELETE_RECORDS: Operation = {
  operationId: 'deleteRecords',
  hasDryRun: true,
  summary: 'Delete rows by 1 to 250 keys in one transaction',
  description:
    'All or none. Each record of the body has the columns of `by` and no others; keys that match no row delete nothing. ' +
    '`Idempotency-Key` works as for inserts.',
  tag: 'data',
  audit: 'delete',
  work: 'typed',
  command: 'DELETE',
  params: TableInPath,
  query: wire.DeleteQuery,
  key: 'taken',
  body: wire.DeleteBody,
  rawBody: 'json',
  example: [{ email: 'ada@example.com' }, { email: 'grace@example.com' }],
  success: {
    status: 200,
    response: wire.DeleteResponse,
    example: { success: true, deleted_rows: 2, message: '2 records deleted' },
  },
  errors: [
    'empty_batch',
    'too_many_records',
    'unknown_column',
    'invalid_value',
    'constraint_violation',
    'table_not_found',
    ...RECORD_ERRORS,
  ],
  async handle(call) {
    const { request, signal } = call;
    const table = tableInPath(call);
    const bytes = await decodeBody(request);
    const { by } = request.query as wire.DeleteQuery;
    const idempotency = keyFor(call, deletesFrom(table), `by=${by}`, bytes);
    const options = { by: names(by), idempotency, signal };
    const { response, replayed } = await deleteRecords(projectOf(call), table, bytes, options);
    return { body: response, rows: response.deleted_rows, replayed };
  },
};

/** Splits a comma-separated list of column names. */
const names = (list: string): string[] => [...new Set(list.split(','))];

type UpsertFields = Pick<wire.BatchQuery, 'on_conflict' | 'resolution'>;

/** @throws EngineError invalid_request */
export function upsertRule({ on_conflict: columns, resolution }: UpsertFields): UpsertRule | null {
  if (columns !== undefined) return { columns: names(columns), resolution: resolution ?? 'merge' };
  if (resolution === undefined) return null;
  throw new EngineError('invalid_request', '`resolution` needs `on_conflict`', {
    hint: 'Name the columns of a unique index, such as on_conflict=email.',
  });
}

/** The query in canonical form, for the fingerprint of a key. */
const queryText = (query: wire.BatchQuery): string =>
  (['return', 'on_conflict', 'resolution', 'on_error'] as const)
    .flatMap((name) => (query[name] === undefined ? [] : [`${name}=${query[name]}`]))
    .join('&');
