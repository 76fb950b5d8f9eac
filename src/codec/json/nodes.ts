/**
 * The nodes of a JSON text: numbers stay text as sent, arrays and objects keep their source text, members keep their
 * order and duplicates. See docs/decisions/0003 for why they are not plain values.
 */
import { EngineError } from '../../contract/errors.js';
import { quoted } from '../../contract/message-text.js';

export interface JsonNull {
  readonly kind: 'null';
}
export interface JsonBoolean {
  readonly kind: 'boolean';
  readonly value: boolean;
}
/** `text` is the number exactly as sent. */
interface JsonNumber {
  readonly kind: 'number';
  readonly text: string;
}
/** `value` is decoded; it may contain U+0000 and lone surrogates that were sent as `\u` escapes. */
interface JsonString {
  readonly kind: 'string';
  readonly value: string;
}
export interface JsonArray {
  readonly kind: 'array';
  /** Read from the text at each access, if nodes of this depth are not kept. */
  readonly items: readonly JsonNode[];
  readonly text: string;
  /** The number of values in it, including nested ones; set only if `items` are not kept. */
  readonly values?: number;
}
/**
 * `members` are in the order sent, including duplicate keys. Kept, or read at each access, like the items of an array.
 */
export interface JsonObject {
  readonly kind: 'object';
  readonly members: readonly JsonMember[];
  readonly text: string;
  readonly values?: number;
}
export type JsonMember = readonly [key: string, value: JsonNode];
export type JsonNode = JsonNull | JsonBoolean | JsonNumber | JsonString | JsonArray | JsonObject;

/**
 * Refuses an object with a duplicate key, because a reader would silently ignore one of them.
 * @param deep also checks nested values; off if a nested value is data, such as the `params` of free SQL.
 * @throws EngineError `invalid_json` that names the key.
 */
export function refuseDuplicateKeys(node: JsonNode, deep = true): void {
  if (node.kind === 'object') {
    const [key] = duplicateKeys(node);
    if (key !== undefined) throw new EngineError('invalid_json', `The key ${quoted(key)} occurs twice`);
  }
  if (deep) for (const child of children(node)) refuseDuplicateKeys(child);
}

/** The duplicate keys of this object, each once. */
export function duplicateKeys(object: JsonObject): Set<string> {
  const seen = new Set<string>();
  const twice = new Set<string>();
  for (const [key] of object.members) (seen.has(key) ? twice : seen).add(key);
  return twice;
}

/** The nodes directly inside an array or object; empty for others. */
function children(node: JsonNode): readonly JsonNode[] {
  if (node.kind === 'array') return node.items;
  return node.kind === 'object' ? node.members.map(([, value]) => value) : [];
}

/** The value as JSON; numbers, arrays and objects as sent. */
export function jsonText(node: JsonNode): string {
  switch (node.kind) {
    case 'null':
      return 'null';
    case 'boolean':
      return String(node.value);
    case 'string':
      return JSON.stringify(node.value);
    default:
      return node.text;
  }
}
