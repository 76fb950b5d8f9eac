/**
 * Reads records of JSON as text, so that no digit is lost: one per line, the items of an array, or objects that span
 * several lines.
 */
import { FileError } from './file-error.js';
import { RECORD_CHARACTERS } from './csv-reader.js';

export interface JsonRecord {
  /** The 1-based number of its first line. */
  readonly line: number;
  readonly text: string;
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const STRING = String.raw`"[^"\\]*(?:\\.[^"\\]*)*"`;
const NAME = new RegExp(String.raw`[\s,]*(${STRING})\s*:\s*`, 'y');
const SCALAR = new RegExp(String.raw`${STRING}|[^\s,"{}[\]]+`, 'y');
const STRING_OR_BRACKET = new RegExp(String.raw`${STRING}|[{}[\]]`, 'g');

/** The members of a JSON object with their values as written; undefined if the text is not a JSON object. */
export function membersOf(text: string): [name: string, value: string][] | undefined {
  if (!/^\s*\{/.test(text) || !isJson(text)) return undefined;
  const members: [string, string][] = [];
  NAME.lastIndex = text.indexOf('{') + 1;
  for (let match = NAME.exec(text); match !== null; match = NAME.exec(text)) {
    const start = NAME.lastIndex;
    const end = endOfValue(text, start);
    const [, name = ''] = match;
    members.push([name.includes('\\') ? (JSON.parse(name) as string) : name.slice(1, -1), text.slice(start, end)]);
    NAME.lastIndex = end;
  }
  return members;
}

const SEPARATOR = /[\s,]*/y;

/**
 * The items of a JSON array as written.
 * @param text a valid JSON array
 */
export function cellsOf(text: string): string[] {
  const cells: string[] = [];
  SEPARATOR.lastIndex = text.indexOf('[') + 1;
  for (SEPARATOR.test(text); /[^\]]/.test(text[SEPARATOR.lastIndex] ?? ''); SEPARATOR.test(text)) {
    const start = SEPARATOR.lastIndex;
    SEPARATOR.lastIndex = endOfValue(text, start);
    cells.push(text.slice(start, SEPARATOR.lastIndex));
  }
  return cells;
}

/** A table has at most 500 columns, but fields may be left out. */
const MAX_FIELDS = 10_000;

/**
 * @param count number of different fields
 * @param what has them, for the message
 * @throws FileError if there are more than {@link MAX_FIELDS}
 */
export function requireFewFields(count: number, what: string): void {
  if (count <= MAX_FIELDS) return;
  throw new FileError(
    `${what} more than ${MAX_FIELDS} different fields`,
    'A table has at most 500 columns; put what differs from record to record into one JSON value',
  );
}

/** @param text valid JSON, or the beginning of some @returns the length of the text, if the value does not end in it */
export function endOfValue(text: string, start: number): number {
  SCALAR.lastIndex = start;
  if (SCALAR.test(text)) return SCALAR.lastIndex;
  STRING_OR_BRACKET.lastIndex = start;
  let depth = 0;
  do {
    const [token] = STRING_OR_BRACKET.exec(text) ?? [];
    if (token === '{' || token === '[') depth++;
    else if (token === '}' || token === ']') depth--;
    else if (token === undefined) return text.length;
  } while (depth > 0);
  return STRING_OR_BRACKET.lastIndex;
}

/** A record of this size is usually an object that contains all records. */
const tooLarge = (path: string, line: number): FileError =>
  new FileError(
    `${path}, line ${line}: a record does not end within ${RECORD_CHARACTERS / 2 ** 20} MiB`,
    `If the records are in an array inside it: jq -c '.NAME[]' FILE | cdp import -`,
  );

export async function* jsonLines(text: AsyncIterable<string>, path: string): AsyncGenerator<JsonRecord, void> {
  let line = 0;
  let rest = '';
  for await (const piece of text) {
    const hasReturns = piece.includes('\r') || rest.endsWith('\r');
    if (!hasReturns && !piece.includes('\n')) {
      rest += piece;
      if (rest.length > RECORD_CHARACTERS) throw tooLarge(path, line + 1);
      continue;
    }
    // A line feed may follow a carriage return at the end of a piece.
    const lines = (rest + piece).split(hasReturns ? /\r\n|\n|\r(?!$)/ : '\n');
    rest = lines.pop() ?? '';
    for (const each of lines) {
      line++;
      if (each.trim() !== '') yield { line, text: each };
    }
  }
  if (rest.trim() !== '') yield { line: line + 1, text: rest };
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const LF = 0x0a;
const CR = 0x0d;
const OPEN_BRACKET = 0x5b;

const isOpen = (unit: number): boolean => unit === 0x7b || unit === OPEN_BRACKET;
const isClose = (unit: number): boolean => unit === 0x7d || unit === 0x5d;

/**
 * Reads the items of an array, or if the text begins with an object, a sequence of objects that may span several lines.
 * Only splits the text; the reader of an item checks whether it is JSON.
 * @throws FileError if the text is neither
 */
export async function* jsonItems(text: AsyncIterable<string>, path: string): AsyncGenerator<JsonRecord, void> {
  let line = 1;
  let item = '';
  let itemLine = 1;
  let depth = 0;
  /** The depth of the items; undefined before the first bracket. */
  let base: 0 | 1 | undefined;
  let inString = false;
  let isEscaped = false;
  let hasEnded = false;
  let count = 0;
  let before = 0;
  const fail = (what: string) => new FileError(`${path}, line ${line}: ${what}`, 'If it is not JSON: --format');
  for await (const piece of text) {
    let from = 0;
    const finished = (to: number, next: number): JsonRecord | undefined => {
      const whole = (item + piece.slice(from, to)).trim();
      [item, from] = ['', next];
      return whole === '' ? undefined : { line: itemLine, text: whole };
    };
    for (let at = 0; at < piece.length; at++) {
      const unit = piece.charCodeAt(at);
      if (unit === CR || (unit === LF && before !== CR)) line++;
      before = unit;
      if (inString) {
        if (isEscaped) isEscaped = false;
        else if (unit === BACKSLASH) isEscaped = true;
        else if (unit === QUOTE) inString = false;
      } else if (hasEnded) {
        if (unit > 0x20) throw fail('there is text after the array');
      } else if (depth === 0 && unit > 0x20) {
        if (!isOpen(unit) || (base === 0 && unit === OPEN_BRACKET)) {
          throw fail(base === undefined ? 'expected a JSON array or object' : 'expected an object');
        }
        base ??= unit === OPEN_BRACKET ? 1 : 0;
        depth = 1;
        from = at + base;
        itemLine = line;
      } else if (unit === QUOTE) {
        inString = true;
      } else if (isOpen(unit)) {
        if (++depth === 2 && base === 1) itemLine = line;
      } else if (isClose(unit)) {
        if (--depth > 0) continue;
        const record = base === 0 ? finished(at + 1, at + 1) : finished(at, at + 1);
        if (record === undefined && count > 0) throw fail('expected an item');
        if (record !== undefined) yield record;
        hasEnded = base === 1;
      } else if (unit === COMMA && depth === 1 && base === 1) {
        const record = finished(at, at + 1);
        if (record === undefined) throw fail('expected an item');
        itemLine = line;
        count++;
        yield record;
      }
    }
    if (depth > 0) item += piece.slice(from);
    if (item.length > RECORD_CHARACTERS) throw tooLarge(path, itemLine);
  }
  if (!hasEnded && (base !== 0 || depth > 0))
    throw fail(base === 0 ? 'an object does not end' : 'the array does not end');
}
