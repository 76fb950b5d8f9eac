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

/** Text that is not what its format says. */
export class CsvError extends Error {
  /** @param line 1-based; of the place, not of the record */
  constructor(
    readonly complaint: string,
    readonly line: number,
    /** A backslash is before the quote. */
    readonly isEscaped: boolean,
  ) {
    super(complaint);
  }
}

/**
 * Reads the records of a text that arrives in parts. Skips blank lines, unless the records have only one field: then they
 * are NULL.
 */
export class CsvReader {
  /** Where the next record begins: its 1-based line, and its place in the text last read. */
  line: number;
  at = 0;
  /** The place of the record last read. */
  start = 0;
  private readonly patterns: ReturnType<typeof patternsFor>;

  /** @param fields of a record; 0: as many as the first one has */
  constructor(
    private readonly options: CsvOptions,
    private fields = 0,
  ) {
    this.line = options.firstLine;
    this.patterns = patternsFor(options);
  }

  /**
   * @param text begins with a record
   * @param isLast the text is complete; otherwise its last record may not be
   * @throws CsvError if a quote is not closed, or is followed by text
   */
  *records(text: string, isLast: boolean): Generator<CsvRecord, void> {
    this.at = 0;
    while (this.at < text.length) {
      const start = this.at;
      const record = this.recordAt(text, start, isLast);
      if (record === undefined) return;
      const { cells, next } = record;
      const { line } = this;
      this.line += Math.max(1, countOf(text, '\n', start, next));
      this.at = next;
      this.fields ||= cells.length;
      const isBlank = cells.length === 1 && cells[0] === null;
      this.start = start;
      if (!isBlank || this.fields === 1) yield { line, cells };
    }
  }

  /** The record at `start`, and the start of the next one; undefined if the record has not arrived completely. */
  private recordAt(text: string, start: number, isLast: boolean): { cells: Cell[]; next: number } | undefined {
    const { delimiter, hasQuotes } = this.options;
    const { quoted, unquoted, unescaped } = this.patterns;
    const cells: Cell[] = [];
    for (let at = start; ;) {
      const isQuoted = hasQuotes && text.charCodeAt(at) === QUOTE;
      const pattern = isQuoted ? quoted : unquoted;
      pattern.lastIndex = at;
      const isWhole = pattern.test(text);
      if (!isWhole && isLast) throw this.error('a quote is not closed', text, start, at);
      const end = pattern.lastIndex;
      // More of the value may follow, or the second character of the line end.
      if (!isWhole || (!isLast && end + 1 >= text.length)) return undefined;
      cells.push(isQuoted ? unescaped(text.slice(at + 1, end - 1)) : end === at ? null : text.slice(at, end));
      const after = text.charAt(end);
      at = end + 1;
      if (after === '\r') return { cells, next: text.charCodeAt(at) === LF ? at + 1 : at };
      if (after === '') return { cells, next: end };
      if (after === '\n') return { cells, next: at };
      if (after !== delimiter) throw this.error('text follows a closing quote', text, start, end);
    }
  }

  private error(complaint: string, text: string, start: number, at: number): CsvError {
    const isEscaped = text.slice(at - 2, at) === '\\"';
    return new CsvError(complaint, this.line + countOf(text, '\n', start, at), isEscaped);
  }
}

const BACKSLASH = `If a quote within quotes is written \\": --escape '\\'. `;

/** @throws FileError that names the line, as {@link CsvReader.records} */
export async function* csvRecords(
  text: AsyncIterable<string> | Iterable<string>,
  options: CsvOptions,
  path: string,
): AsyncGenerator<CsvRecord, void> {
  const reader = new CsvReader(options);
  /** The unread text, which begins with a record. */
  let rest = '';
  /** The length of `rest` from which to read it again, so that a long record is not read again for every chunk. */
  let enough = 0;
  try {
    for await (const piece of text) {
      rest += piece;
      if (rest.length < enough) continue;
      yield* reader.records(rest, false);
      rest = rest.slice(reader.at);
      if (rest.length > RECORD_CHARACTERS)
        throw new FileError(`${path}, line ${reader.line}: a record does not end; a quote is not closed`);
      enough = rest.length * 2;
    }
    yield* reader.records(rest, true);
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    const { complaint, line, isEscaped } = error;
    throw new FileError(
      `${path}, line ${line}: ${complaint}`,
      `${isEscaped ? BACKSLASH : ''}If quotes are text in this file: --no-quotes. If the delimiter is another one: --delimiter`,
    );
  }
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
      own === '' ? value.replaceAll('""', '"') : value.replace(pairs, (pair) => pair.charAt(1)),
  };
}

/** The character, escaped for a regular expression. */
export const escapedInPattern = (character: string): string => character.replace(/[^\w\s]/, '\\$&');

export function countOf(text: string, character: string, from = 0, to = text.length): number {
  let count = 0;
  for (let at = text.indexOf(character, from); at !== -1 && at < to; at = text.indexOf(character, at + 1)) count++;
  return count;
}
