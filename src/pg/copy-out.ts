/** Buffers the rows of COPY … TO STDOUT for a slower reader. */

/** The sender of the rows. It can be paused. */
interface Sender {
  pause(): void;
  unpause(): void;
}

/** The bytes of rows that are passed on together. */
const PART_BYTES = 64 * 1024;
/** Maximum number of parts that wait before the sender is paused. */
const MAX_PARTS = 16;

export class CopiedRows implements AsyncIterable<Buffer> {
  private part: Buffer = Buffer.allocUnsafe(PART_BYTES);
  private filled = 0;
  private readonly parts: Buffer[] = [];
  /** undefined: more rows will come; null: all rows have arrived. */
  private ended: Error | null | undefined;
  private wake = (): void => {};

  constructor(private readonly sender: Sender) {}

  /** Copies the row that `buffer` contains between `start` and `end`. */
  add(buffer: Buffer, start: number, end: number): void {
    if (this.filled + end - start > PART_BYTES) this.handOn();
    if (end - start > PART_BYTES) this.push(Buffer.from(buffer.subarray(start, end)));
    else this.filled += buffer.copy(this.part, this.filled, start, end);
  }

  /** @param error null: all rows have arrived */
  end(error: Error | null): void {
    this.handOn();
    this.ended = error;
    this.wake();
  }

  /**
   * The rows in parts of 64 KiB; a longer row is a part of its own. A row is never split.
   * @throws the error of {@link end}
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer, void, void> {
    for (;;) {
      const parts = this.parts.splice(0);
      if (parts.length > 0) {
        this.sender.unpause();
        yield* parts;
      } else if (this.ended === undefined) await new Promise<void>((resolve) => (this.wake = resolve));
      else if (this.ended === null) return;
      else throw this.ended;
    }
  }

  private handOn(): void {
    if (this.filled === 0) return;
    this.push(this.part.subarray(0, this.filled));
    this.part = Buffer.allocUnsafe(PART_BYTES);
    this.filled = 0;
  }

  private push(part: Buffer): void {
    this.parts.push(part);
    if (this.parts.length >= MAX_PARTS) this.sender.pause();
    this.wake();
  }
}
