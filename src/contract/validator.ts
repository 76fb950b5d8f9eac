/** Validates values against the schemas of `wire/` with Ajv. */
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import formats from 'ajv-formats';
import type { Schema } from './schema.js';

// Stops at the first error …
const first = new Ajv({ allErrors: false });
// … and this one finds all errors. A caller could make that arbitrarily expensive, so it gets only small values.
const all = new Ajv({ allErrors: true });
for (const ajv of [first, all]) formats.default(ajv);

/** Maximum number of values, nested ones included, that are checked for all errors. */
const MAX_VALUES = 10_000;

/** Returns Ajv's errors; null if the value is valid. */
type Validator = (value: unknown) => ErrorObject[] | null;

/** Compiles the schema at its first use: most programs need only a few schemas, and none at startup. */
export function validator(schema: Schema): Validator {
  let compiled: ValidateFunction | undefined;
  return (value) => {
    compiled ??= first.compile(schema);
    return compiled(value) ? null : (compiled.errors ?? []);
  };
}

/** Finds all errors of a value, or only the first if the value is large. */
export function thoroughValidator(schema: Schema): Validator {
  const firstErrors = validator(schema);
  return (value) => {
    const errors = firstErrors(value);
    if (errors === null || valuesIn(value, MAX_VALUES) > MAX_VALUES) return errors;
    const thorough = all.compile(schema);
    return thorough(value) ? errors : (thorough.errors ?? errors);
  };
}

/** Counts the values that a value contains, up to one more than `most`. */
export function valuesIn(value: unknown, most: number): number {
  const containers: unknown[] = [value];
  let count = 1;
  for (let container = containers.pop(); typeof container === 'object'; container = containers.pop()) {
    for (const name in container) {
      if (++count > most) return count;
      const inner = (container as Record<string, unknown>)[name];
      if (typeof inner === 'object') containers.push(inner);
    }
  }
  return count;
}

/** A type guard for values that match the schema. */
export function describes<T>(schema: Schema<T>): (value: unknown) => value is T {
  const errorsOf = validator(schema);
  return (value): value is T => errorsOf(value) === null;
}
