/**
 * Writes cells as COPY text (Postgres manual, COPY, "Text Format"), from the bytes of their JSON. What is common is
 * judged and copied here; every other cell goes through the reference, {@link readCell}, so that there is one grammar.
 */
import type { ColumnType } from '../../../contract/column-types.js';
import type { ColumnShape } from '../../../postgres/table-shape.js';
import { readJson } from '../../json.js';
import { readCell } from '../cell.js';
import { Refusal } from '../refusal.js';
import { isDate } from '../timestamp.js';
import {
  BACKSLASH,
  CARRIAGE_RETURN,
  COLON,
  HEX,
  isDigit,
  LINE_FEED,
  MINUS,
  PLUS,
  POINT,
  QUOTE,
  SPACE,
  TAB,
  ZERO,
} from './bytes.js';
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

/** Digits of an integer that is within int64 whatever they are. */
const SAFE_INTEGER_DIGITS = 18;

/** Up to this length a loop copies faster than the call into native code does. */
const SHORT = 48;

/** Memory that is kept for the next batches: so many pieces, each no larger than this. */
const KEPT_PIECES = 16;
const KEPT_BYTES = 1024 * 1024;
const PIECE_BYTES = 128 * 1024;

export class CellWriter {
  private out = new Uint8Array(PIECE_BYTES);
  private length = 0;
  private bytes: Uint8Array = new Uint8Array(0);
  /** What the cells of the current record may need. */
  private recordBytes = 0;
  private readonly free: Uint8Array<ArrayBuffer>[] = [];

  begin(bytes: Uint8Array): void {
    this.bytes = bytes;
    this.length = 0;
  }

  /** Makes room for the cells of a record. */
  beginRecord(bytes: number): void {
    this.recordBytes = bytes;
    this.reserve(bytes);
  }

  /** Hands over what was written. */
  take(): Uint8Array<ArrayBuffer> {
    const written = this.out.subarray(0, this.length);
    this.out = this.free.pop() ?? new Uint8Array(PIECE_BYTES);
    this.length = 0;
    return written;
  }

  giveBack(memory: ArrayBuffer): void {
    if (this.free.length < KEPT_PIECES && memory.byteLength <= KEPT_BYTES) this.free.push(new Uint8Array(memory));
  }

  private reserve(extra: number): void {
    if (this.length + extra <= this.out.length) return;
    const larger = new Uint8Array(Math.max(this.length + extra, this.out.length * 2));
    larger.set(this.out.subarray(0, this.length));
    this.out = larger;
  }

  byte(value: number): void {
    this.out[this.length++] = value;
  }

  null(): void {
    this.out[this.length] = BACKSLASH;
    this.out[this.length + 1] = UPPER_N;
    this.length += 2;
  }

  /** The value `bytes[start, end)`. Room for twice its length is there. @returns false where the cell is refused */
  cell(column: ColumnShape, kind: number, start: number, end: number): boolean {
    if (kind === NULL && !column.isId) {
      this.null();
      return true;
    }
    return this.common(column.type, kind, start, end) || this.byReference(column, start, end);
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
    const cell = readCell(column, readJson(this.bytes.subarray(start, end)).root);
    if (cell instanceof Refusal) return false;
    if (cell === null) {
      this.null();
      return true;
    }
    const encoded = Buffer.from(cell, 'utf8');
    // The rest of the record still needs its room.
    this.reserve(2 * encoded.length + 2 + this.recordBytes);
    for (const byte of encoded) this.escaped(byte);
    return true;
  }

  private copy(start: number, end: number): boolean {
    const { bytes, out } = this;
    const size = end - start;
    const to = this.length;
    if (size <= SHORT) for (let i = 0; i < size; i++) out[to + i] = bytes[start + i] as number;
    else out.set(bytes.subarray(start, end), to);
    this.length = to + size;
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
        if (unit === 0 || (unit >= 0xd800 && unit <= 0xdfff)) {
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

  /**
   * `YYYY-MM-DD`, or with `Thh:mm:ss`, up to six digits of a fraction, and `Z` or an offset. It is written with its
   * offset, so that it reads the same whatever the session's time zone is called.
   */
  private timestamp(start: number, end: number): boolean {
    const { bytes } = this;
    const size = end - start;
    if (size < 10 || bytes[start + 4] !== MINUS || bytes[start + 7] !== MINUS) return false;
    const year = two(bytes, start) * 100 + two(bytes, start + 2);
    const month = two(bytes, start + 5);
    const day = two(bytes, start + 8);
    // Sums with -Infinity stay below every bound.
    if (!(year >= 1 && isDate(year, month, day))) return false;
    if (size === 10) {
      this.copy(start, end);
      return this.ascii(' 00:00:00+00');
    }
    if (size < 19 || (bytes[start + 10] !== UPPER_T && bytes[start + 10] !== SPACE)) return false;
    if (bytes[start + 13] !== COLON || bytes[start + 16] !== COLON) return false;
    const hour = two(bytes, start + 11);
    const minute = two(bytes, start + 14);
    const second = two(bytes, start + 17);
    if (!(hour >= 0 && hour <= 23 && minute >= 0 && minute <= 59 && second >= 0 && second <= 59)) return false;
    let at = start + 19;
    if (bytes[at] === POINT && at < end) {
      at++;
      const digits = at;
      while (at < end && isDigit(bytes[at])) at++;
      if (at === digits || at - digits > 6) return false;
    }
    const zone = at === end || (bytes[at] === UPPER_Z && at + 1 === end) ? 0 : isOffset(bytes, at, end) ? 1 : -1;
    if (zone < 0) return false;
    const before = this.length;
    this.copy(start, zone === 1 ? end : at);
    this.out[before + 10] = SPACE;
    return zone === 1 || this.ascii('+00');
  }

  private ascii(text: string): true {
    for (let i = 0; i < text.length; i++) this.out[this.length++] = text.charCodeAt(i);
    return true;
  }
}

const SLASH = 0x2f;
const UPPER_N = 0x4e;
const UPPER_T = 0x54;
const UPPER_Z = 0x5a;
const LOWER_F = 0x66;
const LOWER_N = 0x6e;
const LOWER_R = 0x72;
const LOWER_T = 0x74;
const LOWER_U = 0x75;

/** Two digits as a number; -Infinity where they are none. */
function two(bytes: Uint8Array, at: number): number {
  const tens = bytes[at];
  const ones = bytes[at + 1];
  return isDigit(tens) && isDigit(ones) ? ((tens as number) - ZERO) * 10 + ((ones as number) - ZERO) : -Infinity;
}

/** `±hh:mm` up to ±15:59. */
function isOffset(bytes: Uint8Array, at: number, end: number): boolean {
  if (end - at !== 6 || (bytes[at] !== PLUS && bytes[at] !== MINUS) || bytes[at + 3] !== COLON) return false;
  const hours = two(bytes, at + 1);
  const minutes = two(bytes, at + 4);
  return hours >= 0 && hours <= 15 && minutes >= 0 && minutes <= 59;
}

const hex4 = (bytes: Uint8Array, at: number): number =>
  ((HEX[bytes[at] as number] as number) << 12) |
  ((HEX[bytes[at + 1] as number] as number) << 8) |
  ((HEX[bytes[at + 2] as number] as number) << 4) |
  (HEX[bytes[at + 3] as number] as number);
