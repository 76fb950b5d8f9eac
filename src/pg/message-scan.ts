/**
 * Scans a stream of messages that passes through: it reads their headers, and passes on the bodies of a few types. It
 * copies nothing else.
 */
import { messageSize } from './framing.js';
import { MESSAGE_HEADER } from './messages.js';

/** Maximum number of bytes of a body that are passed on; the rest of a longer one is ignored. */
const KEPT = 64 * 1024;

export class MessageScan {
  /** The type of the last message, complete or incomplete. */
  lastType = 0;
  private readonly header = Buffer.alloc(MESSAGE_HEADER);
  private headerFilled = 0;
  /** The number of bytes that the current message still lacks. */
  private left = 0;
  /** Parts of a wanted body that arrives in pieces. */
  private parts: Buffer[] | null = null;
  private kept = 0;

  /**
   * @param wanted types whose bodies are passed on
   * @param onMessage called when such a message is complete; `body` is valid until it returns
   */
  constructor(
    private readonly wanted: ReadonlySet<number>,
    private readonly onMessage: (type: number, body: Buffer) => void,
  ) {}

  /** Whether the stream is between two messages. */
  get isBetween(): boolean {
    return this.left === 0 && this.headerFilled === 0;
  }

  /** Scans `chunk[0, end)`. */
  feed(chunk: Buffer, end = chunk.length): void {
    let at = this.finishPending(chunk, end);
    while (end - at >= MESSAGE_HEADER) {
      const size = Math.max(messageSize(chunk, at), MESSAGE_HEADER);
      const next = at + size;
      const type = (this.lastType = chunk[at] as number);
      if (this.wanted.has(type)) {
        if (next <= end) this.onMessage(type, chunk.subarray(at + MESSAGE_HEADER, next));
        else this.begin(type, chunk.subarray(at + MESSAGE_HEADER, end));
      }
      if (next > end) {
        this.left = next - end;
        return;
      }
      at = next;
    }
    this.headerFilled += chunk.copy(this.header, this.headerFilled, at, end);
  }

  /** @returns the start of the next message, or the end */
  private finishPending(chunk: Buffer, end: number): number {
    let at = 0;
    if (this.headerFilled > 0) {
      const taken = Math.min(MESSAGE_HEADER - this.headerFilled, end);
      chunk.copy(this.header, this.headerFilled, 0, taken);
      this.headerFilled += taken;
      if (this.headerFilled < MESSAGE_HEADER) return end;
      at = taken;
      this.headerFilled = 0;
      this.left = Math.max(messageSize(this.header, 0), MESSAGE_HEADER) - MESSAGE_HEADER;
      const type = (this.lastType = this.header[0] as number);
      if (this.wanted.has(type)) {
        if (this.left === 0) this.onMessage(type, this.header.subarray(0, 0));
        else this.begin(type, Buffer.alloc(0));
      }
    }
    if (this.left === 0) return at;
    const taken = Math.min(this.left, end - at);
    this.left -= taken;
    if (this.parts !== null) {
      this.append(chunk.subarray(at, at + taken));
      if (this.left === 0) {
        const body = Buffer.concat(this.parts);
        this.parts = null;
        this.onMessage(this.header[0] as number, body);
      }
    }
    return at + taken;
  }

  private begin(type: number, body: Buffer): void {
    this.header[0] = type;
    this.parts = [];
    this.kept = 0;
    this.append(body);
  }

  private append(part: Buffer): void {
    const wanted = part.subarray(0, KEPT - this.kept);
    this.kept += wanted.length;
    this.parts?.push(Buffer.from(wanted));
  }
}
