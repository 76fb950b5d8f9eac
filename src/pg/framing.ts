/**
 * Splits the byte stream from Postgres into messages: type byte, int32 length, body (Postgres manual, Message Formats).
 */
import { protocolViolation } from './errors.js';
import { BACKEND, MESSAGE_HEADER } from './messages.js';

/** The body is in `buffer` between `start` and `end`; it is valid only until the handler returns. */
export type MessageHandler = (type: number, buffer: Buffer, start: number, end: number) => void;

/**
 * Receives DataRow messages: a complete one begins at `start`, and more messages may follow up to `end`. It must take
 * at least one.
 * @returns the offset of the first message that it has not taken
 */
export type RowHandler = (buffer: Buffer, start: number, end: number) => number;

/** Called when the header of a message has arrived, before its body is buffered; false stops the reading. */
type SizeCheck = (type: number, length: number) => boolean;

/** A local constant, because an imported one would be looked up for each message. */
const HEADER = MESSAGE_HEADER;
const NOTHING: Buffer = Buffer.alloc(0);

export class Framing {
  /** Bytes of an incomplete message: `pending[0..filled)`. */
  private pending: Buffer = NOTHING;
  private filled = 0;

  /** @param takeRows without it, rows are handled like other messages */
  constructor(
    private readonly onMessage: MessageHandler,
    private readonly accepts: SizeCheck,
    private readonly takeRows: RowHandler | null = null,
  ) {}

  /**
   * Processes `chunk[0, end)`, which may change as soon as the call returns.
   * @returns false if the reading was stopped; nothing may be fed afterward
   * @throws ConnectionLost for bytes that are not a message; nothing may be fed afterward
   */
  feed(chunk: Buffer, end = chunk.length): boolean {
    let from = 0;
    if (this.filled > 0) {
      from = this.complete(chunk, end);
      if (from < 0) return false;
      if (this.filled > 0) return true;
    }
    from = this.cut(chunk, from, end);
    if (from < 0) return false;
    if (from < end) this.take(chunk, from, end, end - from);
    return true;
  }

  /**
   * Passes on each complete message in `chunk[at, end)`.
   * @returns the start of the incomplete rest; -1 if the reading was stopped
   */
  private cut(chunk: Buffer, at: number, end: number): number {
    while (end - at >= HEADER) {
      const type = chunk[at] as number;
      const size = validSize(type, chunk, at);
      if (!this.accepts(type, size - HEADER)) return -1;
      if (end - at < size) break;
      if (type === BACKEND.dataRow && this.takeRows !== null) at = this.takeRows(chunk, at, end);
      else {
        this.onMessage(type, chunk, at + HEADER, at + size);
        at += size;
      }
    }
    return at;
  }

  /**
   * Messages almost always arrive complete. The rest of an incomplete one is appended to a buffer of exactly its size.
   * @returns how many bytes of the chunk it has taken; -1 if the reading was stopped
   */
  private complete(chunk: Buffer, end: number): number {
    let from = this.take(chunk, 0, end, HEADER);
    if (this.filled < HEADER) return from;
    const type = this.pending[0] as number;
    const size = validSize(type, this.pending, 0);
    if (!this.accepts(type, size - HEADER)) return -1;
    from = this.take(chunk, from, end, size);
    if (this.filled < size) return from;
    const message = this.pending;
    this.pending = NOTHING;
    this.filled = 0;
    if (type === BACKEND.dataRow && this.takeRows !== null) this.takeRows(message, 0, size);
    else this.onMessage(type, message, HEADER, size);
    return from;
  }

  /**
   * Fills `pending` up to `wanted` bytes.
   * @returns the position after the bytes taken
   */
  private take(chunk: Buffer, from: number, end: number, size: number): number {
    if (this.filled >= size) return from;
    if (this.pending.length < size) {
      const larger = Buffer.allocUnsafe(size);
      this.pending.copy(larger, 0, 0, this.filled);
      this.pending = larger;
    }
    const count = Math.min(size - this.filled, end - from);
    chunk.copy(this.pending, this.filled, from, from + count);
    this.filled += count;
    return from + count;
  }
}

/** Letters, and the digits of ParseComplete, BindComplete and CloseComplete. */
const isType = (type: number): boolean => (type >= 0x41 && type <= 0x7a) || (type >= 0x31 && type <= 0x33);

/** The length includes itself, so it is invalid below 4; at -1 or less, reading would never advance. */
function validSize(type: number, bytes: Buffer, at: number): number {
  const size = messageSize(bytes, at);
  if (size < HEADER || !isType(type)) throw protocolViolation();
  return size;
}

/**
 * The size of the message at `at`, including its type. Faster than readInt32BE, which matters because it runs for each
 * row.
 */
export function messageSize(bytes: Buffer, at: number): number {
  const length =
    ((bytes[at + 1] as number) << 24) |
    ((bytes[at + 2] as number) << 16) |
    ((bytes[at + 3] as number) << 8) |
    (bytes[at + 4] as number);
  return 1 + length;
}
