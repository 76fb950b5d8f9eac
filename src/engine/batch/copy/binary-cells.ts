/**
 * Writes cells in COPY's binary format (Postgres manual, COPY, "Binary Format"), from the bytes of their JSON: Postgres
 * then takes texts as they are and parses no number and no time. What is common is judged and written here; every other
 * cell goes through the reference, {@link readCell}, so that there is one grammar.
 */
import type { ColumnShape } from '../../../postgres/table-shape.js';
import { readJson } from '../../json.js';
import { readCell } from '../cell.js';
import { Refusal } from '../refusal.js';
import { BACKSLASH, HEX, isDigit, MINUS, POINT, ZERO } from './bytes.js';
import { CellWriter } from './cell-writer.js';
import {
  DECIMAL_NUMBER,
  ESCAPED_STRING,
  EXPONENT_NUMBER,
  FALSE,
  NESTED,
  NULL,
  PLAIN_STRING,
  SAFE_NUMBER_BYTES,
  TRUE,
  WHOLE_NUMBER,
} from './json-scanner.js';
import { TimestampBytes } from './timestamp-bytes.js';
import { ESCAPED_BYTE, hex4, isAwkward } from './unescape.js';

/** Before the first row: signature, flags, length of an extension that is not there. */
export const BINARY_HEADER = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
/** Behind the last row. */
export const BINARY_TRAILER = Buffer.from([0xff, 0xff]);

/** Whether this format knows the column's type. */
export const hasBinaryForm = ({ type, isId }: ColumnShape): boolean => isId || type !== null;

/** Digits of an integer that a double holds exactly whatever they are. */
const EXACT_DIGITS = 15;
/** The powers of ten that a double holds exactly. */
const POWERS = Float64Array.from({ length: 23 }, (_, i) => Number(`1e${i}`));

const TWO_32 = 2 ** 32;
/** Version byte in front of a jsonb in binary. */
const JSONB_VERSION = 1;
const UUID_BYTES = 36;

/** Seconds from 2000-01-01, within which microseconds are exact in a double. */
const EXACT_SECONDS = 9e9;
const SECONDS_OF_A_DAY = 86_400;

export class BinaryCells extends CellWriter {
  private readonly time = new TimestampBytes();
  private view = new DataView(this.out.buffer);

  protected override replace(out: Uint8Array<ArrayBuffer>): void {
    super.replace(out);
    this.view = new DataView(out.buffer);
  }

  protected rowBegins(cells: number): void {
    this.view.setInt16(this.length, cells);
    this.length += 2;
  }

  endRow(): void {
    // The next row begins with its number of cells; nothing stands between.
  }

  null(): void {
    this.view.setInt32(this.length, -1);
    this.length += 4;
  }

  cell(column: ColumnShape, kind: number, start: number, end: number): boolean {
    if (kind === NULL && !column.isId) {
      this.null();
      return true;
    }
    const lengthAt = this.length;
    this.length += 4;
    if (!this.common(column, kind, start, end)) {
      this.length = lengthAt + 4;
      if (!this.byReference(column, start, end)) return false;
    }
    this.view.setInt32(lengthAt, this.length - lengthAt - 4);
    return true;
  }

  /** @returns false where the cell is not one of the common ones; what was written then does not count */
  private common({ type, isId }: ColumnShape, kind: number, start: number, end: number): boolean {
    if (isId) return kind === PLAIN_STRING && this.uuid(start + 1, end - 1);
    switch (type) {
      case 'TEXT':
        if (kind === PLAIN_STRING) return this.copy(start + 1, end - 1);
        if (kind === ESCAPED_STRING) return this.escapedString(start + 1, end - 1);
        return kind >= TRUE && kind <= EXPONENT_NUMBER && this.copy(start, end);
      case 'INTEGER':
        if (kind === WHOLE_NUMBER) return this.integer(start, end);
        return kind === PLAIN_STRING && this.integer(start + 1, end - 1);
      case 'FLOAT':
        return (kind === WHOLE_NUMBER || kind === DECIMAL_NUMBER) && this.float(start, end);
      case 'BOOLEAN':
        if (kind !== TRUE && kind !== FALSE) return false;
        this.out[this.length++] = kind === TRUE ? 1 : 0;
        return true;
      case 'TIMESTAMP':
        return kind === PLAIN_STRING && this.timestamp(start + 1, end - 1);
      case 'JSONB':
        if (kind === ESCAPED_STRING || kind === EXPONENT_NUMBER || kind === NESTED) return false;
        if ((kind === WHOLE_NUMBER || kind === DECIMAL_NUMBER) && end - start > SAFE_NUMBER_BYTES) return false;
        this.out[this.length++] = JSONB_VERSION;
        return this.copy(start, end);
      case null:
        return false;
    }
  }

  /** From the reference's text of the cell. Times it spells for Postgres to parse; they are not written here. */
  private byReference(column: ColumnShape, start: number, end: number): boolean {
    const cell = readCell(column, readJson(this.bytes.subarray(start, end), undefined, 0).root);
    if (cell instanceof Refusal || cell === null) return false;
    switch (column.type) {
      case 'INTEGER':
        this.reserveBeside(8);
        this.view.setBigInt64(this.length, BigInt(cell));
        this.length += 8;
        return true;
      case 'FLOAT':
        this.reserveBeside(8);
        this.double(Number(cell));
        return true;
      case 'TEXT':
      case 'JSONB': {
        const encoded = Buffer.from(cell, 'utf8');
        this.reserveBeside(encoded.length + 1);
        if (column.type === 'JSONB') this.out[this.length++] = JSONB_VERSION;
        this.out.set(encoded, this.length);
        this.length += encoded.length;
        return true;
      }
      default:
        return false;
    }
  }

  private escapedString(start: number, end: number): boolean {
    const { bytes, out } = this;
    let to = this.length;
    let at = start;
    while (at < end) {
      const byte = bytes[at] as number;
      if (byte !== BACKSLASH) {
        out[to++] = byte;
        at++;
        continue;
      }
      const meant = ESCAPED_BYTE[bytes[at + 1] as number] as number;
      if (meant !== 0) {
        out[to++] = meant;
        at += 2;
        continue;
      }
      const unit = hex4(bytes, at + 2);
      if (isAwkward(unit)) return false;
      if (unit < 0x80) out[to++] = unit;
      else {
        if (unit < 0x800) out[to++] = 0xc0 | (unit >> 6);
        else {
          out[to++] = 0xe0 | (unit >> 12);
          out[to++] = 0x80 | ((unit >> 6) & 0x3f);
        }
        out[to++] = 0x80 | (unit & 0x3f);
      }
      at += 6;
    }
    this.length = to;
    return true;
  }

  private integer(start: number, end: number): boolean {
    const { bytes } = this;
    const negative = bytes[start] === MINUS;
    const first = negative ? start + 1 : start;
    const digits = end - first;
    if (digits < 1 || digits > EXACT_DIGITS) return false;
    // Neither 01 nor -0: what they are is the reference's business.
    if (bytes[first] === ZERO && (digits > 1 || negative)) return false;
    let value = 0;
    for (let at = first; at < end; at++) {
      const byte = bytes[at];
      if (!isDigit(byte)) return false;
      value = value * 10 + ((byte as number) - ZERO);
    }
    this.int64(negative ? -value : value);
    return true;
  }

  /** A whole number that a double holds exactly. */
  private int64(value: number): void {
    const high = Math.floor(value / TWO_32);
    this.view.setInt32(this.length, high);
    this.view.setUint32(this.length + 4, value - high * TWO_32);
    this.length += 8;
  }

  /** Digits, perhaps with a point. Up to 15 of them the quotient of two exact doubles is the nearest double. */
  private float(start: number, end: number): boolean {
    const { bytes } = this;
    const negative = bytes[start] === MINUS;
    const first = negative ? start + 1 : start;
    let value = 0;
    let decimals = 0;
    let digits = 0;
    for (let at = first; at < end; at++) {
      const byte = bytes[at] as number;
      if (byte === POINT) {
        decimals = end - at - 1;
        continue;
      }
      digits++;
      value = value * 10 + (byte - ZERO);
    }
    if (digits > EXACT_DIGITS) return false;
    value /= POWERS[decimals] as number;
    this.double(negative ? -value : value);
    return true;
  }

  private double(value: number): void {
    this.view.setFloat64(this.length, value);
    this.length += 8;
  }

  private timestamp(start: number, end: number): boolean {
    const { time } = this;
    if (!time.read(this.bytes, start, end)) return false;
    const days = daysSince2000(time.year, time.month, time.day);
    const seconds = days * SECONDS_OF_A_DAY + time.second - time.offset;
    if (Math.abs(seconds) < EXACT_SECONDS) this.int64(seconds * 1e6 + time.microsecond);
    else {
      this.view.setBigInt64(this.length, BigInt(seconds) * 1_000_000n + BigInt(time.microsecond));
      this.length += 8;
    }
    return true;
  }

  /** In its usual form; the reference takes no other either. */
  private uuid(start: number, end: number): boolean {
    const { bytes, out } = this;
    if (end - start !== UUID_BYTES) return false;
    let to = this.length;
    for (let at = start; at < end; at += 2) {
      const place = at - start;
      if (place === 8 || place === 13 || place === 18 || place === 23) {
        if (bytes[at++] !== MINUS) return false;
      }
      const high = HEX[bytes[at] as number] as number;
      const low = HEX[bytes[at + 1] as number] as number;
      if (high < 0 || low < 0) return false;
      out[to++] = (high << 4) | low;
    }
    this.length = to;
    return true;
  }
}

/** Days of the proleptic Gregorian calendar, by years that begin in March, so that the leap day comes last. */
function daysSince2000(year: number, month: number, day: number): number {
  const y = month <= 2 ? year - 1 : year;
  const dayOfYear = Math.floor((153 * (month + (month > 2 ? -3 : 9)) + 2) / 5) + day - 1;
  return 365 * y + Math.floor(y / 4) - Math.floor(y / 100) + Math.floor(y / 400) + dayOfYear - DAYS_TO_2000;
}

/** From 0000-03-01 to 2000-01-01. */
const DAYS_TO_2000 = 730_425;
