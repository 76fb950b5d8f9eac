/** Values held against the schemas of the contract, by Ajv. */
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import formats from 'ajv-formats';
import type { Schema } from './schema.js';

// It stops at the first error …
const first = new Ajv({ allErrors: false });
// … and this one does not, which is work that a caller can make as large as it likes: it sees only small values.
const all = new Ajv({ allErrors: true });
for (const ajv of [first, all]) formats.default(ajv);

/** Values, and values in them, of what is looked through for all errors. */
const MAX_VALUES = 10_000;

/** What it was that a value was refused for, in Ajv's words; null where it is as described. */
type Validator = (value: unknown) => ErrorObject[] | null;

/** Compiled at the first use: most programs need only a few of all schemas, and none of them to start. */
export function validator(schema: Schema): Validator {
  let compiled: ValidateFunction | undefined;
  return (value) => {
    compiled ??= first.compile(schema);
    return compiled(value) ? null : (compiled.errors ?? []);
  };
}

/** A validator that finds everything that is wrong with a value, unless it is large: then the first error. */
export function thoroughValidator(schema: Schema): Validator {
  const firstErrors = validator(schema);
  return (value) => {
    const errors = firstErrors(value);
    if (errors === null || valuesIn(value) > MAX_VALUES) return errors;
    const thorough = all.compile(schema);
    return thorough(value) ? errors : (thorough.errors ?? errors);
  };
}

/** How many values it consists of; no more than one above {@link MAX_VALUES} are counted. */
function valuesIn(value: unknown): number {
  const containers: unknown[] = [value];
  let count = 1;
  for (let container = containers.pop(); typeof container === 'object'; container = containers.pop()) {
    for (const name in container) {
      if (++count > MAX_VALUES) return count;
      const inner = (container as Record<string, unknown>)[name];
      if (typeof inner === 'object') containers.push(inner);
    }
  }
  return count;
}

/** Whether a value is as the schema describes it, for the compiler too. */
export function describes<T>(schema: Schema<T>): (value: unknown) => value is T {
  const errorsOf = validator(schema);
  return (value): value is T => errorsOf(value) === null;
}
