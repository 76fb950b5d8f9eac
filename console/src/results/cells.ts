/** Cells as JSON text, so that no digit is lost: `JSON.parse` would round numbers. */

import { membersOf as jsonMembers } from '../../../src/import/json-records.js';

/** The JSON text of a value in a row. */
export type Cell = string;

export const isNull = (cell: Cell): boolean => cell === 'null';

export const isJsonType = (type: string): boolean => /^jsonb?$/i.test(type);

/** The text that Postgres would print: strings without their quotes, json as written. */
export function textOf(cell: Cell, type: string): string {
  return cell.startsWith('"') && !isJsonType(type) ? (JSON.parse(cell) as string) : cell;
}

const NUMERIC = /^(integer|smallint|bigint|float|real|double precision|numeric|money|oid)\b/i;

export const isNumeric = (type: string): boolean => NUMERIC.test(type) && !type.endsWith('[]');

/** Maximum number of characters that a cell of the grid shows; the viewer shows all of them. */
const SHOWN = 300;

/** One line for the grid. */
export function preview(cell: Cell, type: string): string {
  // A long value is cut before it is parsed: 1 MiB in each cell must not slow down the grid.
  const text = cell.length > 4 * SHOWN && cell.startsWith('"') ? cutString(cell) : textOf(cell, type);
  return oneLine(text);
}

/** Replaces control characters by visible symbols, so that they are not mistaken for spaces. */
export function oneLine(text: string): string {
  const short = text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
  return short.replace(/\r\n|[\n\r]/g, '⏎').replaceAll('\t', '⇥');
}

/** The beginning of a long JSON string, without an incomplete escape sequence at its end. */
function cutString(cell: Cell): string {
  const part = cell.slice(1, 2 * SHOWN).replace(/\\(?:u[0-9a-fA-F]{0,3})?$/, '');
  const odd = /(?:^|[^\\])(?:\\\\)*\\$/.test(part) ? part.slice(0, -1) : part;
  return `${JSON.parse(`"${odd}"`) as string}…`;
}

/** @param text a valid JSON object */
export const membersOf = (text: string): Map<string, Cell> => new Map(jsonMembers(text));
