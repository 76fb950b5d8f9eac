/**
 * Writes cells in COPY's binary format (Postgres manual, COPY, "Binary Format"), from the bytes of their JSON: Postgres
 * then takes texts as they are and parses no number and no time.
 */
import type { ColumnShape } from '../../../postgres/table-shape.js';
import { behindQuote, HEX, LOWER_T, MINUS, QUOTE } from './bytes.js';
import { CellWriter } from './cell-writer.js';
import { Int64 } from './int64.js';
import { NumberBytes } from './number-bytes.js';
import { TimestampBytes } from './timestamp-bytes.js';

/** Before the first row: signature, flags, length of an extension that is not there. */
export const BINARY_HEADER = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
/** Behind the last row. */
export const BINARY_TRAILER = Buffer.from([0xff, 0xff]);

/** Whether this format knows the column's type. */
export const hasBinaryForm = ({ type, isId }: ColumnShape): boolean => isId || type !== null;

/** Version byte in front of a jsonb in binary. */
const JSONB_VERSION = 1;

/** Texts of a UUID's hexadecimal digits begin behind each of these hyphens. */
const UUID_HYPHENS = [8, 13, 18, 23];
const UUID_CHARACTERS = 36;

const MICROSECONDS = 1e6;

export class BinaryCells extends CellWriter {
  /** The number of cells in front of them. */
  protected override readonly headerBytes = 2;
  private readonly number = new NumberBytes();
  private readonly time = new TimestampBytes();
  private readonly int64 = new Int64();

  endRow(start: number, cells: number): void {
    this.view.setInt16(start, cells);
  }

  protected common({ type, isId }: ColumnShape, at: number): number {
    const { json } = this;
    const { bytes } = json;
    if (isId) return this.uuid(at);
    switch (type) {
      case 'TEXT':
        return bytes[at] === QUOTE ? this.string(at) : this.copy(at, json.scalarEnd(at));
      case 'INTEGER': {
        const end =
          bytes[at] === QUOTE
            ? behindQuote(bytes, this.number.integer(bytes, at + 1, false))
            : this.number.integer(bytes, at, true);
        this.integer(this.number.int64);
        return end;
      }
      case 'FLOAT': {
        const end =
          bytes[at] === QUOTE ? behindQuote(bytes, this.number.float(bytes, at + 1)) : this.number.float(bytes, at);
        this.double(this.number.double);
        return end;
      }
      case 'BOOLEAN':
        this.out[this.length++] = bytes[at] === LOWER_T ? 1 : 0;
        return json.literalEnd(at);
      case 'TIMESTAMP': {
        if (bytes[at] !== QUOTE) return -1;
        const end = behindQuote(bytes, this.time.read(bytes, json.view, at + 1));
        this.int64.setProduct(this.time.seconds, MICROSECONDS, this.time.microseconds);
        this.integer(this.int64);
        return end;
      }
      case 'JSONB':
        this.out[this.length++] = JSONB_VERSION;
        return this.copy(at, json.valueEnd(at));
      case null:
        return -1;
    }
  }

  /** Times the reference spells for Postgres to parse; they are not written here. */
  protected spelled(column: ColumnShape, text: string): boolean {
    switch (column.type) {
      case 'INTEGER':
        this.view.setBigInt64(this.length, BigInt(text));
        this.length += 8;
        return true;
      case 'FLOAT':
        this.double(Number(text));
        return true;
      default:
        return false;
    }
  }

  private integer({ high, low }: Int64): void {
    this.view.setInt32(this.length, high);
    this.view.setInt32(this.length + 4, low);
    this.length += 8;
  }

  private double(value: number): void {
    this.view.setFloat64(this.length, value);
    this.length += 8;
  }

  /** In its usual form; the reference takes no other either. */
  private uuid(at: number): number {
    const { bytes } = this.json;
    if (bytes[at++] !== QUOTE || bytes[at + UUID_CHARACTERS] !== QUOTE) return -1;
    for (const hyphen of UUID_HYPHENS) if (bytes[at + hyphen] !== MINUS) return -1;
    const end = at + UUID_CHARACTERS;
    let bits = 0;
    while (at < end) {
      if (bytes[at] === MINUS) at++;
      const byte = ((HEX[bytes[at] as number] as number) << 4) | (HEX[bytes[at + 1] as number] as number);
      // Negative where one of the two was no digit.
      bits |= byte;
      this.out[this.length++] = byte;
      at += 2;
    }
    return bits < 0 ? -1 : end + 1;
  }
}
