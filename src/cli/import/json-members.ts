/** The members of a JSON object as they are written, so that no digit of a value is lost. */
import type { JsonMember, JsonNode } from '../../engine/json/nodes.js';
import { readJson } from '../../engine/json/read-json.js';

/** Undefined where the text is not a JSON object. */
export function membersOf(text: string): readonly JsonMember[] | undefined {
  try {
    const { root } = readJson(Buffer.from(text));
    return root.kind === 'object' ? root.members : undefined;
  } catch {
    return undefined;
  }
}

/** The value as JSON. */
export function textOf(node: JsonNode): string {
  switch (node.kind) {
    case 'null':
      return 'null';
    case 'string':
      return JSON.stringify(node.value);
    case 'boolean':
      return String(node.value);
    default:
      return node.text;
  }
}
