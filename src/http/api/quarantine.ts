/** The quarantine of refused records. */
import { jsonText } from '../../codec/index.js';
import { didYouMean } from '../../contract/did-you-mean.js';
import { EngineError, ERROR_CODES } from '../../contract/errors.js';
import { counted, quoted } from '../../contract/message-text.js';
import * as wire from '../../contract/wire/quarantine.js';
import type { Corrections } from '../../engine/insert/corrections.js';
import { dropFromQuarantine, groupQuarantine, listQuarantine } from '../../engine/insert/quarantine.js';
import { replay } from '../../engine/insert/replay.js';
import { redactedDetail, readRightsOf } from '../response/redaction.js';
import { unknownRule, upsertRule } from './records.js';
import { exactValue, projectOf, timeOf } from './call-inputs.js';
import type { Call } from '../route.js';
import { type Operation, RECORD_ERRORS, succeeds } from './operation.js';

const ID = '01a1fd4a-ba32-726b-b7d9-cf4374f5ddde';

const RECORD: wire.QuarantinedRecord = {
  id: ID,
  time: '2026-01-31T09:30:00.123456Z',
  table: 'customers',
  record: '{"email":"ada@example.com","age":"unknown"}',
  errors: [
    {
      column: 'age',
      message: 'Column "age": "unknown" is not an integer',
      hint: 'Send a whole number, or a string of decimal digits.',
      error: 'invalid_value',
    },
  ],
  idempotency_key: null,
};

const READ_QUARANTINE: Operation = {
  method: 'GET',
  url: '/api/cdp/quarantine',
  access: ['sql:read'],
  operationId: 'readQuarantine',
  summary: 'List the records in the quarantine, oldest first',
  description:
    'Returns at most `limit` records and 8 MiB. If `next` is not null, send it as `after` to get the next page.',
  tag: 'data',
  audit: { operation: 'read_quarantine', isChange: false },
  slot: 'typed',
  command: 'SELECT',
  query: wire.QuarantineQuery,
  success: succeeds(200, wire.QuarantineResponse, '1 record', { records: [RECORD], next: null }),
  errors: [],
  async handle(call) {
    const { limit = '100', group, ...filter } = call.request.query as wire.QuarantineQuery;
    const asReader = !readRightsOf(call.request.context).values;
    const { quarantineDays: days } = call.engine.services;
    const options = { limit: Number(limit), days, asReader, signal: call.signal };
    if (group !== undefined) {
      const groups = await groupQuarantine(projectOf(call), requireValidFilter(filter), options);
      const message = counted(groups.length, 'group');
      return { body: { success: true, message, records: [], next: null, groups }, rows: groups.length };
    }
    const { records, next } = await listQuarantine(projectOf(call), requireValidFilter(filter), options);
    const message = counted(records.length, 'record');
    return { body: { success: true, message, records, next }, rows: records.length };
  },
};

const REPLAY_QUARANTINE: Operation = {
  method: 'POST',
  url: '/api/cdp/quarantine/replay',
  access: ['data:write'],
  operationId: 'replayQuarantine',
  hasDryRun: true,
  summary: 'Retry quarantined records',
  description:
    'Retries up to 250 records of one table, oldest first, in one transaction; `next` continues. Stored records leave the ' +
    'quarantine; records that are refused again stay there. What corrects them sees each record as it is kept: `set_from`, `set_sql` and `set` give ' +
    'columns values, `drop` and `rename` change the other keys; with `id`, `record` takes the place of the record.',
  tag: 'data',
  audit: { operation: 'replay_quarantine', isChange: true, object: 'table' },
  slot: 'typed',
  command: 'INSERT',
  body: wire.ReplayBody,
  example: { table: 'customers', column: 'age', set: { age: null } },
  success: succeeds(200, wire.ReplayResponse, '1 record left the quarantine, 0 refused again', {
    inserted_rows: 1,
    updated_rows: 0,
    ignored_rows: 0,
    refused_rows: 0,
    errors: [],
    next: null,
  }),
  errors: ['table_not_found', 'unknown_column', 'quota_exceeded', ...RECORD_ERRORS],
  async handle(call) {
    const body = call.request.body as wire.ReplayBody;
    const corrections = await correctionsOf(call, body);
    const may = readRightsOf(call.request.context);
    // After renaming, an error could quote any value of the record.
    const errorsFor = may.values ? 'writer' : call.caller.scopes.has('sql:read') ? 'reader' : null;
    const { quarantineDays, throttle } = call.engine.services;
    const rule = upsertRule(body);
    const options = {
      corrections,
      upsert: rule,
      unknown: unknownRule(body),
      quarantineDays,
      errorsFor,
      throttle,
      signal: call.signal,
    } as const;
    const response = await replay(projectOf(call), requireValidFilter(filterOf(body)), options);
    const errors = response.errors.map(({ id, errors }) => ({
      id,
      errors: errors.map((one) => redactedDetail(one, may)),
    }));
    return { body: { ...response, errors }, rows: response.inserted_rows + response.updated_rows };
  },
};

type ReplayFilter = Pick<wire.ReplayBody, 'table' | 'error' | 'column' | 'since' | 'until' | 'id' | 'after'>;

/** The filter of a replay, without what corrects and stores. */
function filterOf(body: wire.ReplayBody): ReplayFilter {
  const { table, error, column, since, until, id, after } = body;
  const all = { table, error, column, since, until, id, after };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as ReplayFilter;
}

/** Values as JSON text, which keeps all digits of numbers. @throws EngineError invalid_request, insufficient_scope */
async function correctionsOf(call: Call, body: wire.ReplayBody): Promise<Corrections> {
  const { rename, drop, set_from: setFrom, set_sql: setSql, id } = body;
  const set = await exactValue(call, 'set');
  const record = await exactValue(call, 'record');
  if (record !== undefined && id === undefined)
    throw new EngineError('invalid_request', '`record` needs `id`: it takes the place of one record');
  if (setSql !== undefined) {
    const { scopes } = call.caller;
    if (!scopes.has('sql:write'))
      throw new EngineError('insufficient_scope', 'The token lacks the scope sql:write, which `set_sql` needs');
    // For the audit log.
    call.request.context.sql = { text: Object.values(setSql).join('\n'), readOnly: false };
  }
  const values = set?.kind === 'object' ? set.members.map(([key, value]) => [key, jsonText(value)] as const) : [];
  return {
    rename,
    drop,
    setFrom,
    setSql,
    set: new Map(values),
    record: record === undefined ? null : jsonText(record),
  };
}

const DROP_QUARANTINE: Operation = {
  method: 'DELETE',
  url: '/api/cdp/quarantine',
  access: ['data:write'],
  operationId: 'dropQuarantine',
  hasDryRun: true,
  summary: 'Delete records from the quarantine',
  tag: 'data',
  audit: { operation: 'drop_quarantine', isChange: true },
  slot: 'typed',
  command: 'DELETE',
  query: wire.DropQuarantineQuery,
  success: succeeds(200, wire.DropQuarantineResponse, '1 record deleted', { deleted_rows: 1 }),
  errors: ['table_busy', 'outcome_unknown'],
  async handle(call) {
    const { all, dry_run: _, ...filter } = call.request.query as wire.DropQuarantineQuery & { dry_run?: 'true' };
    if (all === undefined && Object.keys(filter).length === 0) {
      throw new EngineError('invalid_request', 'Say which records to delete', {
        hint: 'Add a filter such as table=customers, or all=true for all of them.',
      });
    }
    const deleted_rows = await dropFromQuarantine(
      projectOf(call),
      requireValidFilter(filter),
      call.engine.services.quarantineDays,
      call.signal,
    );
    const message = `${counted(deleted_rows, 'record')} deleted`;
    return { body: { success: true, message, deleted_rows }, rows: deleted_rows };
  },
};

/**
 * Checks that times, already valid by RFC 3339, also exist, and that the error code does. A dropped table keeps its
 * quarantined records, so any table name will do.
 * @throws EngineError invalid_request
 */
function requireValidFilter<F extends { since?: string; until?: string; error?: string }>(filter: F): F {
  const { error } = filter;
  if (error !== undefined && !Object.hasOwn(ERROR_CODES, error)) {
    const hint =
      didYouMean(error, Object.keys(ERROR_CODES)) ??
      'Those of records are such as invalid_value, unknown_column and unique_violation.';
    throw new EngineError('invalid_request', `There is no error code ${quoted(error)}`, { hint });
  }
  for (const field of ['since', 'until'] as const) if (filter[field] !== undefined) timeOf(field, filter[field]);
  return filter;
}

export const QUARANTINE: readonly Operation[] = [READ_QUARANTINE, REPLAY_QUARANTINE, DROP_QUARANTINE];
