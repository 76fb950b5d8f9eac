/** Cells as JSON text, so that no digit is lost: `JSON.parse` would round numbers. */

/** The JSON text of a value in a row. */
export type Cell = string;

/** Characters with a meaning outside of strings. */
const MARK = /[",[\]{}]/g;

/**
 * Splits a JSON array into its elements, or an object into its members.
 * @param line valid JSON, as the service writes it
 */
export function cellsOf(line: string): Cell[] {
  const cells: Cell[] = [];
  let depth = 0;
  let start = 1;
  MARK.lastIndex = 0;
  for (let found = MARK.exec(line); found !== null; found = MARK.exec(line)) {
    const [char] = found;
    if (char === '"') {
      MARK.lastIndex = endOfString(line, found.index);
      continue;
    }
    if (char === '[' || char === '{') depth++;
    else if (char === ']' || char === '}') depth--;
    if ((depth === 1 && char === ',') || (depth === 0 && (char === ']' || char === '}'))) {
      const cell = line.slice(start, found.index).trim();
      if (cell !== '') cells.push(cell);
      start = found.index + 1;
    }
  }
  return cells;
}

function endOfString(text: string, from: number): number {
  for (let quote = text.indexOf('"', from + 1); quote >= 0; quote = text.indexOf('"', quote + 1)) {
    let slashes = 0;
    while (text[quote - 1 - slashes] === '\\') slashes++;
    if (slashes % 2 === 0) return quote + 1;
  }
  return text.length;
}

export const isNull = (cell: Cell): boolean => cell === 'null';

export const isJsonType = (type: string): boolean => /^jsonb?$/i.test(type);

/** The text that Postgres would print: strings without their quotes, json as written. */
export function textOf(cell: Cell, type: string): string {
  return cell.startsWith('"') && !isJsonType(type) ? (JSON.parse(cell) as string) : cell;
}

const NUMERIC = /^(integer|smallint|bigint|float|real|double precision|numeric|money|oid)\b/i;

export const isNumeric = (type: string): boolean => NUMERIC.test(type) && !type.endsWith('[]');

/** The most characters that a cell of the grid shows; the viewer shows all of them. */
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

/**
 * The members of a JSON object, each value as its text.
 * @param text valid JSON
 */
export function membersOf(text: string): Map<string, string> {
  const members = new Map<string, string>();
  for (const member of cellsOf(text)) {
    const end = endOfString(member, 0);
    members.set(JSON.parse(member.slice(0, end)) as string, member.slice(member.indexOf(':', end) + 1).trim());
  }
  return members;
}
