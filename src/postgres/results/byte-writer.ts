/** A growing buffer that rows are written into, byte by byte, without a string or an object in between. */
import { giveBuffer, takeBuffer } from '../spare-buffers.js';
import { viewOf } from './words.js';

const INITIAL_CAPACITY = 64 * 1024;

const NOTHING: Buffer = Buffer.alloc(0);

/** Up to this length a loop copies faster than the call into native code does (measured on Node 20). */
const SHORT = 40;

/** Where rows are written. */
export interface RowOutput {
  /** @returns what to write so many more bytes to, which then lie together */
  room(bytes: number): ByteWriter;
}

export class ByteWriter implements RowOutput {
  /** Everything before {@link length} is written. Callers that write into it directly call {@link ensure} first. */
  bytes: Buffer;
  /** The same memory as {@link bytes}, for more than one byte at a time. */
  words: DataView;
  /** Bytes written so far. Setting it back takes back what was written since, for instance a row past the limit. */
  length = 0;

  /** @param capacity bytes that it holds without growing, or memory to write into until it has to grow */
  constructor(capacity: number | Buffer = INITIAL_CAPACITY) {
    this.bytes = typeof capacity === 'number' ? takeBuffer(capacity) : capacity;
    this.words = viewOf(this.bytes);
  }

  /** Makes room for at least `extra` more bytes. It may replace {@link bytes} and {@link words}. */
  ensure(extra: number): void {
    const needed = this.length + extra;
    if (needed > this.bytes.length) this.grow(needed);
  }

  room(bytes: number): this {
    this.ensure(bytes);
    return this;
  }

  byte(value: number): void {
    this.ensure(1);
    this.bytes[this.length++] = value;
  }

  /** A short text of ASCII characters. */
  ascii(text: string): void {
    this.ensure(text.length);
    for (let i = 0; i < text.length; i++) this.bytes[this.length + i] = text.charCodeAt(i);
    this.length += text.length;
  }

  /** A prepared piece. */
  append(piece: Uint8Array): void {
    this.ensure(piece.length);
    this.bytes.set(piece, this.length);
    this.length += piece.length;
  }

  /** The bytes `source[start, end)`. */
  copy(source: Buffer, start: number, end: number): void {
    const size = end - start;
    this.ensure(size);
    const { bytes, length } = this;
    if (size <= SHORT) for (let i = 0; i < size; i++) bytes[length + i] = source[start + i] as number;
    else source.copy(bytes, length, start, end);
    this.length += size;
  }

  /** What was written, valid until the next write. */
  view(): Buffer {
    return this.bytes.subarray(0, this.length);
  }

  /** Forgets what was written and keeps the memory. */
  clear(): void {
    this.length = 0;
  }

  /** Gives the memory back, for other answers: nobody may read what was written any more. */
  free(): void {
    giveBuffer(this.bytes);
    this.bytes = NOTHING;
    this.words = viewOf(NOTHING);
    this.length = 0;
  }

  private grow(needed: number): void {
    const { bytes } = this;
    this.bytes = takeBuffer(needed);
    this.words = viewOf(this.bytes);
    bytes.copy(this.bytes, 0, 0, this.length);
    giveBuffer(bytes);
  }
}
