/**
 * The nodes of a JSON text: numbers stay text as sent, arrays and objects keep their source text, members keep their
 * order and duplicates. See docs/decisions/0003 for why they are not plain values.
 */

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
}
/**
 * `members` are in the order sent, including duplicate keys. Kept, or read at each access, like the items of an array.
 */
export interface JsonObject {
  readonly kind: 'object';
  readonly members: readonly JsonMember[];
  readonly text: string;
}
export type JsonMember = readonly [key: string, value: JsonNode];
export type JsonNode = JsonNull | JsonBoolean | JsonNumber | JsonString | JsonArray | JsonObject;

/** The duplicate keys of this object, each once. */
export function duplicateKeys({ members }: JsonObject): Set<string> {
  const seen = new Set<string>();
  const twice = new Set<string>();
  for (const [key] of members) (seen.has(key) ? twice : seen).add(key);
  return twice;
}

/** A member of an object; undefined if it has none of this name. */
export const memberOf = (node: JsonNode | undefined, name: string): JsonNode | undefined =>
  node?.kind === 'object' ? node.members.find(([key]) => key === name)?.[1] : undefined;

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
