/** The batch insert on the wire (specification 4.4, contract section 6). */
import { LIMITS } from '../limits.js';
import { STRICT, type Static, Type } from '../schema.js';

/** Read by the engine from the bytes as they came, so that no digit is lost; here for the document and the types. */
export const BatchBody = Type.Array(Type.Record(Type.Any(), { description: 'Keys are column names.' }), {
  minItems: 1,
  maxItems: LIMITS.recordsPerBatch,
});
export type BatchBody = Static<typeof BatchBody>;

export const BatchQuery = Type.Object(
  { return: Type.Optional(Type.Literal('ids', { description: 'Also return the ids, in the order of the records.' })) },
  STRICT,
);
export type BatchQuery = Static<typeof BatchQuery>;

export const BatchAnswer = Type.Object({
  success: Type.Literal(true),
  inserted_rows: Type.Integer(),
  message: Type.String(),
  ids: Type.Optional(Type.Array(Type.String({ format: 'uuid' }))),
});
export type BatchAnswer = Static<typeof BatchAnswer>;
