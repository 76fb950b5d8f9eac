/** Collects rows as JSON bytes until a cap is reached (contract section 7). */
import { LIMITS } from '../../contract/limits.js';
import { BufferList, type RowEncoder } from '../../codec/index.js';
import { messageSize, MessageTooLarge, type RowTaker } from '../../pg/index.js';

/**
 * A step fetches at most this many times the rows so far, and about this many bytes, estimated from them. If rows get
 * longer, bytes of a step beyond the caps are fetched in vain.
 */
const STEP_GROWTH = 32;
const STEP_BYTES = 4 * 1024 * 1024;

/** Rows of the first step: enough to learn the length of a row. */
const FIRST_STEP = 16;

/** Encodes rows until a cap is reached, then only records that there were more. */
export class RowCollector {
  /** Rows kept. */
  count = 0;
  /** All rows received. */
  seen = 0;
  truncated = false;
  /** The rows kept, each after a comma. */
  readonly bytes = new BufferList();
  private reported = 0;

  constructor(
    private readonly encoder: RowEncoder,
    private readonly maxRows: number,
    private readonly maxBytes: number,
  ) {}

  /** @throws MessageTooLarge for a single row longer than any response may be */
  readonly takeRows: RowTaker = (buffer, start, end) => {
    if (this.count >= this.maxRows) this.truncated = true;
    if (this.truncated) {
      this.seen++;
      return start + messageSize(buffer, start);
    }
    const rows = this.encoder.encode(buffer, start, end, this.maxRows - this.count, this.maxBytes - this.length);
    this.seen += rows.count;
    // The encoder keeps several rows within the limit, so this is a single one.
    if (this.bytes.length + rows.bytes.length - 1 > this.maxBytes) {
      if (rows.bytes.length - 1 > LIMITS.resultBytes) throw new MessageTooLarge();
      this.truncated = true;
    } else {
      this.bytes.push(rows.bytes);
      this.count += rows.count;
    }
    return rows.end;
  };

  /** The format codes in which to fetch the rows. */
  get formats(): RowEncoder['formats'] {
    return this.encoder.formats;
  }

  /** Bytes of the rows, without the comma before the first. */
  get length(): number {
    return Math.max(0, this.bytes.length - 1);
  }

  /** Bytes since the last call. */
  newBytes(): number {
    const before = this.reported;
    this.reported = this.length;
    return this.reported - before;
  }

  /**
   * The number of rows for the next step. After the first, it is estimated from the rows so far: one more than the caps
   * allow, to learn whether there is one.
   */
  nextStep(): number {
    const { length } = this;
    if (this.seen === 0) return Math.min(FIRST_STEP, this.maxRows);
    const byBytes = this.count === 0 ? 1 : Math.min(this.maxBytes - length, STEP_BYTES) / (length / this.count);
    return Math.floor(Math.min(this.maxRows - this.count, byBytes, this.count * STEP_GROWTH)) + 1;
  }
}
