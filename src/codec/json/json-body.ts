/** Reads the JSON body of a request: a value for the schema of its route, and its data without losing a digit. */
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { type JsonNode, refuseDuplicateKeys } from './nodes.js';
import { readJson } from './read-json.js';

interface JsonBody {
  /** The body, with numbers as doubles. The data is an array of the right length without its items. */
  readonly value: unknown;
  /** The items of the data; empty if there are none. */
  readonly data: readonly JsonNode[];
}

/** The longest array that a route accepts: the parameters of a statement. */
const LONG_ARRAYS = {
  depth: 2,
  items: LIMITS.parameters,
  exceeded: () => new EngineError('invalid_request', `The body holds an array of more than ${LIMITS.parameters} items`),
};

/**
 * @param dataField a member that is data if it is an array (the `params` of free SQL); all other members are scalars
 * then
 * @throws EngineError `invalid_json`, also for a duplicate key, except inside data; `invalid_request`
 */
export function readJsonBody(bytes: Uint8Array, dataField?: string): JsonBody {
  const root = readDataBody(bytes, dataField === undefined);
  if (root.kind !== 'object' && root.kind !== 'array') return { value: scalar(root), data: [] };
  if (root.kind === 'array' || dataField === undefined) return { value: JSON.parse(root.text), data: [] };
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
 * @param deep refuses duplicate keys in nested objects, too
 * @throws EngineError `invalid_json`, `invalid_request`
 */
export function readDataBody(bytes: Uint8Array, deep = false): JsonNode {
  const root = readJson(bytes, LONG_ARRAYS, LONG_ARRAYS.depth);
  refuseDuplicateKeys(root, deep);
  return root;
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
