/** One cell: a JSON value and the column it is for. The grammar is the contract's (section 4), not Postgres's. */
import { isUuid } from '../../contract/uuid.js';
import type { BatchColumn } from './column.js';
import type { JsonNode } from '../json/nodes.js';
import { readArray, readJsonb, readJsonText } from './nested.js';
import { readFloat, readInteger } from './numbers.js';
import { CellError, shown, textError, type Cell } from './cell-error.js';
import { readTimestamp } from './timestamp.js';

export function readCell(column: BatchColumn, node: JsonNode): Cell {
  if (column.isId) return readId(node);
  if (node.kind === 'null') return null;
  switch (column.type) {
    case 'TEXT':
      return readText(node, 'Send a string, or keep nested JSON in a JSONB column.');
    case 'INTEGER':
      return readInteger(node);
    case 'FLOAT':
      return readFloat(node);
    case 'BOOLEAN':
      return node.kind === 'boolean' ? String(node.value) : notABoolean(node);
    case 'TIMESTAMP':
      return readTimestamp(node);
    case 'JSONB':
      return readJsonb(node);
    case null:
      return readOther(column, node);
  }
}

function readId(node: JsonNode): Cell {
  if (node.kind === 'string' && isUuid(node.value)) return node.value;
  return new CellError(`${shown(node)} is not a UUID`, 'Omit `id`, and the server generates one.');
}

function notABoolean(node: JsonNode): CellError {
  return new CellError(`${shown(node)} is not a boolean`, 'Send true or false.');
}

/** A number or boolean becomes its JSON text, with digits as sent. */
export function readText(node: JsonNode, hint?: string): Cell {
  switch (node.kind) {
    case 'string':
      return textError(node.value) ?? node.value;
    case 'number':
      return node.text;
    case 'boolean':
      return String(node.value);
    default:
      return new CellError(`${shown(node)} does not fit this column`, hint);
  }
}

/** A Postgres type from free SQL accepts what Postgres accepts: its text, or nested JSON if the type holds JSON. */
function readOther(column: BatchColumn, node: JsonNode): Cell {
  if (column.isJson) return readJsonText(node);
  if (column.isArray && node.kind === 'array') return readArray(node);
  return readText(node, `Send the value of ${column.displayType} as a string, as Postgres writes it.`);
}
