/** Receipts of batches by their Idempotency-Keys. */
import { EngineError, type ErrorCode } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { quoted } from '../../contract/message-text.js';
import { Type } from '../../contract/schema.js';
import * as wire from '../../contract/wire/receipts.js';
import { checkKey } from '../../db/idempotency.js';
import { readReceipts } from '../../db/receipts.js';
import { projectOf } from './call-inputs.js';
import type { Operation } from './operation.js';
import type { Call } from '../route.js';

const EXAMPLE: wire.Receipt = {
  key: 'import-2026-02-01-0001',
  status: 'stored',
  table: 'customers',
  operation: 'insert',
  rows: 250,
  stored_at: '2026-02-01T10:00:00.123456Z',
  transaction_id: '7431',
  body_sha256: 'd2a84f4b8b650937ec8f73cd8be2c74add5a911ba64df27458ed8229da804a26',
};

const COMMON = {
  tag: 'data',
  audit: { operation: 'receipts', isChange: false },
  slot: 'typed',
  errors: ['quota_exceeded', 'outcome_unknown'] as readonly ErrorCode[],
} as const;

const READ_RECEIPT: Operation = {
  ...COMMON,
  method: 'GET',
  url: '/api/cdp/receipts/:key',
  access: ['data:write'],
  operationId: 'readReceipt',
  summary: 'Outcome of a batch with an Idempotency-Key',
  description:
    '`stored`, `running` or `not_stored`. With `settle=true`, `not_stored` is final: a batch that arrives later under ' +
    'the key is refused with `key_settled`.',
  params: Type.Object({ key: Type.String() }),
  query: wire.ReceiptQuery,
  success: { status: 200, response: wire.ReceiptResponse, example: { success: true, ...EXAMPLE } },
  async handle(call) {
    const { key } = call.request.params as { key: string };
    checkKey(key);
    const { table, settle } = call.request.query as wire.ReceiptQuery;
    const [receipts = []] = await read(call, [key], table, settle === 'true');
    if (receipts.length > 1) throw ambiguous(receipts);
    return { body: { success: true, ...receipts[0] } };
  },
};

const READ_RECEIPTS: Operation = {
  ...COMMON,
  method: 'POST',
  url: '/api/cdp/receipts/query',
  access: ['data:write'],
  operationId: 'readReceipts',
  summary: `Outcomes of up to ${LIMITS.keysPerQuery.toLocaleString('en')} batches with Idempotency-Keys`,
  body: wire.ReceiptsBody,
  example: { keys: [EXAMPLE.key], table: 'customers' },
  success: { status: 200, response: wire.ReceiptsResponse, example: { success: true, receipts: [EXAMPLE] } },
  async handle(call) {
    const { keys, table, settle = false } = call.request.body as wire.ReceiptsBody;
    const receipts = await read(call, keys, table, settle);
    return { body: { success: true, receipts: receipts.flat() } };
  },
};

const read = (call: Call, keys: readonly string[], table: string | undefined, settle: boolean) =>
  readReceipts(projectOf(call), keys, {
    tableName: table ?? null,
    settle,
    days: call.settings.receiptDays,
    signal: call.signal,
  });

function ambiguous(receipts: readonly wire.Receipt[]): EngineError {
  const receiptsFound = receipts.flatMap((receipt) =>
    receipt.status === 'stored' ? [receipt.table === null ? receipt.operation : quoted(receipt.table)] : [],
  );
  return new EngineError(
    'invalid_request',
    `${receiptsFound.length} requests have this key: ${receiptsFound.slice(0, 10).join(', ')}${receiptsFound.length > 10 ? ', …' : ''}`,
    {
      hint: 'Name the table (?table=NAME), or POST /api/cdp/receipts/query, which lists them all.',
    },
  );
}

export const RECEIPTS: readonly Operation[] = [READ_RECEIPT, READ_RECEIPTS];
