/** Rows become JSON bytes as they arrive, until a cap is reached (contract section 7). */
import { LIMITS } from '../../contract/limits.js';
import { MessageTooLarge } from '../../postgres/errors.js';
import { RowBytes } from '../../postgres/results/row-bytes.js';
import type { RowEncoder } from '../../postgres/results/row-encoder.js';
import { messageSize, type RowTaker } from '../../postgres/wire/framing.js';

/**
 * A step is at most this many times all rows before it, and at most so many bytes, judged by them. Rows may get longer on
 * the way; then what a step has beyond the caps was fetched in vain.
 */
const STEP_GROWTH = 4;
const STEP_BYTES = 1024 * 1024;

/** Encodes rows until a cap is reached, then only notes that there was more. */
export class RowCollector {
  /** Rows kept. */
  count = 0;
  /** All rows that came. */
  seen = 0;
  truncated = false;
  private told = 0;
  readonly bytes: RowBytes;

  /** @param expectedBytes of all rows, where somebody knows */
  constructor(
    private readonly encoder: RowEncoder,
    private readonly maxRows: number,
    private readonly maxBytes: number,
    expectedBytes?: number,
  ) {
    this.bytes = new RowBytes(expectedBytes);
  }

  /** @throws MessageTooLarge for one row that is longer than any answer may be */
  readonly takeRows: RowTaker = (buffer, start, end) => {
    if (this.count >= this.maxRows) this.truncated = true;
    if (this.truncated) {
      this.seen++;
      return start + messageSize(buffer, start);
    }
    const { bytes, encoder } = this;
    const before = bytes.length;
    const most = this.maxRows - this.count;
    const behind = encoder.take(buffer, start, end, most, this.maxBytes - before, bytes);
    this.seen += encoder.rows;
    // Several together stay below: it is one.
    if (bytes.length > this.maxBytes) {
      if (bytes.length - before > LIMITS.resultBytes) throw new MessageTooLarge();
      bytes.cut(before);
      this.truncated = true;
    } else this.count += encoder.rows;
    return behind;
  };

  /** Bytes since the last call. */
  newBytes(): number {
    const before = this.told;
    this.told = this.bytes.length;
    return this.told - before;
  }

  /** How many rows the next step should have: no more than the caps leave room for, judged by those that came. */
  nextStep(): number {
    const { length } = this.bytes;
    const byBytes = this.count === 0 ? 1 : Math.min(this.maxBytes - length, STEP_BYTES) / (length / this.count);
    return Math.max(1, Math.floor(Math.min(this.maxRows - this.count, byBytes, this.count * STEP_GROWTH)));
  }
}
