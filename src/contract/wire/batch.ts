/** The batch insert on the wire (specification 4.4, contract section 6). */
import { LIMITS } from '../limits.js';
import { ErrorPlace } from './failure.js';
import { rehearsed } from './rehearsal.js';
import { STRICT, type Static, Type } from '../schema.js';

/** Read by the engine from the bytes as they came, so that no digit is lost; here for the document and the types. */
export const BatchBody = Type.Array(Type.Record(Type.Any(), { description: 'Keys are column names.' }), {
  minItems: 1,
  maxItems: LIMITS.recordsPerBatch,
});
export type BatchBody = Static<typeof BatchBody>;

/** What becomes of a row that has the key of a record. */
export const RESOLUTIONS = ['merge', 'replace', 'ignore'] as const;
export type Resolution = (typeof RESOLUTIONS)[number];

export const BatchQuery = Type.Object(
  {
    return: Type.Optional(Type.Literal('ids', { description: 'Also return the ids, in the order of the records.' })),
    on_error: Type.Optional(
      Type.Literal('quarantine', {
        description: 'Store the records that can be stored, and keep the others in the quarantine, with what is wrong.',
      }),
    ),
    on_conflict: Type.Optional(
      Type.String({
        minLength: 1,
        description:
          'Columns of a unique index, with commas between them. A record whose key a row already has changes that row.',
      }),
    ),
    resolution: Type.Optional(
      Type.Enum(RESOLUTIONS, {
        description:
          'What happens to a row that has the key of a record. `merge` (default): the columns that the record gives replace ' +
          "the row's. `replace`: the columns that it does not give take their defaults, too. `ignore`: the row stays.",
      }),
    ),
  },
  STRICT,
);
export type BatchQuery = Static<typeof BatchQuery>;

export const BatchAnswer = Type.Object({
  success: Type.Literal(true),
  inserted_rows: Type.Integer(),
  updated_rows: Type.Optional(Type.Integer({ description: 'With `on_conflict`.' })),
  ignored_rows: Type.Optional(Type.Integer({ description: 'With `on_conflict`.' })),
  quarantined_rows: Type.Optional(Type.Integer({ description: 'With `on_error=quarantine`.' })),
  errors: Type.Optional(
    Type.Array(ErrorPlace, {
      maxItems: LIMITS.errorsListed,
      description: 'Of quarantined records; the first of them.',
    }),
  ),
  error_count: Type.Optional(Type.Integer({ description: 'All errors of quarantined records.' })),
  message: Type.String(),
  ids: Type.Optional(Type.Array(Type.String({ format: 'uuid' }))),
  ...rehearsed,
});
export type BatchAnswer = Static<typeof BatchAnswer>;

export const DeleteBody = Type.Array(
  Type.Record(Type.Any(), { description: 'The columns of `by`, with a value each.' }),
  {
    minItems: 1,
    maxItems: LIMITS.recordsPerBatch,
  },
);

export const DeleteQuery = Type.Object(
  {
    by: Type.String({ minLength: 1, description: 'Columns of a unique index, with commas between them.' }),
  },
  STRICT,
);
export type DeleteQuery = Static<typeof DeleteQuery>;

export const DeleteAnswer = Type.Object({
  success: Type.Literal(true),
  deleted_rows: Type.Integer({ description: 'A key that no row has deletes nothing.' }),
  message: Type.String(),
  ...rehearsed,
});
export type DeleteAnswer = Static<typeof DeleteAnswer>;
