/**
 * The encoded rows of one result, each behind a comma, with room in front, so that an answer is put around them where they
 * lie.
 */
import { ByteWriter } from './byte-writer.js';
import { SMALLEST } from '../spare-buffers.js';

const HEAD_ROOM = 256;
/** Behind the comma of the first row, which nothing is before. */
const ROWS = HEAD_ROOM + 1;
/** What {@link RowBytes.between} mostly puts behind. */
const TAIL_ROOM = 256;

export class RowBytes {
  private readonly out: ByteWriter;

  /** @param expected bytes of all rows, where somebody knows */
  constructor(expected?: number) {
    this.out = new ByteWriter(expected === undefined ? undefined : expected + HEAD_ROOM + TAIL_ROOM);
    this.out.length = HEAD_ROOM;
  }

  /** What rows are written to. */
  get writer(): ByteWriter {
    return this.out;
  }

  /** Whether it is worth giving back. */
  get isLarge(): boolean {
    return this.out.bytes.length >= SMALLEST;
  }

  /** Bytes of the rows. */
  get length(): number {
    return Math.max(0, this.out.length - ROWS);
  }

  /** Only ever set back: takes away what was written behind. */
  set length(length: number) {
    this.out.length = length === 0 ? HEAD_ROOM : ROWS + length;
  }

  /** The rows, valid until more is written. */
  view(): Buffer {
    return this.out.bytes.subarray(ROWS, this.out.length);
  }

  /** The rows between two texts. It can be called once. */
  between(head: string, tail: string): Buffer {
    const { out } = this;
    out.length = ROWS + this.length;
    out.ensure(3 * tail.length);
    out.length += out.bytes.write(tail, out.length);
    const start = ROWS - Buffer.byteLength(head);
    if (start < 0) return Buffer.concat([Buffer.from(head), this.view()]);
    out.bytes.write(head, start);
    return out.bytes.subarray(start, out.length);
  }

  /** Gives the memory back; nobody may read the rows, or what {@link between} made of them, any more. */
  free(): void {
    this.out.free();
  }
}
