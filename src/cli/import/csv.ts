/**
 * Records of delimited text (RFC 4180, with any delimiter and any line end). It tells an empty field from `""`, which
 * the parsers of the registry do slowly or not at all (docs/decisions/0026).
 */
import { UsageError } from '../remote/outcome.js';
import { inPattern } from './cell-values.js';

/** null is an empty field, '' is `""`. */
export type Cell = string | null;

export interface CsvRecord {
  /** 1-based line of the text where it begins. */
  readonly line: number;
  readonly cells: readonly Cell[];
}

/** Whether the record has a value for each of so many heads and none beyond: a delimiter at the end of a line is no value. */
export const fitsHeads = (cells: readonly Cell[], heads: number): boolean =>
  cells.length >= heads && (cells.length === heads || cells.slice(heads).every((cell) => cell === null));

/** A record this large is a quote or a bracket that nobody closed. */
export const RECORD_CHARACTERS = 16 * 1024 * 1024;

const QUOTE = 0x22;
const LF = 0x0a;
const CR = 0x0d;

export interface CsvOptions {
  /** One character. */
  delimiter: string;
  /** Whether a field that begins with a quote ends with one; false: quotes are text. */
  hasQuotes: boolean;
  /** Before a quote that does not end its field, and before itself; a quote does so in any case. */
  escape?: string;
  /** Of the first record, in the file. */
  firstLine: number;
}

/**
 * Blank lines are left out, but where the records have one field: there they are NULL.
 * @throws UsageError naming the line where a quote is not closed, or something follows it
 */
export async function* csvRecords(
  text: AsyncIterable<string> | Iterable<string>,
  { delimiter, hasQuotes, escape, firstLine }: CsvOptions,
  path: string,
): AsyncGenerator<CsvRecord, void> {
  let line = firstLine;
  let rest = '';
  /** A long record is not looked at anew with each piece that arrives. */
  let enough = 0;
  let fields = 0;
  const take = function* (isLast: boolean): Generator<CsvRecord, void> {
    const quote = hasQuotes ? QUOTE : NaN;
    const reader = new Reader(rest, delimiter.charCodeAt(0), quote, escape, isLast, (complaint, at) => {
      const before = line + countOf(rest, '\n', reader.start, at);
      const isEscaped = rest.slice(at - 2, at) === '\\"';
      throw new UsageError(
        `${path}, line ${before}: ${complaint}`,
        `${isEscaped ? BACKSLASH : ''}Are quotes text in this file? --no-quotes. Is the delimiter another one? --delimiter`,
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

const BACKSLASH = `Is a quote within quotes written \\"? --escape '\\'. `;

type Complain = (complaint: string, at: number) => never;

class Reader {
  /** Where the next record begins. */
  start = 0;
  /** Of the last record. */
  lines = 0;
  /** What means more than itself within quotes, where that is more than a quote. */
  private readonly marks: RegExp | undefined;

  /** @param quote NaN, which no character is, where there are none */
  constructor(
    private readonly text: string,
    private readonly delimiter: number,
    private readonly quote: number,
    private readonly escape: string | undefined,
    private readonly isLast: boolean,
    private readonly complain: Complain,
  ) {
    this.marks = escape === undefined ? undefined : new RegExp(`["${inPattern(escape)}]`, 'g');
  }

  /** Undefined where the text holds no whole record any more. */
  next(): Cell[] | undefined {
    const { text, isLast, delimiter, quote } = this;
    const { length } = text;
    if (this.start >= length) return undefined;
    const cells: Cell[] = [];
    let lines = 1;
    let at = this.start;
    for (;;) {
      if (text.charCodeAt(at) === quote) {
        const end = this.#closingQuote(at + 1);
        if (end === -1) return undefined;
        const value = text.slice(at + 1, end);
        if (value.includes('\n')) lines += countOf(value, '\n');
        cells.push(this.#unescaped(value));
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
        this.complain('something follows a closing quote', at);
      }
    }
    this.start = at;
    this.lines = lines;
    return cells;
  }

  /** -1 where it has not arrived yet. */
  #closingQuote(from: number): number {
    const { text, isLast } = this;
    for (let at = from; ;) {
      at = this.#nextMark(at);
      if (at === -1) return isLast ? this.complain('a quote is not closed', from - 1) : -1;
      if (at + 1 === text.length && !isLast) return -1;
      if (this.#isPair(text, at)) at += 2;
      else if (text.charCodeAt(at) === QUOTE) return at;
      else at++;
    }
  }

  /** A quote, or what may stand before one. */
  #nextMark(from: number): number {
    const { text, marks } = this;
    if (marks === undefined) return text.indexOf('"', from);
    marks.lastIndex = from;
    return marks.exec(text)?.index ?? -1;
  }

  /** Whether the character only says that the next one is itself; an escape before others is like them, as Postgres reads it. */
  #isPair(text: string, at: number): boolean {
    const [character, next] = [text.charAt(at), text.charAt(at + 1)];
    return character === this.escape ? next === '"' || next === character : character === '"' && next === '"';
  }

  #unescaped(value: string): string {
    const { escape } = this;
    if (escape === undefined) return value.includes('"') ? value.replaceAll('""', '"') : value;
    if (!value.includes('"') && !value.includes(escape)) return value;
    let text = '';
    for (let at = 0; at < value.length; at++) {
      if (this.#isPair(value, at)) at++;
      text += value.charAt(at);
    }
    return text;
  }
}

function countOf(text: string, character: string, from = 0, to = text.length): number {
  let count = 0;
  for (let at = text.indexOf(character, from); at !== -1 && at < to; at = text.indexOf(character, at + 1)) count++;
  return count;
}
