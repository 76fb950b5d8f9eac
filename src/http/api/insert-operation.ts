/** The batch insert of the API (specification 4.4; contract section 6), as routes.ts lists it. */
import { LIMITS } from '../../contract/limits.js';
import { IdempotencyHeaders } from '../../contract/wire/idempotency.js';
import * as wire from '../../contract/wire/batch.js';
import { idempotencyKey } from '../../engine/idempotency.js';
import { insertRecords } from '../../engine/insert/insert.js';
import { decodeBody } from '../body.js';
import { answered, type Operation, project, TableInPath, tableInPath } from './route.js';

export const INSERT_RECORDS: Operation = {
  operationId: 'insertRecords',
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
  headers: IdempotencyHeaders,
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
    'quota_exceeded',
    'permission_denied',
    'table_busy',
    'query_timeout',
    'outcome_unknown',
  ],
  async handle(call) {
    const { request, signal } = call;
    const table = tableInPath(call);
    const body = await decodeBody(request);
    const returnIds = (request.query as wire.BatchQuery).return === 'ids';
    const { 'idempotency-key': header } = request.headers;
    const idempotency =
      header === undefined ? null : idempotencyKey(String(header), table, returnIds ? 'return=ids' : '', body);
    const inserted = await insertRecords(project(call), table, body, { returnIds, idempotency, signal });
    request.context.rows = inserted.replayed ? 0 : inserted.answer.inserted_rows;
    return answered(inserted.answer, inserted.replayed);
  },
};
