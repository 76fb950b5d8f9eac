/**
 * What the two formats of COPY have in common: memory that cells are written to, piece by piece and used again, and
 * cells one behind the other, each with its length in front. The formats are `binary-cells.ts` and `text-cells.ts`.
 */
import type { ColumnShape } from '../../../postgres/table-shape.js';
import { readJson } from '../../json.js';
import { readCell } from '../cell.js';
import { Refusal } from '../refusal.js';
import { BACKSLASH, NULL_WORD, QUOTE } from './bytes.js';
import type { JsonBytes } from './json-bytes.js';
import { escapedCodePoint, escapeLength } from './unescape.js';
import { firstMarked, stringStops, viewOf } from '../../../postgres/words.js';

/** Up to this length a loop copies faster than the call into native code does. */
const SHORT = 256;

/** Memory that is kept for the next batches, in pieces of this size and of the sizes that batches made of them. */
const KEPT_BYTES = 16 * 1024 * 1024;
const PIECE_BYTES = 128 * 1024;

/** What a word written at the very end may reach over. */
const SLACK = 16;

/** Bytes of a cell's length, which stands in front of it; as a length, -1 is NULL. */
export const LENGTH_BYTES = 4;

export abstract class CellWriter {
  protected out = Buffer.allocUnsafeSlow(PIECE_BYTES);
  protected view = viewOf(this.out);
  /** Bytes written; the next cell begins here. */
  length = 0;
  private reserved = 0;
  private readonly free: ArrayBuffer[] = [];
  private freeBytes = 0;

  constructor(protected readonly json: JsonBytes) {}

  /** Room for what the rest of the body may need, behind what is written. */
  reserve(bytes: number): void {
    this.reserved = bytes;
    this.reserveBeside(0);
  }

  /** Room for more than that. */
  protected reserveBeside(extra: number): void {
    const bytes = this.reserved + extra;
    const needed = this.length + bytes + SLACK;
    if (needed <= this.out.length) return;
    const smaller = this.out;
    this.out = Buffer.allocUnsafeSlow(Math.max(needed, smaller.length * 2));
    this.view = viewOf(this.out);
    this.out.set(smaller.subarray(0, this.length));
  }

  /** Bytes in front of a row's cells. */
  protected abstract readonly headerBytes: number;

  /** @returns where the row begins */
  beginRow(): number {
    const start = this.length;
    this.length += this.headerBytes;
    return start;
  }

  /** Ends a row whose cells are all there, in order. */
  abstract endRow(start: number, cells: number): void;

  /**
   * Brings the cells of the row that began at `start` in the order of its columns.
   * @param starts of the cells by column; before `start` where the row has none, which becomes a NULL
   */
  arrange(start: number, columns: readonly number[], starts: Int32Array): void {
    const cells = start + this.headerBytes;
    const end = this.length;
    this.reserveBeside(end - cells + LENGTH_BYTES * columns.length);
    for (const column of columns) {
      const from = starts[column] as number;
      if (from < start) this.null();
      else {
        const size = LENGTH_BYTES + Math.max(0, this.view.getInt32(from));
        this.move(from, this.length, size);
        this.length += size;
      }
    }
    this.out.copyWithin(cells, end, this.length);
    this.length -= end - cells;
  }

  /**
   * Writes a value that begins at `at`, and is no null, as this column's type.
   * @returns where it ends; -1 where it is not one of the common ones: what was written then does not count
   */
  protected abstract common(column: ColumnShape, at: number): number;

  /** Writes the reference's text of a value. @returns false where this format cannot */
  protected abstract spelled(column: ColumnShape, text: string): boolean;

  /** Writes the value that begins at `at`. @returns where it ends; -1 where the reference has to look at the batch */
  cell(column: ColumnShape, at: number): number {
    const start = this.length;
    this.length = start + LENGTH_BYTES;
    if (this.json.view.getInt32(at, true) === NULL_WORD && !column.isId) {
      this.view.setInt32(start, -1);
      return at + 4;
    }
    let end = this.common(column, at);
    if (end < 0) {
      this.length = start + LENGTH_BYTES;
      end = this.byReference(column, at);
    }
    this.view.setInt32(start, this.length - start - LENGTH_BYTES);
    return end;
  }

  /** What is rare goes through the reference, {@link readCell}, so that there is one grammar. */
  private byReference(column: ColumnShape, at: number): number {
    const { json } = this;
    const end = json.valueEnd(at);
    if (end < 0) return -1;
    const cell = readCell(column, readJson(json.bytes.subarray(at, end), undefined, 0).root);
    return cell === null || cell instanceof Refusal || !this.spelled(column, cell) ? -1 : end;
  }

  null(): void {
    this.view.setInt32(this.length, -1);
    this.length += LENGTH_BYTES;
  }

  /** Hands over what was written. */
  take(): Uint8Array<ArrayBuffer> {
    const written = this.out.subarray(0, this.length);
    const free = this.free.pop();
    this.freeBytes -= free?.byteLength ?? 0;
    this.out = free === undefined ? Buffer.allocUnsafeSlow(PIECE_BYTES) : Buffer.from(free);
    this.view = viewOf(this.out);
    this.length = 0;
    return written;
  }

  giveBack(memory: ArrayBuffer): void {
    if (this.freeBytes + memory.byteLength > KEPT_BYTES) return;
    this.free.push(memory);
    this.freeBytes += memory.byteLength;
  }

  /** At the opening quote: the string's content, in one walk that looks at four bytes and writes them. */
  protected string(at: number): number {
    const { bytes, view: from } = this.json;
    const { view } = this;
    let to = this.length;
    at++;
    for (;;) {
      const word = from.getInt32(at, true);
      view.setInt32(to, word, true);
      const stops = stringStops(word);
      if (stops === 0) {
        at += 4;
        to += 4;
        continue;
      }
      const plain = firstMarked(stops);
      at += plain;
      to += plain;
      const byte = bytes[at];
      if (byte === QUOTE) {
        this.length = to;
        return at + 1;
      }
      const length = byte === BACKSLASH ? escapeLength(bytes, at) : 0;
      if (length === 0) return -1;
      to = this.character(escapedCodePoint(bytes, at, length), to);
      at += length;
    }
  }

  /** A character that was escaped, in UTF-8. @returns where it ends */
  protected character(code: number, to: number): number {
    const { out } = this;
    if (code < 0x80) {
      out[to++] = code;
      return to;
    }
    if (code < 0x800) out[to++] = 0xc0 | (code >> 6);
    else {
      if (code < 0x10000) out[to++] = 0xe0 | (code >> 12);
      else {
        out[to++] = 0xf0 | (code >> 18);
        out[to++] = 0x80 | ((code >> 12) & 0x3f);
      }
      out[to++] = 0x80 | ((code >> 6) & 0x3f);
    }
    out[to++] = 0x80 | (code & 0x3f);
    return to;
  }

  /** Bytes that were written, to another place; down by four bytes at least, or to where nothing is. */
  protected move(from: number, to: number, size: number): void {
    const { view } = this;
    if (size > SHORT) this.out.copyWithin(to, from, from + size);
    else for (let i = 0; i < size; i += 4) view.setInt32(to + i, view.getInt32(from + i, true), true);
  }

  /** The body's bytes from `start` to `end`, which may be -1 already. */
  protected copy(start: number, end: number): number {
    if (end < 0) return -1;
    const size = end - start;
    if (size > SHORT) this.out.set(this.json.bytes.subarray(start, end), this.length);
    else {
      const from = this.json.view;
      const { view, length } = this;
      for (let i = 0; i < size; i += 4) view.setInt32(length + i, from.getInt32(start + i, true), true);
    }
    this.length += size;
    return end;
  }
}
