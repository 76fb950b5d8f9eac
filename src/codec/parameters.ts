/**
 * Converts values of `$1`, `$2`, … to text for Postgres, by the types that Postgres has inferred for the parameters.
 */
import { EngineError } from '../contract/errors.js';
import { counted } from '../contract/message-text.js';
import { ErrorCollector } from '../contract/error-collector.js';
import { readArray, readJsonText, readText } from './batch/cell.js';
import { type Cell, CellError } from './batch/cell-error.js';
import type { JsonNode } from './json/nodes.js';
import { scalarTypeName } from './results/types.js';

/** json and jsonb, for which a JSON array stays JSON. */
const JSON_TYPES = new Set([114, 3802]);

/**
 * Strings stay unchanged, numbers keep the digits that were sent, objects become JSON text, arrays become Postgres
 * arrays, or JSON for a parameter of type json or jsonb.
 * @param textTypes names, by oid, of types that are not built in and cannot hold an array
 * @throws EngineError invalid_request for a wrong number of values, invalid_value for text that Postgres cannot store
 */
export function encodeParameters(
  values: readonly JsonNode[],
  oids: readonly number[],
  textTypes: ReadonlyMap<number, string> | null = null,
): (string | null)[] {
  if (values.length !== oids.length) {
    throw new EngineError(
      'invalid_request',
      `The statement has ${counted(oids.length, 'parameter')}, but "params" has ${counted(values.length, 'value')}`,
    );
  }
  const encoded: (string | null)[] = [];
  const errors = new ErrorCollector();
  for (let i = 0; i < values.length; i++) {
    const parameter = `$${i + 1}`;
    const oid = oids[i] ?? 0;
    const text = encode(values[i] as JsonNode, oid, scalarTypeName(oid) ?? textTypes?.get(oid), parameter);
    if (text instanceof CellError) errors.add('invalid_value', () => detailOf(parameter, text));
    else encoded.push(text);
  }
  errors.throwIfAny();
  return encoded;
}

const detailOf = (parameter: string, { reason, hint }: CellError) => ({
  column: parameter,
  message: `Parameter ${parameter}: ${reason}`,
  ...(hint !== undefined && { hint }),
});

function encode(value: JsonNode, oid: number, scalar: string | undefined, parameter: string): Cell {
  if (value.kind === 'null') return null;
  if (value.kind === 'object') return readJsonText(value);
  if (value.kind !== 'array') return readText(value);
  if (JSON_TYPES.has(oid)) return readJsonText(value);
  // As text, the array would make `IN ($1)` match nothing, without an error.
  if (scalar !== undefined) {
    return new CellError(
      `an array cannot be a value of type ${scalar}`,
      `To compare with each value of an array, write "= ANY(${parameter})" instead of "IN (${parameter})"; to store JSON as text, send it as a string.`,
    );
  }
  return readArray(value);
}
