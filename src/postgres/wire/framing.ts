/** Cuts the byte stream from Postgres into messages: type byte, int32 length, body (Postgres manual 54.7). */

/** `body` lies in `buffer` between `start` and `end`; it is valid only until the handler returns. */
export type MessageHandler = (type: number, buffer: Buffer, start: number, end: number) => void;

/** Asked as soon as a message's header is there, before its body is kept: false gives the stream up. */
export type SizeCheck = (type: number, length: number) => boolean;

const HEADER = 5;

export class Framing {
  /** Bytes of a message that has not wholly arrived: `pending[0..filled)`. */
  private pending: Buffer = Buffer.alloc(0);
  private filled = 0;

  constructor(
    private readonly onMessage: MessageHandler,
    private readonly accepts: SizeCheck,
  ) {}

  /** @returns false once the stream has been given up; nothing may be fed afterwards. */
  feed(chunk: Buffer): boolean {
    if (this.filled === 0) {
      const rest = this.cut(chunk, chunk.length);
      return rest < 0 ? false : this.keep(chunk, rest);
    }
    // Messages almost always arrive whole; what did not is completed in one buffer of just its size.
    let from = 0;
    while (from < chunk.length) {
      const wanted = this.filled < HEADER ? HEADER : 1 + this.pending.readInt32BE(1);
      if (this.filled >= HEADER && !this.accepts(this.pending[0] as number, wanted - HEADER)) return false;
      this.reserve(wanted);
      const taken = Math.min(wanted - this.filled, chunk.length - from);
      chunk.copy(this.pending, this.filled, from, from + taken);
      this.filled += taken;
      from += taken;
      if (this.filled < HEADER) return true;
      const size = 1 + this.pending.readInt32BE(1);
      if (this.filled === size) {
        const message = this.pending;
        this.pending = Buffer.alloc(0);
        this.filled = 0;
        this.onMessage(message[0] as number, message, HEADER, size);
        const rest = chunk.subarray(from);
        return this.feed(rest);
      }
    }
    return true;
  }

  /** Hands out every whole message of the chunk. @returns where the incomplete rest begins, -1 when given up. */
  private cut(chunk: Buffer, end: number): number {
    let at = 0;
    while (end - at >= HEADER) {
      const type = chunk[at] as number;
      const size = 1 + chunk.readInt32BE(at + 1);
      if (!this.accepts(type, size - HEADER)) return -1;
      if (end - at < size) break;
      this.onMessage(type, chunk, at + HEADER, at + size);
      at += size;
    }
    return at;
  }

  private keep(chunk: Buffer, from: number): boolean {
    if (from < chunk.length) {
      this.reserve(chunk.length - from);
      this.filled = chunk.copy(this.pending, 0, from);
    }
    return true;
  }

  private reserve(size: number): void {
    if (this.pending.length >= size) return;
    const larger = Buffer.allocUnsafe(size);
    this.pending.copy(larger, 0, 0, this.filled);
    this.pending = larger;
  }
}
