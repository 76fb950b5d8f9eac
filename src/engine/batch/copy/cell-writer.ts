/**
 * What the two formats of COPY have in common: memory that cells are written to, piece by piece and used again, and how
 * a row of cells is walked through. The formats are `binary-cells.ts` and `text-cells.ts`.
 */
import type { ColumnShape } from '../../../postgres/table-shape.js';

/** Up to this length a loop copies faster than the call into native code does. */
const SHORT = 48;

/** Memory that is kept for the next batches: so many pieces, each no larger than this. */
const KEPT_PIECES = 16;
const KEPT_BYTES = 1024 * 1024;
const PIECE_BYTES = 128 * 1024;

export abstract class CellWriter {
  protected out = new Uint8Array(PIECE_BYTES);
  protected length = 0;
  protected bytes: Uint8Array = new Uint8Array(0);
  /** What the cells of the current record may need. */
  private recordBytes = 0;
  private readonly free: Uint8Array<ArrayBuffer>[] = [];

  begin(bytes: Uint8Array): void {
    this.bytes = bytes;
    this.length = 0;
  }

  /** Begins a row and makes room for its cells. */
  beginRow(cells: number, bytes: number): void {
    this.recordBytes = bytes;
    this.reserve(bytes);
    this.rowBegins(cells);
  }

  /** The value `bytes[start, end)`, of a kind of the scanner. @returns false where the reference has to look at it */
  abstract cell(column: ColumnShape, kind: number, start: number, end: number): boolean;
  abstract null(): void;
  abstract endRow(): void;
  protected abstract rowBegins(cells: number): void;

  /** Hands over what was written. */
  take(): Uint8Array<ArrayBuffer> {
    const written = this.out.subarray(0, this.length);
    this.replace(this.free.pop() ?? new Uint8Array(PIECE_BYTES));
    this.length = 0;
    return written;
  }

  giveBack(memory: ArrayBuffer): void {
    if (this.free.length < KEPT_PIECES && memory.byteLength <= KEPT_BYTES) this.free.push(new Uint8Array(memory));
  }

  /** Room for a value that is longer than its bytes in the body; the rest of the record still needs its own. */
  protected reserveBeside(extra: number): void {
    this.reserve(extra + this.recordBytes);
  }

  protected replace(out: Uint8Array<ArrayBuffer>): void {
    this.out = out;
  }

  private reserve(extra: number): void {
    if (this.length + extra <= this.out.length) return;
    const larger = new Uint8Array(Math.max(this.length + extra, this.out.length * 2));
    larger.set(this.out.subarray(0, this.length));
    this.replace(larger);
  }

  protected copy(start: number, end: number): true {
    const { bytes, out } = this;
    const size = end - start;
    const to = this.length;
    if (size <= SHORT) for (let i = 0; i < size; i++) out[to + i] = bytes[start + i] as number;
    else out.set(bytes.subarray(start, end), to);
    this.length = to + size;
    return true;
  }
}
