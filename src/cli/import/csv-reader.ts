/**
 * Records of delimited text (RFC 4180, with any delimiter and any line end). It distinguishes an empty field from `""`, which
 * the npm parsers do slowly or not at all (docs/decisions/0026).
 */
import { UsageError } from '../exit.js';

/** null for an empty field, '' for `""`. */
export type Cell = string | null;

export interface CsvRecord {
  /** 1-based number of its first line. */
  readonly line: number;
  readonly cells: readonly Cell[];
}

/** Whether the record has as many values as the header. A delimiter at the end of a line adds no value. */
export const fitsHeader = (cells: readonly Cell[], fields: number): boolean =>
  cells.length >= fields && (cells.length === fields || cells.slice(fields).every((cell) => cell === null));

/** A larger record means a quote or bracket that is not closed. */
export const RECORD_CHARACTERS = 16 * 1024 * 1024;

const QUOTE = 0x22;
const LF = 0x0a;
const CR = 0x0d;

export interface CsvOptions {
  /** One character. */
  delimiter: string;
  /** Whether quotes enclose fields; if not, they are text. */
  hasQuotes: boolean;
  /** Escapes a quote or itself within quotes, as a second quote always does. */
  escape?: string;
  /** Line number of the first record in the file. */
  firstLine: number;
}

/**
 * Blank lines are skipped, unless the records have one field: then they are NULL.
 * @throws UsageError naming the line if a quote is not closed, or is followed by text
 */
export async function* csvRecords(
  text: AsyncIterable<string> | Iterable<string>,
  { delimiter, hasQuotes, escape, firstLine }: CsvOptions,
  path: string,
): AsyncGenerator<CsvRecord, void> {
  let line = firstLine;
  let rest = '';
  /** So that a long record is not read again with every piece that arrives. */
  let enough = 0;
  let fields = 0;
  const take = function* (isLast: boolean): Generator<CsvRecord, void> {
    const quote = hasQuotes ? QUOTE : NaN;
    const reader = new CsvReader(rest, delimiter.charCodeAt(0), quote, escape, isLast, (complaint, at) => {
      const before = line + countOf(rest, '\n', reader.start, at);
      const isEscaped = rest.slice(at - 2, at) === '\\"';
      throw new UsageError(
        `${path}, line ${before}: ${complaint}`,
        `${isEscaped ? BACKSLASH : ''}If quotes are text in this file: --no-quotes. If the delimiter is another one: --delimiter`,
      );
    });
    for (let cells = reader.next(); cells !== undefined; cells = reader.next()) {
      fields ||= cells.length;
      const isBlank = cells.length === 1 && cells[0] === null;
      if (!isBlank || fields === 1) yield { line, cells };
      line += reader.lines;
    }
    rest = rest.slice(reader.start);
  };
  for await (const piece of text) {
    rest += piece;
    if (rest.length < enough) continue;
    yield* take(false);
    if (rest.length > RECORD_CHARACTERS)
      throw new UsageError(`${path}, line ${line}: a record does not end; a quote is not closed`);
    enough = rest.length * 2;
  }
  yield* take(true);
}

const BACKSLASH = `If a quote within quotes is written \\": --escape '\\'. `;

type Complain = (complaint: string, at: number) => never;

class CsvReader {
  /** Where the next record begins. */
  start = 0;
  /** Lines of the last record. */
  lines = 0;
  /** The special characters within quotes; undefined if there is only the quote. */
  private readonly marks: RegExp | undefined;

  /** @param quote NaN, which equals no character, if quotes are text */
  constructor(
    private readonly text: string,
    private readonly delimiter: number,
    private readonly quote: number,
    private readonly escape: string | undefined,
    private readonly isLast: boolean,
    private readonly complain: Complain,
  ) {
    this.marks = escape === undefined ? undefined : new RegExp(`["${escapedInPattern(escape)}]`, 'g');
  }

  /** Undefined if the rest of the text is not a complete record. */
  next(): Cell[] | undefined {
    const { text, isLast, delimiter, quote } = this;
    const { length } = text;
    if (this.start >= length) return undefined;
    const cells: Cell[] = [];
    let lines = 1;
    let at = this.start;
    for (;;) {
      if (text.charCodeAt(at) === quote) {
        const end = this.closingQuote(at + 1);
        if (end === -1) return undefined;
        const value = text.slice(at + 1, end);
        if (value.includes('\n')) lines += countOf(value, '\n');
        cells.push(this.unescaped(value));
        at = end + 1;
      } else {
        const from = at;
        let unit = text.charCodeAt(at);
        while (unit !== delimiter && unit !== LF && unit !== CR && at < length) unit = text.charCodeAt(++at);
        cells.push(at === from ? null : text.slice(from, at));
      }
      if (at >= length) {
        if (!isLast) return undefined;
        break;
      }
      const unit = text.charCodeAt(at);
      if (unit === delimiter) {
        at++;
      } else if (unit === LF) {
        at++;
        break;
      } else if (unit === CR) {
        if (at + 1 === length && !isLast) return undefined;
        at += text.charCodeAt(at + 1) === LF ? 2 : 1;
        break;
      } else {
        this.complain('text follows a closing quote', at);
      }
    }
    this.start = at;
    this.lines = lines;
    return cells;
  }

  /** -1 if it has not arrived yet. */
  private closingQuote(from: number): number {
    const { text, isLast } = this;
    for (let at = from; ;) {
      at = this.nextMark(at);
      if (at === -1) return isLast ? this.complain('a quote is not closed', from - 1) : -1;
      if (at + 1 === text.length && !isLast) return -1;
      if (this.isPair(text, at)) at += 2;
      else if (text.charCodeAt(at) === QUOTE) return at;
      else at++;
    }
  }

  /** The next quote or escape character. */
  private nextMark(from: number): number {
    const { text, marks } = this;
    if (marks === undefined) return text.indexOf('"', from);
    marks.lastIndex = from;
    return marks.exec(text)?.index ?? -1;
  }

  /** Whether the character escapes the next one. An escape before any other character is text, as in Postgres. */
  private isPair(text: string, at: number): boolean {
    const [character, next] = [text.charAt(at), text.charAt(at + 1)];
    return character === this.escape ? next === '"' || next === character : character === '"' && next === '"';
  }

  private unescaped(value: string): string {
    const { escape } = this;
    if (escape === undefined) return value.includes('"') ? value.replaceAll('""', '"') : value;
    if (!value.includes('"') && !value.includes(escape)) return value;
    let text = '';
    for (let at = 0; at < value.length; at++) {
      if (this.isPair(value, at)) at++;
      text += value.charAt(at);
    }
    return text;
  }
}

/** The character as itself in a regular expression. */
export const escapedInPattern = (character: string): string => character.replace(/[^\w\s]/, '\\$&');

export function countOf(text: string, character: string, from = 0, to = text.length): number {
  let count = 0;
  for (let at = text.indexOf(character, from); at !== -1 && at < to; at = text.indexOf(character, at + 1)) count++;
  return count;
}
