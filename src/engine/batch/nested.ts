/** JSON values that stay whole: those of JSONB and json columns, and JSON arrays for columns of a Postgres array type. */
import type { JsonArray, JsonNode } from '../json/nodes.js';
import { JsonWalk } from '../json/json-walk.js';
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

/** Walks over the text of what is nested: a tree of it would take many times its memory. */
function refuseInside(node: JsonNode, type: 'json' | 'jsonb'): Refusal | undefined {
  if (node.kind === 'string') return refuseText(node.value);
  if (node.kind === 'number') return refuseNumber(node.text, type);
  if (node.kind !== 'array' && node.kind !== 'object') return undefined;
  let refusal: Refusal | undefined;
  const walk = new JsonWalk(node.text, 0, unchecked, {
    // What was sent unescaped is a text that Postgres takes: the body is UTF-8, and U+0000 must be escaped.
    escaped: (text) => (refusal ??= MAY_BE_REFUSED.test(text) ? refuseText(JSON.parse(text) as string) : undefined),
    number: (text) => (refusal ??= refuseNumber(text, type)),
  });
  walk.value(0);
  return refusal;
}

/** An escape of U+0000 or of half a surrogate pair; a text of escapes is long, and most hold neither. */
const MAY_BE_REFUSED = /\\u(?:0000|[dD][89a-fA-F])/;

/** Within what a jsonb holds, whatever the digits are. */
const SHORT_NUMBER = /^[^eE]{1,1000}(?:[eE][+-]?[0-9]{1,4})?$/;

function refuseNumber(text: string, type: 'json' | 'jsonb'): Refusal | undefined {
  if (type === 'json' || SHORT_NUMBER.test(text) || fitsNumeric(text)) return undefined;
  return new Refusal(`the number ${shown({ kind: 'number', text })} is beyond what JSONB can hold`);
}

const unchecked = (): never => {
  throw new Error('Nested JSON was used that had not been checked');
};
