/** The quarantine on the wire: records that an insert refused and kept. */
import { LIMITS } from '../limits.js';
import { CODE, PAGE_LIMIT, SHORT_TEXT } from '../patterns.js';
import { dryRunFields } from './dry-run.js';
import { STRICT, type Static, Type } from '../schema.js';
import { RESOLUTIONS, unknownFields } from './batch.js';
import { ErrorDetail } from './failure.js';
import { success } from './fields.js';

const Uuid = { format: 'uuid' };
const Name = { pattern: SHORT_TEXT };

/** Selects records that meet all given conditions. */
const filter = {
  table: Type.Optional(Type.String({ ...Name, description: 'The table that the records were sent to.' })),
  error: Type.Optional(Type.String({ pattern: CODE, description: 'Only records that have an error with this code.' })),
  column: Type.Optional(Type.String({ ...Name, description: 'Only records that have an error in this column.' })),
  since: Type.Optional(Type.String({ format: 'date-time' })),
  until: Type.Optional(Type.String({ format: 'date-time' })),
  id: Type.Optional(Type.String({ ...Uuid, description: 'Only this record.' })),
};

export const QuarantineQuery = Type.Object(
  {
    ...filter,
    after: Type.Optional(Type.String({ ...Uuid, description: 'Only records after the one with this id.' })),
    limit: Type.Optional(Type.String({ pattern: PAGE_LIMIT, description: '1 to 1000; default 100.' })),
    group: Type.Optional(
      Type.Literal('true', {
        description: 'Return `groups`, at most 1000, instead of records: how many have which error in which column.',
      }),
    ),
  },
  STRICT,
);
export type QuarantineQuery = Static<typeof QuarantineQuery>;

export const QuarantinedRecord = Type.Object({
  id: Type.String(Uuid),
  time: Type.String({ format: 'date-time' }),
  table: Type.String(),
  record: Type.String({ description: 'The record as it was sent: JSON with all its digits.' }),
  errors: Type.Array(ErrorDetail),
  idempotency_key: Type.Nullable(Type.String()),
});
export type QuarantinedRecord = Static<typeof QuarantinedRecord>;

/** Records of a table with the same error in the same column. One with several errors is in several groups. */
export const QuarantineGroup = Type.Object({
  table: Type.String(),
  error: Type.String({ description: 'The code of the error.' }),
  column: Type.Nullable(Type.String({ description: 'null: no column, or several.' })),
  columns: Type.Optional(Type.Array(Type.String(), { description: 'Several columns of one constraint.' })),
  count: Type.Integer({ description: 'Records.' }),
  message: Type.String({ description: 'The error of the oldest.' }),
  oldest: Type.String({ format: 'date-time' }),
  newest: Type.String({ format: 'date-time' }),
});
export type QuarantineGroup = Static<typeof QuarantineGroup>;

export const QuarantineResponse = Type.Object({
  ...success,
  records: Type.Array(QuarantinedRecord),
  next: Type.Nullable(Type.String({ description: 'Send it as `after` to get the next page.' })),
  groups: Type.Optional(Type.Array(QuarantineGroup, { description: 'With `group`: the largest first.' })),
});
export type QuarantineResponse = Static<typeof QuarantineResponse>;

export const ReplayBody = Type.Object(
  {
    ...filter,
    table: Type.String({ ...Name, description: 'The table that the records were sent to, and are stored in.' }),
    after: Type.Optional(
      Type.String({ ...Uuid, description: '`next` of the previous replay: only records after it.' }),
    ),
    rename: Type.Optional(
      Type.Record(Type.String(), {
        description: 'New names for keys: `{"emial": "email"}`.',
        examples: [{ emial: 'email' }],
      }),
    ),
    set: Type.Optional(
      Type.Record(Type.Any(), {
        description: 'Values to replace in the records, or to add to them.',
        examples: [{ age: null }],
      }),
    ),
    drop: Type.Optional(
      Type.Array(Type.String(), {
        maxItems: LIMITS.keysPerRecord,
        description: 'Keys to leave out.',
        examples: [['note']],
      }),
    ),
    set_from: Type.Optional(
      Type.Record(Type.String(), {
        description: 'Columns that take the value of another key, in records that have it: `{"timestamp": "sent_at"}`.',
        examples: [{ timestamp: 'sent_at' }],
      }),
    ),
    set_sql: Type.Optional(
      Type.Record(Type.String({ minLength: 1, maxLength: 10_000 }), {
        maxProperties: 20,
        description:
          'Columns that take the value of an SQL expression over `record`, the record as jsonb; needs `sql:write`. NULL sets null.',
        examples: [{ age: "nullif(record->>'age', 'unknown')" }],
      }),
    ),
    record: Type.Optional(
      Type.Any({
        description: 'With `id`: what to store in place of the record, with which it leaves the quarantine.',
      }),
    ),
    on_conflict: Type.Optional(Type.String({ minLength: 1, description: 'As for an insert.' })),
    resolution: Type.Optional(Type.Enum(RESOLUTIONS)),
    unknown: Type.Optional(unknownFields()),
    version: Type.Optional(Type.String({ minLength: 1 })),
    unchanged: Type.Optional(Type.Literal('skip')),
    merge_json: Type.Optional(Type.Literal(true)),
  },
  STRICT,
);
export type ReplayBody = Static<typeof ReplayBody>;

export const ReplayResponse = Type.Object({
  ...success,
  inserted_rows: Type.Integer(),
  updated_rows: Type.Integer(),
  ignored_rows: Type.Integer(),
  unchanged_rows: Type.Optional(Type.Integer({ description: 'Present with `unchanged: "skip"`.' })),
  refused_rows: Type.Integer({ description: 'Records that are refused again stay in the quarantine.' }),
  errors: Type.Array(Type.Object({ id: Type.String(Uuid), errors: Type.Array(ErrorDetail) }), {
    maxItems: LIMITS.errorsListed,
    description: 'The errors of the first refused records. Empty if the token may not read the records.',
  }),
  next: Type.Nullable(
    Type.String({ description: 'Send it as `after` with the next replay; null: no record is left.' }),
  ),
  ...dryRunFields,
});
export type ReplayResponse = Static<typeof ReplayResponse>;

export const DropQuarantineQuery = Type.Object(
  {
    ...filter,
    all: Type.Optional(Type.Literal('true', { description: 'Required if no filter is given.' })),
  },
  STRICT,
);
export type DropQuarantineQuery = Static<typeof DropQuarantineQuery>;

export const DropQuarantineResponse = Type.Object({ ...success, deleted_rows: Type.Integer(), ...dryRunFields });
export type DropQuarantineResponse = Static<typeof DropQuarantineResponse>;
