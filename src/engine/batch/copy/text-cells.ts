/**
 * Writes cells as COPY text (Postgres manual, COPY, "Text Format"), from the bytes of their JSON: for tables with columns
 * whose binary form we do not write.
 */
import type { ColumnShape } from '../../../postgres/table-shape.js';
import {
  BACKSLASH,
  behindQuote,
  CARRIAGE_RETURN,
  LINE_FEED,
  LOWER_F,
  LOWER_N,
  LOWER_R,
  LOWER_T,
  MINUS,
  OPEN_BRACKET,
  QUOTE,
  SPACE,
  TAB,
  UPPER_N,
  ZERO,
} from './bytes.js';
import { CellWriter, LENGTH_BYTES } from './cell-writer.js';
import { NumberBytes } from './number-bytes.js';
import { TimestampBytes } from './timestamp-bytes.js';

/** The letter by which COPY escapes a byte that it would take for its own; 0 for any other. */
const LETTERS = new Uint8Array(256);
LETTERS[BACKSLASH] = BACKSLASH;
LETTERS[LINE_FEED] = LOWER_N;
LETTERS[CARRIAGE_RETURN] = LOWER_R;
LETTERS[TAB] = LOWER_T;

/** `YYYY-MM-DD`, `±hh:mm` */
const DATE_BYTES = 10;
const OFFSET_BYTES = 6;

export class TextCells extends CellWriter {
  protected override readonly headerBytes = 0;
  private readonly number = new NumberBytes();
  private readonly time = new TimestampBytes();

  /** Cells were written with their lengths; a tab or the end of the line is shorter, so they move together in place. */
  endRow(start: number, cells: number): void {
    const { out, view } = this;
    let from = start;
    let to = start;
    for (let left = cells; left > 0; left--) {
      const size = view.getInt32(from);
      from += LENGTH_BYTES;
      if (size < 0) {
        out[to++] = BACKSLASH;
        out[to++] = UPPER_N;
      } else {
        this.move(from, to, size);
        from += size;
        to += size;
      }
      out[to++] = left === 1 ? LINE_FEED : TAB;
    }
    this.length = to;
  }

  protected common(column: ColumnShape, at: number): number {
    const { json, number } = this;
    const { bytes } = json;
    const isQuoted = bytes[at] === QUOTE;
    switch (column.type) {
      case 'TEXT':
        return isQuoted ? this.string(at) : this.copy(at, json.scalarEnd(at));
      case 'INTEGER': {
        const start = isQuoted ? at + 1 : at;
        const end = number.integer(bytes, start, !isQuoted);
        // The reference knows no -0.
        if (end < 0 || (bytes[start] === MINUS && bytes[start + 1] === ZERO)) return -1;
        this.copy(start, number.wholeEnd);
        return isQuoted ? behindQuote(bytes, end) : end;
      }
      case 'FLOAT': {
        const start = isQuoted ? at + 1 : at;
        const end = this.copy(start, number.float(bytes, start));
        return isQuoted ? behindQuote(bytes, end) : end;
      }
      case 'BOOLEAN':
        this.out[this.length++] = bytes[at] === LOWER_T ? LOWER_T : LOWER_F;
        return json.literalEnd(at);
      case 'TIMESTAMP':
        return isQuoted ? this.timestamp(at + 1) : -1;
      case 'JSONB':
        return this.copyEscaped(at, json.valueEnd(at));
      case null:
        return this.other(column, at);
    }
  }

  /** A type that Postgres reads from its text. */
  private other({ isId, isJson, isArray }: ColumnShape, at: number): number {
    const { json } = this;
    if (isId) return -1;
    if (isJson) return this.copyEscaped(at, json.valueEnd(at));
    if (json.bytes[at] === QUOTE) return this.string(at);
    return isArray && json.bytes[at] === OPEN_BRACKET ? -1 : this.copy(at, json.scalarEnd(at));
  }

  protected spelled(_column: ColumnShape, text: string): boolean {
    const encoded = Buffer.from(text, 'utf8');
    this.reserveBeside(2 * encoded.length);
    for (const byte of encoded) this.escaped(byte);
    return true;
  }

  protected override character(code: number, to: number): number {
    const letter = code < SPACE || code === BACKSLASH ? (LETTERS[code] as number) : 0;
    if (letter === 0) return super.character(code, to);
    this.out[to] = BACKSLASH;
    this.out[to + 1] = letter;
    return to + 2;
  }

  /** One byte of a value, escaped where COPY would take it for its own. */
  private escaped(byte: number): void {
    const letter = LETTERS[byte] as number;
    if (letter !== 0) this.out[this.length++] = BACKSLASH;
    this.out[this.length++] = letter === 0 ? byte : letter;
  }

  /** Of JSON that stays whole, with its white space and its own escapes. */
  private copyEscaped(start: number, end: number): number {
    const { bytes } = this.json;
    for (let at = start; at < end; at++) this.escaped(bytes[at] as number);
    return end;
  }

  /** Written with its offset, so that it reads the same whatever the session's time zone is called. */
  private timestamp(start: number): number {
    const { time } = this;
    const { bytes, view } = this.json;
    const end = time.read(bytes, view, start);
    if (end < 0) return -1;
    const before = this.length;
    const hasOffset = end - time.offsetAt === OFFSET_BYTES;
    this.copy(start, hasOffset ? end : time.offsetAt);
    if (end - start === DATE_BYTES) this.ascii(' 00:00:00+00');
    else {
      this.out[before + DATE_BYTES] = SPACE;
      if (!hasOffset) this.ascii('+00');
    }
    return behindQuote(bytes, end);
  }

  private ascii(text: string): void {
    for (let i = 0; i < text.length; i++) this.out[this.length++] = text.charCodeAt(i);
  }
}
