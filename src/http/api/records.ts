/** The operations that change records: batch inserts (contract C8), and deletes by key. */
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { quoted } from '../../contract/message-text.js';
import * as wire from '../../contract/wire/batch.js';
import { appendsTo, deletesFrom } from '../../db/idempotency.js';
import { deleteRecords } from '../../engine/insert/delete-records.js';
import { appendsOnly } from '../../engine/access/append-keys.js';
import { appendRecords } from '../../engine/insert/append.js';
import { insertRecords } from '../../engine/insert/insert.js';
import { arrayOfRecords, rowsChanged } from '../../engine/insert/batch.js';
import type { UnknownRule } from '../../engine/insert/unknown-fields.js';
import type { UpsertRule } from '../../engine/insert/upsert.js';
import { decodeBody, isStream } from '../body.js';
import { keyFor, projectOf, TableInPath, tableInPath } from './call-inputs.js';
import type { Call, RouteResponse } from '../route.js';
import { redactedDetail, readRightsOf } from '../response/redaction.js';
import { insertStream } from './record-stream.js';
import { type Operation, RECORD_ERRORS } from './operation.js';

export const INSERT_RECORDS: Operation = {
  method: 'POST',
  url: '/api/cdp/data/:table_name',
  access: ['data:append', 'data:write'],
  fromPages: true,
  operationId: 'insertRecords',
  hasDryRun: true,
  summary: 'Insert 1 to 250 records in one transaction',
  description:
    "All or none. A missing key takes its column's default. With the header `Idempotency-Key` (1 to " +
    `${LIMITS.idempotencyKeyCharacters} characters) a retry within ${LIMITS.idempotencyHours} hours returns the first ` +
    'response and inserts nothing. The body may be gzipped. As `application/x-ndjson`, `text/csv` or ' +
    '`text/tab-separated-values` it is a stream of any size, stored in chunks. With the scope `data:append` alone the response is only how many records were accepted.',
  tag: 'data',
  audit: { operation: 'insert', isChange: false },
  slot: 'typed',
  command: 'INSERT',
  params: TableInPath,
  query: wire.BatchQuery,
  key: 'accepted',
  body: wire.BatchBody,
  rawBody: 'json',
  streams: true,
  streamBodies: {
    'application/x-ndjson': {
      schema: wire.NdjsonBody,
      example: '{"email":"ada@example.com","age":36}\n{"email":"grace@example.com"}\n',
    },
    'text/csv': { schema: wire.CsvBody, example: 'email,age\nada@example.com,36\ngrace@example.com,\n' },
    'text/tab-separated-values': {
      schema: wire.TsvBody,
      example: 'email\tage\nada@example.com\t36\ngrace@example.com\t\n',
    },
  },
  example: [
    { email: 'ada@example.com', age: 36, signed_up: '2026-01-31T09:30:00Z' },
    { email: 'grace@example.com', age: null },
  ],
  success: {
    status: 201,
    response: wire.BatchResponse,
    example: { success: true, inserted_rows: 2, message: '2 records inserted' },
  },
  otherSuccess: {
    status: 202,
    response: wire.AppendResponse,
    example: { success: true, accepted_rows: 2, message: '2 records accepted' },
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
    if (appendsOnly(call.caller)) return append(call);
    const { request, signal } = call;
    const tableName = tableInPath(call);
    const query = request.query as wire.BatchQuery;
    const returnIds = query.return === 'ids';
    const upsert = upsertRule(query);
    const unknown = unknownRule(query);
    const quarantine = query.on_error === 'quarantine';
    if (isStream(request.headers, INSERT_RECORDS)) {
      return insertStream(call, { upsert, unknown, quarantine, queryText: queryText(query) });
    }
    refuseForBatches(query);
    const bytes = await decodeBody(request);
    if (quarantine && returnIds) {
      throw new EngineError('invalid_request', '`return=ids` cannot be combined with `on_error=quarantine`');
    }
    const key = keyFor(call, tableName, queryText(query), bytes);
    const { tableCache, throttle, quarantineDays } = call.engine.services;
    const services = { tableCache, throttle, quarantineDays };
    const options = { ...services, returnIds, key, upsert, unknown, quarantine, signal };
    const { response, replayed } = await insertRecords(projectOf(call), tableName, arrayOfRecords(bytes), options);
    const { quarantined_rows = 0, errors } = response;
    const visibleErrors = errors && {
      errors: errors.map((detail) => redactedDetail(detail, readRightsOf(request.context))),
    };
    const body = quarantine ? { ...response, quarantined_rows, ...visibleErrors } : response;
    return { body, rows: rowsChanged(response), replayed };
  },
};

/** Parameters that tell nothing about what is stored, and change nothing else. */
const APPENDS_WITH: ReadonlySet<string> = new Set(['on_error', 'unknown', 'delimiter', 'null', 'offset']);

/** For a caller who may only append. @throws EngineError insufficient_scope for what would tell or change more */
async function append(call: Call): Promise<RouteResponse> {
  const { caller, engine, request, signal } = call;
  const tableName = tableInPath(call);
  const query = request.query as wire.BatchQuery & { dry_run?: string };
  const denied = Object.keys(query).filter((name) => !APPENDS_WITH.has(name));
  if (denied.length > 0) {
    const message = `The token lacks the scope data:write, which ${denied.join(' and ')} ${denied.length === 1 ? 'needs' : 'need'}`;
    throw new EngineError('insufficient_scope', message);
  }
  const quarantine = query.on_error === 'quarantine';
  const unknown = unknownRule(query);
  if (isStream(request.headers, INSERT_RECORDS)) {
    return insertStream(call, { upsert: null, unknown, quarantine, queryText: queryText(query) });
  }
  refuseForBatches(query);
  const bytes = await decodeBody(request);
  const { tableCache, throttle, quarantineDays } = engine.services;
  const { response, replayed } = await appendRecords(projectOf(call), tableName, bytes, {
    ...{ tableCache, throttle, quarantineDays, signal, quarantine, unknown },
    // Keys of others would tell what they have sent.
    key: keyFor(call, appendsTo(tableName, caller.id), queryText(query), bytes),
    count: (records) => engine.appendRates.count(caller, 'rows', records),
  });
  return { status: 202, body: response, rows: response.accepted_rows, replayed };
}

const DELETE_RECORDS: Operation = {
  method: 'DELETE',
  url: '/api/cdp/data/:table_name',
  access: ['data:write'],
  operationId: 'deleteRecords',
  hasDryRun: true,
  summary: 'Delete rows by 1 to 250 keys in one transaction',
  description:
    'All or none. Each record of the body has the columns of `by` and no others; keys that match no row delete nothing. ' +
    '`Idempotency-Key` works as for inserts.',
  tag: 'data',
  audit: { operation: 'delete', isChange: true },
  slot: 'typed',
  command: 'DELETE',
  params: TableInPath,
  query: wire.DeleteQuery,
  key: 'accepted',
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
    'quota_exceeded',
    ...RECORD_ERRORS,
  ],
  async handle(call) {
    const { request, signal } = call;
    const tableName = tableInPath(call);
    const bytes = await decodeBody(request);
    const { by } = request.query as wire.DeleteQuery;
    const key = keyFor(call, deletesFrom(tableName), `by=${by}`, bytes);
    const options = { by: names(by), key, throttle: call.engine.services.throttle, signal };
    const { response, replayed } = await deleteRecords(projectOf(call), tableName, bytes, options);
    return { body: response, rows: response.deleted_rows, replayed };
  },
};

/** Splits a comma-separated list of column names. */
const names = (list: string): string[] => [...new Set(list.split(','))];

type UpsertFields = Pick<wire.BatchQuery, 'on_conflict' | 'resolution' | 'version' | 'unchanged'> & {
  merge_json?: 'true' | true;
};

/** @throws EngineError invalid_request */
export function upsertRule(fields: UpsertFields): UpsertRule | null {
  const { on_conflict, resolution = 'merge', version, unchanged, merge_json } = fields;
  if (on_conflict === undefined) {
    const other = (['resolution', 'version', 'unchanged', 'merge_json'] as const).find((name) => fields[name]);
    if (other === undefined) return null;
    throw new EngineError('invalid_request', `\`${other}\` needs \`on_conflict\``, {
      hint: 'Name the columns of a unique index, such as on_conflict=email.',
    });
  }
  const columns = names(on_conflict);
  const wrong = wrongRule({ ...fields, resolution }, columns);
  if (wrong !== null) throw new EngineError('invalid_request', wrong.message, { hint: wrong.hint });
  return {
    ...{ columns, resolution },
    ...(version !== undefined && { version }),
    ...(unchanged !== undefined && { skipsUnchanged: true }),
    ...(merge_json !== undefined && { mergesJson: true }),
  };
}

function wrongRule({ resolution, version, unchanged, merge_json }: UpsertFields, columns: readonly string[]) {
  if (resolution === 'newest' && version === undefined)
    return {
      message: '`resolution=newest` needs `version`',
      hint: 'Name the column that says which is newer: version=updated_at.',
    };
  if (resolution !== 'newest' && version !== undefined)
    return {
      message: '`version` needs `resolution=newest`',
      hint: 'Send on_conflict=id&resolution=newest&version=updated_at.',
    };
  if (version !== undefined && columns.includes(version))
    return {
      message: `The version ${quoted(version)} is part of \`on_conflict\`, so all rows with the key of a record have its version`,
      hint: 'Name a column outside the key.',
    };
  if (resolution === 'ignore' && unchanged !== undefined)
    return {
      message: '`unchanged=skip` cannot be combined with `resolution=ignore`, which changes no row',
      hint: 'Leave one of them out.',
    };
  if (merge_json !== undefined && (resolution === 'ignore' || resolution === 'replace'))
    return {
      message: `\`merge_json\` cannot be combined with \`resolution=${resolution}\`, which keeps nothing of one side`,
      hint: 'Send resolution=merge or resolution=newest.',
    };
  return null;
}

export function unknownRule({ unknown }: Pick<wire.BatchQuery, 'unknown'>): UnknownRule | undefined {
  if (unknown === undefined || unknown === 'ignore') return unknown;
  return { into: unknown.slice('into:'.length) };
}

/** @throws EngineError invalid_request */
function refuseForBatches(query: wire.BatchQuery): void {
  const name = (['delimiter', 'null', 'offset', 'atomic'] as const).find((name) => query[name] !== undefined);
  if (name === undefined) return;
  throw new EngineError('invalid_request', `\`${name}\` is for streams, and this body is a JSON array`, {
    hint: 'Send Content-Type: text/csv, text/tab-separated-values or application/x-ndjson.',
  });
}

/** The query in canonical form, for the fingerprint of a key. */
const queryText = (query: wire.BatchQuery): string =>
  (
    [
      'return',
      'on_conflict',
      'resolution',
      'version',
      'unchanged',
      'merge_json',
      'unknown',
      'on_error',
      'atomic',
    ] as const
  )
    .flatMap((name) => (query[name] === undefined ? [] : [`${name}=${query[name]}`]))
    .join('&');

export const RECORDS: readonly Operation[] = [INSERT_RECORDS, DELETE_RECORDS];
