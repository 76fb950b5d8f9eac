/**
 * Writes cells as COPY text (Postgres manual, COPY, "Text Format"), from the bytes of their JSON: for tables with columns
 * whose binary form we do not write. What is common is judged and copied here; every other cell goes through the
 * reference, {@link readCell}, so that there is one grammar.
 */
import type { ColumnType } from '../../../contract/column-types.js';
import type { ColumnShape } from '../../../postgres/table-shape.js';
import { readJson } from '../../json.js';
import { readCell } from '../cell.js';
import { Refusal } from '../refusal.js';
import { BACKSLASH, CARRIAGE_RETURN, isDigit, LINE_FEED, MINUS, QUOTE, SPACE, TAB, ZERO } from './bytes.js';
import { CellWriter } from './cell-writer.js';
import {
  DECIMAL_NUMBER,
  ESCAPED_STRING,
  EXPONENT_NUMBER,
  FALSE,
  NULL,
  PLAIN_NESTED,
  PLAIN_STRING,
  SAFE_NUMBER_BYTES,
  TRUE,
  WHOLE_NUMBER,
} from './json-scanner.js';
import { TimestampBytes } from './timestamp-bytes.js';
import { hex4, isAwkward } from './unescape.js';

/** Digits of an integer that is within int64 whatever they are. */
const SAFE_INTEGER_DIGITS = 18;

export class TextCells extends CellWriter {
  private readonly time = new TimestampBytes();
  private isFirst = true;

  protected rowBegins(): void {
    this.isFirst = true;
  }

  endRow(): void {
    this.byte(LINE_FEED);
  }

  null(): void {
    this.separate();
    this.nullField();
  }

  cell(column: ColumnShape, kind: number, start: number, end: number): boolean {
    this.separate();
    if (kind === NULL && !column.isId) {
      this.nullField();
      return true;
    }
    return this.common(column.type, kind, start, end) || this.byReference(column, start, end);
  }

  private separate(): void {
    if (!this.isFirst) this.byte(TAB);
    this.isFirst = false;
  }

  private byte(value: number): void {
    this.out[this.length++] = value;
  }

  private nullField(): void {
    this.byte(BACKSLASH);
    this.byte(UPPER_N);
  }

  /** @returns false where the cell is not one of the common ones; nothing is written then */
  private common(type: ColumnType | null, kind: number, start: number, end: number): boolean {
    switch (type) {
      case 'TEXT':
        if (kind === PLAIN_STRING) return this.copy(start + 1, end - 1);
        if (kind === ESCAPED_STRING) return this.escapedString(start + 1, end - 1);
        return kind >= TRUE && kind <= EXPONENT_NUMBER && this.copy(start, end);
      case 'INTEGER':
        if (kind === WHOLE_NUMBER) return this.integer(start, end);
        return kind === PLAIN_STRING && this.integer(start + 1, end - 1);
      case 'FLOAT':
        return (
          (kind === WHOLE_NUMBER || kind === DECIMAL_NUMBER) &&
          end - start <= SAFE_NUMBER_BYTES &&
          this.copy(start, end)
        );
      case 'BOOLEAN':
        if (kind !== TRUE && kind !== FALSE) return false;
        this.byte(kind === TRUE ? LOWER_T : LOWER_F);
        return true;
      case 'TIMESTAMP':
        return kind === PLAIN_STRING && this.timestamp(start + 1, end - 1);
      case 'JSONB':
        if (kind === ESCAPED_STRING || kind === EXPONENT_NUMBER) return false;
        if ((kind === WHOLE_NUMBER || kind === DECIMAL_NUMBER) && end - start > SAFE_NUMBER_BYTES) return false;
        return kind <= PLAIN_NESTED && this.copy(start, end);
      case null:
        return false;
    }
  }

  private byReference(column: ColumnShape, start: number, end: number): boolean {
    const cell = readCell(column, readJson(this.bytes.subarray(start, end), undefined, 0).root);
    if (cell instanceof Refusal) return false;
    if (cell === null) {
      this.nullField();
      return true;
    }
    const encoded = Buffer.from(cell, 'utf8');
    this.reserveBeside(2 * encoded.length);
    for (const byte of encoded) this.escaped(byte);
    return true;
  }

  /** One byte of a value, escaped where COPY would take it for its own. */
  private escaped(byte: number): void {
    const letter =
      byte === BACKSLASH
        ? BACKSLASH
        : byte === LINE_FEED
          ? LOWER_N
          : byte === CARRIAGE_RETURN
            ? LOWER_R
            : byte === TAB
              ? LOWER_T
              : 0;
    if (letter !== 0) this.out[this.length++] = BACKSLASH;
    this.out[this.length++] = letter === 0 ? byte : letter;
  }

  /** The content of a JSON string with escapes. COPY knows most of them by the same letters. */
  private escapedString(start: number, end: number): boolean {
    const { bytes, out } = this;
    const before = this.length;
    let at = start;
    while (at < end) {
      const byte = bytes[at] as number;
      if (byte !== BACKSLASH) {
        out[this.length++] = byte;
        at++;
        continue;
      }
      const letter = bytes[at + 1] as number;
      if (letter === LOWER_U) {
        const unit = hex4(bytes, at + 2);
        // U+0000, and surrogates whether in a pair or not, are for the reference.
        if (isAwkward(unit)) {
          this.length = before;
          return false;
        }
        this.character(unit);
        at += 6;
      } else {
        if (letter !== QUOTE && letter !== SLASH) out[this.length++] = BACKSLASH;
        out[this.length++] = letter;
        at += 2;
      }
    }
    return true;
  }

  /** A character of the basic plane in UTF-8. */
  private character(unit: number): void {
    const { out } = this;
    if (unit < 0x80) return this.escaped(unit);
    if (unit < 0x800) out[this.length++] = 0xc0 | (unit >> 6);
    else {
      out[this.length++] = 0xe0 | (unit >> 12);
      out[this.length++] = 0x80 | ((unit >> 6) & 0x3f);
    }
    out[this.length++] = 0x80 | (unit & 0x3f);
  }

  private integer(start: number, end: number): boolean {
    const { bytes } = this;
    const first = bytes[start] === MINUS ? start + 1 : start;
    const digits = end - first;
    if (digits < 1 || digits > SAFE_INTEGER_DIGITS) return false;
    // Neither 01 nor -0: what they are is the reference's business.
    if (bytes[first] === ZERO && (digits > 1 || first > start)) return false;
    for (let at = first; at < end; at++) if (!isDigit(bytes[at])) return false;
    return this.copy(start, end);
  }

  /** Written with its offset, so that it reads the same whatever the session's time zone is called. */
  private timestamp(start: number, end: number): boolean {
    const { time, bytes } = this;
    if (!time.read(bytes, start, end)) return false;
    const before = this.length;
    const hasOffset = end - time.offsetAt === OFFSET_BYTES;
    this.copy(start, hasOffset ? end : time.offsetAt);
    if (end - start === DATE_BYTES) return this.ascii(' 00:00:00+00');
    this.out[before + DATE_BYTES] = SPACE;
    return hasOffset || this.ascii('+00');
  }

  private ascii(text: string): true {
    for (let i = 0; i < text.length; i++) this.out[this.length++] = text.charCodeAt(i);
    return true;
  }
}

/** `YYYY-MM-DD`, `±hh:mm` */
const DATE_BYTES = 10;
const OFFSET_BYTES = 6;

const SLASH = 0x2f;
const UPPER_N = 0x4e;
const LOWER_F = 0x66;
const LOWER_N = 0x6e;
const LOWER_R = 0x72;
const LOWER_T = 0x74;
const LOWER_U = 0x75;
