/** Fields that several requests and responses have. */
import { LIMITS } from '../limits.js';
import { NAME_PATTERN } from '../names.js';
import { LABEL } from '../patterns.js';
import { DOCUMENTED, Type } from '../schema.js';

/** Fields of every response to a schema call or to an administrator, in addition to its own. */
export const success = { success: Type.Literal(true), message: Type.String() };

/** A name in a request. */
export const NameText = (what: string) =>
  Type.String({ description: `Name of the ${what}.`, examples: ['email'], [DOCUMENTED]: { pattern: NAME_PATTERN } });

/** Labels of Postgres servers: `region=eu`. */
export const Labels = Type.Record(Type.String({ pattern: LABEL }), {
  propertyNames: { pattern: LABEL },
  maxProperties: 32,
  examples: [{ region: 'eu' }],
});

/** The header of requests that may be repeated (contract C11.1). */
export const IdempotencyHeaders = Type.Object({
  'Idempotency-Key': Type.Optional(Type.String({ minLength: 1, maxLength: LIMITS.idempotencyKeyCharacters })),
});

/** Milliseconds, rounded as responses and logs show them. */
export const roundedMs = (ms: number): number => Math.round(ms * 100) / 100;
