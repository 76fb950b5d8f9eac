/** Values held against the schemas of the contract, by Ajv. */
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import formats from 'ajv-formats';
import type { Schema } from './schema.js';

// Ajv stops at the first error: to look for all of them would be work that a caller can make as large as it likes.
const ajv = new Ajv({ allErrors: false });
formats.default(ajv);

/** What it was that a value was refused for, in Ajv's words; null where it is as described. */
type Validator = (value: unknown) => ErrorObject[] | null;

/** Compiled at the first use: most programs need only a few of all schemas, and none of them to start. */
export function validator(schema: Schema): Validator {
  let compiled: ValidateFunction | undefined;
  return (value) => {
    compiled ??= ajv.compile(schema);
    return compiled(value) ? null : (compiled.errors ?? []);
  };
}

/** Whether a value is as the schema describes it, for the compiler too. */
export function describes<T>(schema: Schema<T>): (value: unknown) => value is T {
  const errorsOf = validator(schema);
  return (value): value is T => errorsOf(value) === null;
}
