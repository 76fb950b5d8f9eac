/**
 * Reads records of delimited text (RFC 4180, with any delimiter and line end). Distinguishes an empty field from `""`,
 * which npm parsers do slowly or not at all (docs/decisions/0026).
 */
import { FileError } from './file-error.js';

/** null for an empty field, '' for `""`. */
export type Cell = string | null;

export interface CsvRecord {
  /** The 1-based number of its first line. */
  readonly line: number;
  readonly cells: readonly Cell[];
}

/** Whether the record has as many values as the header. A delimiter at the end of a line adds no value. */
export const fitsHeader = (cells: readonly Cell[], fields: number): boolean =>
  cells.length >= fields && (cells.length === fields || cells.slice(fields).every((cell) => cell === null));

/** A larger record means that a quote or bracket is not closed. */
export const RECORD_CHARACTERS = 16 * 1024 * 1024;

const QUOTE = 0x22;
const LF = 0x0a;

interface CsvOptions {
  /** A single character. */
  delimiter: string;
  /** Whether quotes enclose fields; otherwise they are text. */
  hasQuotes: boolean;
  /** Escapes a quote or itself within quotes. A doubled quote always does, too. */
  escape?: string | undefined;
  /** The line number of the first record in the file. */
  firstLine: number;
}

const BACKSLASH = `If a quote within quotes is written \\": --escape '\\'. `;

/**
 * Skips blank lines, unless the records have only one field: then they are NULL.
 * @throws FileError that names the line if a quote is not closed, or is followed by text
 */
export async function* csvRecords(
  text: AsyncIterable<string> | Iterable<string>,
  options: CsvOptions,
  path: string,
): AsyncGenerator<CsvRecord, void> {
  const { delimiter, hasQuotes } = options;
  const { quoted, unquoted, unescaped } = patternsFor(options);
  let line = options.firstLine;
  /** The unread text, which begins with a record. */
  let rest = '';
  /** The length of `rest` from which to read it again, so that a long record is not read again for every chunk. */
  let enough = 0;
  let fields = 0;

  const fail = (complaint: string, start: number, at: number): never => {
    const isEscaped = rest.slice(at - 2, at) === '\\"';
    throw new FileError(
      `${path}, line ${line + countOf(rest, '\n', start, at)}: ${complaint}`,
      `${isEscaped ? BACKSLASH : ''}If quotes are text in this file: --no-quotes. If the delimiter is another one: --delimiter`,
    );
  };

  /** The record at `start`, and the start of the next one; undefined if the record has not arrived completely. */
  const recordAt = (start: number, isLast: boolean): { cells: Cell[]; next: number } | undefined => {
    const cells: Cell[] = [];
    for (let at = start; ;) {
      const isQuoted = hasQuotes && rest.charCodeAt(at) === QUOTE;
      const pattern = isQuoted ? quoted : unquoted;
      pattern.lastIndex = at;
      const isWhole = pattern.test(rest);
      if (!isWhole && isLast) fail('a quote is not closed', start, at);
      const end = pattern.lastIndex;
      // More of the value may follow, or the second character of the line end.
      if (!isWhole || (!isLast && end + 1 >= rest.length)) return undefined;
      cells.push(isQuoted ? unescaped(rest.slice(at + 1, end - 1)) : end === at ? null : rest.slice(at, end));
      const after = rest.charAt(end);
      at = end + 1;
      if (after === '\r') return { cells, next: rest.charCodeAt(at) === LF ? at + 1 : at };
      if (after === '\n' || after === '') return { cells, next: at };
      if (after !== delimiter) fail('text follows a closing quote', start, end);
    }
  };

  const complete = function* (isLast: boolean): Generator<CsvRecord, void> {
    let start = 0;
    while (start < rest.length) {
      const record = recordAt(start, isLast);
      if (record === undefined) break;
      const { cells, next } = record;
      fields ||= cells.length;
      const isBlank = cells.length === 1 && cells[0] === null;
      if (!isBlank || fields === 1) yield { line, cells };
      line += Math.max(1, countOf(rest, '\n', start, next));
      start = next;
    }
    rest = rest.slice(start);
  };

  for await (const piece of text) {
    rest += piece;
    if (rest.length < enough) continue;
    yield* complete(false);
    if (rest.length > RECORD_CHARACTERS)
      throw new FileError(`${path}, line ${line}: a record does not end; a quote is not closed`);
    enough = rest.length * 2;
  }
  yield* complete(true);
}

/** Patterns for a value at a position. As in Postgres, an escape is text unless a quote or another escape follows. */
function patternsFor({ delimiter, escape }: CsvOptions) {
  const own = escape === undefined ? '' : escapedInPattern(escape);
  const pair = own === '' ? '""' : `""|${own}["${own}]`;
  const lone = own === '' ? '' : `|${own}(?!["${own}])`;
  const pairs = new RegExp(pair, 'g');
  return {
    quoted: new RegExp(`"[^"${own}]*(?:(?:${pair}${lone})[^"${own}]*)*"(?!")`, 'y'),
    unquoted: new RegExp(`[^${escapedInPattern(delimiter)}\\r\\n]*`, 'y'),
    unescaped: (value: string) =>
      value.includes('"') || own !== '' ? value.replace(pairs, (pair) => pair.charAt(1)) : value,
  };
}

/** The character, escaped for a regular expression. */
export const escapedInPattern = (character: string): string => character.replace(/[^\w\s]/, '\\$&');

export function countOf(text: string, character: string, from = 0, to = text.length): number {
  let count = 0;
  for (let at = text.indexOf(character, from); at !== -1 && at < to; at = text.indexOf(character, at + 1)) count++;
  return count;
}
