/**
 * The encoded rows of one result, each behind a comma, in pieces. A piece never grows: what is there stays where it is, and an
 * answer of any length is made of memory that other answers had before. There is room in front, so that an answer is put
 * around the rows where they lie.
 */
import { MIN_POOLED_BYTES } from '../spare-buffers.js';
import { ByteWriter, type RowOutput } from './byte-writer.js';

const HEAD_ROOM = 256;
/** Behind the comma of the first row, which nothing is before. */
const ROWS = HEAD_ROOM + 1;
/** What {@link RowBytes.between} mostly puts behind. */
const TAIL_ROOM = 256;

/** Of every piece but the first, unless a row is longer. */
const PIECE_BYTES = 1024 * 1024;

export class RowBytes implements RowOutput {
  private readonly pieces: ByteWriter[];
  private last: ByteWriter;
  /** Bytes of all pieces but the last. */
  private filled = 0;
  /** What {@link between} has made of them. */
  whole: Buffer[] | null = null;
  private isShared = false;

  /** @param expected bytes of all rows, where somebody knows */
  constructor(expected?: number) {
    const bytes = expected === undefined ? undefined : Math.min(expected + HEAD_ROOM + TAIL_ROOM, PIECE_BYTES);
    this.last = new ByteWriter(bytes);
    this.last.length = HEAD_ROOM;
    this.pieces = [this.last];
  }

  room(bytes: number): ByteWriter {
    const { last } = this;
    if (last.length + bytes <= last.bytes.length) return last;
    // The room in front, and the first comma, are in one piece with the first row.
    if (this.length === 0) return last.room(bytes);
    this.filled += last.length;
    this.last = new ByteWriter(Math.max(bytes, PIECE_BYTES));
    this.pieces.push(this.last);
    return this.last;
  }

  /** Bytes of the rows. */
  get length(): number {
    return Math.max(0, this.filled + this.last.length - ROWS);
  }

  /** Takes away the last row. @param length of the rows before it */
  cut(length: number): void {
    this.last.length = length === 0 ? HEAD_ROOM : length + ROWS - this.filled;
  }

  /** The rows, whole ones in each piece, valid until more is written. */
  views(): Buffer[] {
    return this.pieces.map(({ bytes, length }, i) => bytes.subarray(i === 0 ? ROWS : 0, length));
  }

  /** The rows between two texts. It can be called once. */
  between(head: string, tail: string): Buffer[] {
    const [first] = this.pieces as [ByteWriter];
    first.length = Math.max(first.length, ROWS);
    const last = this.room(3 * tail.length);
    last.length += last.bytes.write(tail, last.length);
    const start = ROWS - Buffer.byteLength(head);
    const views = this.views();
    if (start < 0) views.unshift(Buffer.from(head));
    else {
      first.bytes.write(head, start);
      views[0] = first.bytes.subarray(start, first.length);
    }
    return (this.whole = views);
  }

  /** Gives the memory back; nobody may read the rows, or what {@link between} made of them, any more. */
  free(): void {
    for (const piece of this.pieces) piece.free();
  }

  /** They are for several answers, of which nobody knows the last: their memory is left to be collected. */
  share(): void {
    this.isShared = true;
  }

  /** Whether it is worth giving back, by the one who has sent it. */
  get isLarge(): boolean {
    return !this.isShared && (this.pieces.length > 1 || this.last.bytes.length >= MIN_POOLED_BYTES);
  }
}
