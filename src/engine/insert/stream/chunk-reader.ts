/** Reads the chunks of a stream from its bytes, in the memory of one of them. */
import { createHash } from 'node:crypto';
import type { Steps } from '../../../codec/index.js';
import { EngineError } from '../../../contract/errors.js';
import { LIMITS } from '../../../contract/limits.js';
import { Chunk } from './chunk.js';
import type { FormatReader } from './formats.js';

/** A chunk is cut when so many bytes have arrived. */
const CHUNK_BYTES = 1024 * 1024;

const FIRST_BYTES = 16 * 1024;

/** A stream takes this many times the bytes of its buffer: for the chunk that is stored, and the next one. */
const MEMORY_FACTOR = 3;

/** The memory of a stream whose records are not large: the buffer holds more than a chunk. */
export const USUAL_MEMORY = MEMORY_FACTOR * 2 * CHUNK_BYTES;

const BYTE_ORDER_MARK = Buffer.from('\uFEFF');

/** The decoded bytes of a body, as they arrive. */
export class BytesOfBody {
  private rest: Buffer | null = null;

  constructor(private readonly pieces: Pick<AsyncIterator<Buffer>, 'next'>) {}

  /** The next bytes; null: the body has ended. */
  async next(): Promise<Buffer | null> {
    const { rest } = this;
    this.rest = null;
    if (rest !== null) return rest;
    const piece: IteratorResult<Buffer, unknown> = await this.pieces.next();
    return piece.done ? null : piece.value;
  }

  /** Reads a range, and returns its SHA-256 in hex; null: the body ends before it does. */
  async hashOf(length: number): Promise<string | null> {
    const hash = createHash('sha256');
    for (let left = length; left > 0;) {
      const piece = await this.next();
      if (piece === null) return null;
      hash.update(piece.subarray(0, left));
      if (piece.length > left) this.rest = piece.subarray(left);
      left -= Math.min(left, piece.length);
    }
    return hash.digest('hex');
  }
}

export class ChunkReader {
  private buffer = Buffer.allocUnsafeSlow(FIRST_BYTES);
  /** The bytes that have not been cut. */
  private from = 0;
  private to = 0;
  private hasEnded = false;
  /** So many must have arrived before the next cut. */
  private enough = CHUNK_BYTES;

  /**
   * @param offset of the first byte in the decoded body
   * @param hashes compute the SHA-256 of each chunk
   * @param reserve called with the bytes of memory that the stream will use; it waits for them
   */
  constructor(
    private readonly bytes: BytesOfBody,
    private readonly format: FormatReader,
    private offset: number,
    private readonly hashes: boolean,
    private readonly reserve: (bytes: number) => Promise<void>,
  ) {}

  /**
   * The next chunk; the last one may have no records.
   * @param run runs the steps that divide the bytes
   */
  async next(run: <T>(steps: Steps<T>) => Promise<T>): Promise<Chunk> {
    for (;;) {
      while (!this.hasEnded && this.to - this.from < this.enough) await this.fill();
      const arrived = this.buffer.subarray(this.from, this.to);
      const isMarked = this.offset === 0 && arrived.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK);
      const skipped = isMarked ? BYTE_ORDER_MARK.length : 0;
      const cut = await run(this.format.cut(arrived.subarray(skipped), this.hasEnded));
      if (cut.end === 0 && !this.hasEnded) {
        this.waitForMore(arrived.length);
        continue;
      }
      // Otherwise this would go on for ever.
      if (cut.end === 0 && arrived.length > skipped) throw new Error('The rest of the stream was not read');
      this.enough = CHUNK_BYTES;
      const length = skipped + cut.end;
      const start = this.offset;
      const sha256 = this.hashes ? createHash('sha256').update(arrived.subarray(0, length)).digest('hex') : null;
      this.from += length;
      this.offset += length;
      return new Chunk(start, this.offset, start + skipped, cut, this.hasEnded && this.from === this.to, sha256);
    }
  }

  /** A record is longer than what has arrived. @throws EngineError payload_too_large */
  private waitForMore(arrived: number): void {
    if (arrived > LIMITS.bodyBytes) {
      const { line } = this.format.state;
      const message = `Line ${line}: the record is larger than ${LIMITS.bodyBytes} bytes, or a quote in it is not closed`;
      throw new EngineError('payload_too_large', message, {
        errors: [{ line, offset: this.offset, error: 'payload_too_large', message }],
      });
    }
    this.enough = Math.min(2 * arrived, LIMITS.bodyBytes + 1);
  }

  private async fill(): Promise<void> {
    const piece = await this.bytes.next();
    if (piece === null) {
      this.hasEnded = true;
      return;
    }
    await this.makeRoom(piece.length);
    this.to += piece.copy(this.buffer, this.to);
  }

  private async makeRoom(length: number): Promise<void> {
    const { buffer, from, to } = this;
    if (to + length <= buffer.length) return;
    const needed = to - from + length;
    const size = needed > buffer.length ? Math.max(2 * buffer.length, needed) : buffer.length;
    await this.reserve(MEMORY_FACTOR * size);
    const roomy = size > buffer.length ? Buffer.allocUnsafeSlow(size) : buffer;
    buffer.copy(roomy, 0, from, to);
    this.buffer = roomy;
    this.to = to - from;
    this.from = 0;
  }
}
