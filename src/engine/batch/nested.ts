/** JSON values that stay whole: those of JSONB and json columns, and JSON arrays for columns of a Postgres array type. */
import { children, type JsonArray, type JsonNode } from '../json.js';
import { arrayLiteral, quotedElement } from './array-literal.js';
import { fitsNumeric } from './decimal.js';
import { Refusal, shown, type Cell } from './refusal.js';
import { refuseText } from './text.js';

/** Any JSON as the text that was sent, so that every digit arrives. JSON null is NULL. */
export function readJsonb(node: JsonNode): Cell {
  return refuseInside(node, 'jsonb') ?? jsonText(node);
}

/** The same for `json`, which keeps numbers as text and takes any. */
export function readJsonText(node: JsonNode): Cell {
  return refuseInside(node, 'json') ?? jsonText(node);
}

/** A JSON array as Postgres's array literal (Postgres manual 8.15.2); an object in it becomes its JSON text. */
export function readArray(node: JsonArray): Cell {
  return refuseInside(node, 'json') ?? arrayLiteral(node.items.map(arrayElement));
}

function arrayElement(node: JsonNode): string {
  if (node.kind === 'array') return arrayLiteral(node.items.map(arrayElement));
  return quotedElement(node.kind === 'string' ? node.value : jsonText(node));
}

function jsonText(node: JsonNode): string | null {
  switch (node.kind) {
    case 'null':
      return null;
    case 'boolean':
      return String(node.value);
    case 'string':
      return JSON.stringify(node.value);
    default:
      return node.text;
  }
}

function refuseInside(node: JsonNode, type: 'json' | 'jsonb'): Refusal | undefined {
  if (node.kind === 'string') return refuseText(node.value);
  if (node.kind === 'number' && type === 'jsonb' && !fitsNumeric(node.text)) {
    return new Refusal(`the number ${shown(node)} is beyond what JSONB can hold`);
  }
  if (node.kind === 'object') {
    for (const [key] of node.members) {
      const refusal = refuseText(key);
      if (refusal !== undefined) return refusal;
    }
  }
  for (const child of children(node)) {
    const refusal = refuseInside(child, type);
    if (refusal !== undefined) return refusal;
  }
  return undefined;
}
