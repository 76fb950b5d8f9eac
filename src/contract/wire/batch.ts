/** The batch insert on the wire (contract C8). */
import { LIMITS } from '../limits.js';
import { BYTE_OFFSET, UNKNOWN_FIELDS } from '../patterns.js';
import { ErrorDetail } from './failure.js';
import { dryRunFields } from './dry-run.js';
import { STRICT, type Static, Type } from '../schema.js';

/** Only for the OpenAPI document and the types. The engine reads the bytes of the request, so that no digit is lost. */
export const BatchBody = Type.Array(Type.Record(Type.Any(), { description: 'Keys are column names.' }), {
  minItems: 1,
  maxItems: LIMITS.recordsPerBatch,
});
export type BatchBody = Static<typeof BatchBody>;

/** Bodies of streams by their content type. */
export const NdjsonBody = Type.String({
  description:
    'Lines, each a record as in a batch: a JSON object whose keys are column names. Blank lines are skipped.',
});
export const CsvBody = Type.String({
  description:
    'RFC 4180: the first line names columns of the table, exactly. An empty field is NULL, `""` the empty string.',
});
export const TsvBody = Type.String({ description: 'As text/csv, with tabs between the values.' });

/** What happens to an existing row that has the key of a record. */
export const RESOLUTIONS = ['merge', 'replace', 'ignore', 'newest'] as const;
export type Resolution = (typeof RESOLUTIONS)[number];

/** `ignore`, or `into:` and the name of a column. */
export const unknownFields = () =>
  Type.String({
    pattern: UNKNOWN_FIELDS,
    description:
      'What becomes of fields that the table has no columns for: `ignore` leaves them out, `into:COLUMN` keeps them as an object in ' +
      'a JSONB column. Default: the record is refused.',
  });

export const BatchQuery = Type.Object(
  {
    return: Type.Optional(Type.Literal('ids', { description: 'Also return the ids, in the order of the records.' })),
    on_error: Type.Optional(
      Type.Literal('quarantine', {
        description: '`quarantine`: store the valid records, and keep the others with their errors in the quarantine.',
      }),
    ),
    on_conflict: Type.Optional(
      Type.String({
        minLength: 1,
        description:
          'Columns of a unique index, separated by commas. If a row with the same key exists, the record changes that row.',
      }),
    ),
    delimiter: Type.Optional(
      Type.String({
        description: 'For a stream of text/csv: what separates values, one ASCII character. Default: a comma.',
      }),
    ),
    null: Type.Optional(Type.String({ description: 'For a stream of delimited text: a value that also means NULL.' })),
    offset: Type.Optional(
      Type.String({
        pattern: BYTE_OFFSET,
        description: 'For a stream with an Idempotency-Key: the body begins at this byte of the decoded stream.',
      }),
    ),
    atomic: Type.Optional(
      Type.Literal('true', {
        description: 'For a stream: store all of it or nothing, in one transaction once it has arrived.',
      }),
    ),
    resolution: Type.Optional(
      Type.Enum(RESOLUTIONS, {
        description:
          'What happens to an existing row with the same key. `merge` (default): the columns in the record replace ' +
          "the row's. `replace`: columns that the record omits also take their defaults. `ignore`: the row stays as it is. " +
          '`newest`: as `merge`, if the record has a larger `version`; otherwise the row stays as it is.',
      }),
    ),
    unknown: Type.Optional(unknownFields()),
    version: Type.Optional(
      Type.String({ minLength: 1, description: 'For `resolution=newest`: the column that says which is newer.' }),
    ),
    unchanged: Type.Optional(
      Type.Literal('skip', {
        description: 'With `on_conflict`: write nothing for a row that has all the values of its record.',
      }),
    ),
    merge_json: Type.Optional(
      Type.Literal('true', {
        description:
          'With `on_conflict`: an object in a JSONB column keeps the members that the object in the record lacks.',
      }),
    ),
  },
  STRICT,
);
export type BatchQuery = Static<typeof BatchQuery>;

export const BatchResponse = Type.Object({
  success: Type.Literal(true),
  inserted_rows: Type.Integer(),
  updated_rows: Type.Optional(Type.Integer({ description: 'Present with `on_conflict`.' })),
  ignored_rows: Type.Optional(Type.Integer({ description: 'Present with `on_conflict`.' })),
  unchanged_rows: Type.Optional(Type.Integer({ description: 'Present with `unchanged=skip`.' })),
  quarantined_rows: Type.Optional(Type.Integer({ description: 'Present with `on_error=quarantine`.' })),
  errors: Type.Optional(
    Type.Array(ErrorDetail, {
      maxItems: LIMITS.errorsListed,
      description: 'Errors of the quarantined records: the first ones.',
    }),
  ),
  error_count: Type.Optional(Type.Integer({ description: 'The number of all errors of quarantined records.' })),
  chunks: Type.Optional(Type.Integer({ description: 'For a stream: the transactions that stored it.' })),
  bytes: Type.Optional(Type.Integer({ description: 'For a stream: the bytes of the decoded body.' })),
  message: Type.String(),
  ids: Type.Optional(Type.Array(Type.String({ format: 'uuid' }))),
  ...dryRunFields,
});
export type BatchResponse = Static<typeof BatchResponse>;

/** For a token that may only append. */
export const AppendResponse = Type.Object({
  success: Type.Literal(true),
  accepted_rows: Type.Integer({
    description:
      'All records, for a token with `data:append` and without `data:write`: each was stored, or is in the quarantine.',
  }),
  chunks: Type.Optional(Type.Integer({ description: 'For a stream: the transactions that stored it.' })),
  bytes: Type.Optional(Type.Integer({ description: 'For a stream: the bytes of the decoded body.' })),
  message: Type.String(),
});
export type AppendResponse = Static<typeof AppendResponse>;

export const DeleteBody = Type.Array(Type.Record(Type.Any(), { description: 'A value for each column of `by`.' }), {
  minItems: 1,
  maxItems: LIMITS.recordsPerBatch,
});

export const DeleteQuery = Type.Object(
  {
    by: Type.String({ minLength: 1, description: 'Columns of a unique index, separated by commas.' }),
  },
  STRICT,
);
export type DeleteQuery = Static<typeof DeleteQuery>;

export const DeleteResponse = Type.Object({
  success: Type.Literal(true),
  deleted_rows: Type.Integer({ description: 'A key that matches no row deletes nothing.' }),
  message: Type.String(),
  ...dryRunFields,
});
export type DeleteResponse = Static<typeof DeleteResponse>;
