/** Reads the JSON body of a request: a value for the schema of its route, and its data without losing a digit. */
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { quoted } from '../../contract/message-text.js';
import type { JsonNode } from './nodes.js';
import { readLimitedJson, type Steps, type ValueLimit } from './read-json.js';

interface JsonBody {
  /** The body, with numbers as doubles. The data is an array of the right length without its items. */
  readonly value: unknown;
  /** The items of the data; empty if there are none. */
  readonly data: readonly JsonNode[];
}

const tooMany = (message: string) => new EngineError('invalid_request', message);

const OF_BODY: ValueLimit = {
  depth: 1,
  isOfField: false,
  tooManyKeys: () => tooMany(`The body has more than ${LIMITS.keysPerRecord} fields`),
  tooManyValues: (_item, field) =>
    tooMany(
      `The body holds more than ${LIMITS.values} values${field === null ? '' : `, counted up to its field ${quoted(field)}`}`,
    ),
};

/** The depth down to which the nodes of a body are kept: fields, and the items of data. */
const KEPT = 2;

/**
 * Each step takes some milliseconds at most.
 * @param dataField a member that is data if it is an array (the `params` of free SQL); all other members are scalars
 * then
 * @throws EngineError `invalid_json`, also for a duplicate key, except inside data; `invalid_request`
 */
export function* readJsonBody(bytes: Uint8Array, dataField?: string): Steps<JsonBody> {
  const hasData = dataField !== undefined;
  const root = readLimitedJson(bytes, OF_BODY, hasData ? KEPT : 0, hasData ? 1 : Infinity);
  yield;
  if (root.kind !== 'object' && root.kind !== 'array') return { value: scalar(root), data: [] };
  if (root.kind === 'array' || !hasData) {
    const parsed: unknown = JSON.parse(root.text);
    yield;
    return { value: parsed, data: [] };
  }
  const value: Record<string, unknown> = {};
  let data: readonly JsonNode[] = [];
  for (const [key, node] of root.members) {
    const isData = key === dataField && node.kind === 'array';
    if (isData) data = node.items;
    const field = isData ? data.map(() => null) : scalar(node);
    // An assignment would set the object's prototype.
    if (key === '__proto__') Object.defineProperty(value, key, { value: field, enumerable: true });
    else value[key] = field;
  }
  return { value, data };
}

/**
 * Reads a body whose members may be data, without losing a digit.
 * @param kept the depth down to which nodes are kept
 * @throws EngineError `invalid_json`, `invalid_request`
 */
export function readDataBody(bytes: Uint8Array, kept = KEPT): JsonNode {
  return readLimitedJson(bytes, OF_BODY, kept, 1);
}

/** The depth down to which the nodes of events are kept: the values in objects of their properties. */
const KEPT_OF_EVENTS = 6;

/**
 * Reads a body of events without losing a digit. Below the body's own fields, keys may occur twice.
 * @param values the most that it may hold
 * @throws EngineError `invalid_json`, `invalid_request`
 */
export function readEventsBody(bytes: Uint8Array, values: number): JsonNode {
  const limit: ValueLimit = {
    ...OF_BODY,
    values,
    tooManyValues: () => tooMany(`The body holds more than ${values} values`),
  };
  return readLimitedJson(bytes, limit, KEPT_OF_EVENTS, 1);
}

/** An array or object becomes an empty one. */
function scalar(node: JsonNode): unknown {
  switch (node.kind) {
    case 'null':
      return null;
    case 'number':
      return Number(node.text);
    case 'array':
      return [];
    case 'object':
      return {};
    default:
      return node.value;
  }
}
