/** The header of requests that may be repeated (contract section 6). */
import { LIMITS } from '../limits.js';
import { Type } from '../schema.js';

export const IdempotencyHeaders = Type.Object({
  'Idempotency-Key': Type.Optional(Type.String({ minLength: 1, maxLength: LIMITS.idempotencyKeyCharacters })),
});
