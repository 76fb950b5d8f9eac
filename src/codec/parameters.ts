/** Values of `$1`, `$2`, … as text for Postgres, by the types that Postgres itself gave the parameters. */
import { EngineError } from '../contract/errors.js';
import { ErrorCollector } from '../contract/error-collector.js';
import { readText } from './batch/cell.js';
import { type Cell, CellError } from './batch/cell-error.js';
import { readArray, readJsonText } from './batch/nested.js';
import type { JsonNode } from './json/nodes.js';

/** Types for which a JSON array is JSON text: json, jsonb, text, varchar, char(n), unknown. For all others it is an array. */
const TAKES_JSON_TEXT = new Set([114, 3802, 25, 1043, 1042, 705]);

/** The making of a Postgres array holds everybody up; JSON text is passed on as it is. */
const MAX_ELEMENTS = 100_000;
const TOO_MANY_ELEMENTS = `an array may hold at most ${MAX_ELEMENTS} values; send more as a parameter of type jsonb, or as records`;

/**
 * Strings as they are, numbers with the digits that were sent, booleans, objects as JSON text, arrays as Postgres
 * arrays or JSON text by the parameter's type.
 * @throws EngineError invalid_request for a wrong number of values, invalid_value for what no Postgres text can hold
 */
export function encodeParameters(values: readonly JsonNode[], oids: readonly number[]): (string | null)[] {
  if (values.length !== oids.length) {
    throw new EngineError(
      'invalid_request',
      `The statement has ${counted(oids.length, 'parameter')}, "params" has ${counted(values.length, 'value')}`,
    );
  }
  const encoded: (string | null)[] = [];
  let errors: ErrorCollector | undefined;
  for (let i = 0; i < values.length; i++) {
    const text = encode(values[i] as JsonNode, oids[i] ?? 0);
    if (text instanceof CellError) (errors ??= new ErrorCollector()).add('invalid_value', placeOf(`$${i + 1}`, text));
    else encoded.push(text);
  }
  errors?.throwIfAny();
  return encoded;
}

const placeOf =
  (parameter: string, { reason }: CellError) =>
  () => ({
    column: parameter,
    message: `Parameter ${parameter}: ${reason}`,
  });

const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`;

function encode(value: JsonNode, oid: number): Cell {
  if (value.kind === 'null') return null;
  if (value.kind === 'object') return readJsonText(value);
  if (value.kind !== 'array') return readText(value);
  if (TAKES_JSON_TEXT.has(oid)) return readJsonText(value);
  return (value.values ?? 0) > MAX_ELEMENTS ? new CellError(TOO_MANY_ELEMENTS) : readArray(value);
}
