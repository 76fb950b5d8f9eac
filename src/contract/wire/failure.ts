/** The one shape of all failures on the wire (contract C2.1). */
import { ERROR_CODES, type ErrorCode as Code } from '../errors.js';
import { LIMITS } from '../limits.js';
import { type Static, Type } from '../schema.js';

export const ErrorCode = Type.Enum(Object.keys(ERROR_CODES) as Code[], {
  description: 'A stable code from the table of errors.',
});

/** A place at which a request is wrong. */
export const ErrorDetail = Type.Object({
  record: Type.Optional(Type.Integer({ description: "0-based index in the request's array." })),
  line: Type.Optional(Type.Integer({ description: 'In a stream, instead of `record`: the 1-based line.' })),
  offset: Type.Optional(
    Type.Integer({ description: 'In a stream: the first byte of the record in the decoded body.' }),
  ),
  column: Type.Optional(Type.String()),
  columns: Type.Optional(
    Type.Array(Type.String(), { description: 'Instead of `column`, if a constraint has several columns.' }),
  ),
  error: ErrorCode,
  message: Type.String(),
  hint: Type.Optional(Type.String()),
});

export const ErrorBody = Type.Object({
  success: Type.Literal(false),
  error: ErrorCode,
  message: Type.String(),
  status: Type.Integer(),
  request_id: Type.String(),
  errors: Type.Optional(Type.Array(ErrorDetail, { maxItems: LIMITS.errorsListed })),
  error_count: Type.Optional(Type.Integer()),
  hint: Type.Optional(Type.String()),
  rows: Type.Optional(
    Type.Integer({ description: 'For a type change: the number of rows with values that cannot be converted.' }),
  ),
  ids: Type.Optional(
    Type.Array(Type.String(), {
      maxItems: LIMITS.lostIdsListed,
      description: 'The first ids of those rows, in order. Empty if the table has no column `id`.',
    }),
  ),
  values: Type.Optional(
    Type.Array(Type.Object({ value: Type.String(), rows: Type.Integer() }), {
      description: 'The most frequent values that cannot be converted, if the request asks for them.',
    }),
  ),
  stored_rows: Type.Optional(Type.Integer({ description: 'In a stream: the rows stored before the error.' })),
  accepted_rows: Type.Optional(
    Type.Integer({
      description:
        'The same for a token with `data:append` alone: all records before the error, stored or in the quarantine.',
    }),
  ),
  stored_bytes: Type.Optional(
    Type.Integer({
      description: 'In a stream: the bytes of the decoded body that hold the records stored before the error.',
    }),
  ),
  postgres: Type.Optional(
    Type.Object({
      sqlstate: Type.String(),
      position: Type.Optional(Type.Integer()),
      table: Type.Optional(Type.String()),
      column: Type.Optional(Type.String()),
      constraint: Type.Optional(Type.String()),
      detail: Type.Optional(Type.String()),
    }),
  ),
});
export type ErrorBody = Static<typeof ErrorBody>;
