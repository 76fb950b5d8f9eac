/** Nested JSON: values of JSONB and json columns, and arrays for columns of a Postgres array type. */
import { type JsonArray, type JsonNode, jsonText } from '../json/nodes.js';
import { visitJson } from '../json/read-json.js';
import { fitsNumeric } from './decimal.js';
import { CellError, shown, textError, type Cell } from './cell-error.js';

/** Any JSON as the text that was sent, so that no digit is lost. JSON null is NULL. */
export function readJsonb(node: JsonNode): Cell {
  return invalidInside(node, 'jsonb') ?? jsonCell(node);
}

/** As for `jsonb`, except that `json` keeps numbers as text and so accepts all of them. */
export function readJsonText(node: JsonNode): Cell {
  return invalidInside(node, 'json') ?? jsonCell(node);
}

/** A JSON array as Postgres's array literal (Postgres manual 8.15.2); an object in it becomes its JSON text. */
export function readArray(node: JsonArray): Cell {
  return invalidInside(node, 'json') ?? arrayLiteral(node);
}

const arrayLiteral = ({ items }: JsonArray): string => `{${items.map(arrayElement).join(',')}}`;

/** Quoted, so that nothing in it is syntax, and the text NULL is not a null. */
function arrayElement(node: JsonNode): string {
  if (node.kind === 'array') return arrayLiteral(node);
  const text = node.kind === 'string' ? node.value : jsonCell(node);
  return text === null ? 'NULL' : `"${text.replace(/["\\]/g, '\\$&')}"`;
}

/** JSON null is NULL. */
const jsonCell = (node: JsonNode): string | null => (node.kind === 'null' ? null : jsonText(node));

/** Visits the nested text: a tree would take many times as much memory. */
function invalidInside(node: JsonNode, type: 'json' | 'jsonb'): CellError | undefined {
  if (node.kind === 'string') return textError(node.value);
  if (node.kind === 'number') return numberError(node.text, type);
  if (node.kind !== 'array' && node.kind !== 'object') return undefined;
  let error: CellError | undefined;
  visitJson(node.text, {
    // Postgres accepts all unescaped text: the body is UTF-8, and JSON can contain U+0000 only as an escape.
    escaped: (text) => (error ??= MAY_BE_UNSTORABLE.test(text) ? textError(JSON.parse(text) as string) : undefined),
    number: (text) => (error ??= numberError(text, type)),
  });
  return error;
}

/** An escape of U+0000 or of a surrogate. Most texts have none and need no decoding. */
const MAY_BE_UNSTORABLE = /\\u(?:0000|[dD][89a-fA-F])/;

function numberError(text: string, type: 'json' | 'jsonb'): CellError | undefined {
  if (type === 'json' || fitsNumeric(text)) return undefined;
  return new CellError(`the number ${shown({ kind: 'number', text })} is beyond what JSONB can hold`);
}
