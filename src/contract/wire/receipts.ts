/** Receipts on the wire: the outcome of a batch with an Idempotency-Key. */
import { LIMITS } from '../limits.js';
import { NAME_PATTERN } from '../names.js';
import { PRINTABLE_ASCII } from '../patterns.js';
import { STRICT, type Static, Type } from '../schema.js';

const Key = Type.String({ minLength: 1, maxLength: LIMITS.idempotencyKeyCharacters, pattern: PRINTABLE_ASCII });

const Table = Type.String({
  pattern: NAME_PATTERN,
  description: 'The table of the batch. Default: any batch, and any other request with the key.',
});

const SETTLE =
  'If nothing is stored under the key, refuse it from now on, so that `not_stored` is final. Default: false.';

export const ReceiptQuery = Type.Object(
  { table: Type.Optional(Table), settle: Type.Optional(Type.Enum(['true', 'false'], { description: SETTLE })) },
  STRICT,
);
export type ReceiptQuery = Static<typeof ReceiptQuery>;

export const ReceiptsBody = Type.Object(
  {
    keys: Type.Array(Key, { minItems: 1, maxItems: LIMITS.keysPerQuery }),
    table: Type.Optional(Table),
    settle: Type.Optional(Type.Boolean({ description: SETTLE })),
  },
  STRICT,
);
export type ReceiptsBody = Static<typeof ReceiptsBody>;

const Stored = {
  key: Type.String(),
  status: Type.Literal('stored'),
  table: Type.Nullable(
    Type.String({ description: 'The name it had at the time; null unless the request was a batch.' }),
  ),
  operation: Type.Enum(['insert', 'stream', 'delete', 'sql', 'schema'], { description: '`insert` includes upserts.' }),
  rows: Type.Nullable(
    Type.Integer({
      description: 'Rows that were inserted and updated, or deleted; null unless the request was a batch.',
    }),
  ),
  stored_at: Type.String({ format: 'date-time', description: 'When the transaction began.' }),
  transaction_id: Type.Nullable(Type.String({ description: "Postgres's id of the transaction (xid8)." })),
  body_sha256: Type.Nullable(
    Type.String({ description: 'SHA-256 of the body after decompression, in hexadecimal; null for a stream.' }),
  ),
  bytes: Type.Optional(Type.Integer({ description: 'For a stream: the bytes of the decoded body that are stored.' })),
  complete: Type.Optional(Type.Boolean({ description: 'For a stream: whether they are all of the body.' })),
};
const Running = { key: Type.String(), status: Type.Literal('running', { description: 'Ask again.' }) };
const NotStored = {
  key: Type.String(),
  status: Type.Literal('not_stored'),
  settled: Type.Boolean({ description: 'Requests with this key are always rejected.' }),
  since: Type.String({ format: 'date-time', description: 'A batch stored earlier may no longer have a receipt.' }),
};

export const Receipt = Type.Union([Type.Object(Stored), Type.Object(Running), Type.Object(NotStored)]);
export type Receipt = Static<typeof Receipt>;

const success = { success: Type.Literal(true) };

export const ReceiptResponse = Type.Union([
  Type.Object({ ...success, ...Stored }),
  Type.Object({ ...success, ...Running }),
  Type.Object({ ...success, ...NotStored }),
]);
export type ReceiptResponse = Static<typeof ReceiptResponse>;

export const ReceiptsResponse = Type.Object({
  ...success,
  receipts: Type.Array(Receipt, {
    description:
      'In the order of the keys. Without `table`, a key has one receipt for each table with a batch under it.',
  }),
});
export type ReceiptsResponse = Static<typeof ReceiptsResponse>;
