/**
 * Collects the rows of a statement as JSON bytes until a cap is reached (contract C14.4, C14.5). Rows beyond it are not
 * fetched from Postgres (contract C14.6).
 */
import { LIMITS } from '../../contract/limits.js';
import { BufferList, type EncodedRows, type RowEncoder } from '../../codec/index.js';
import { messageSize, MessageTooLarge, type RowHandler } from '../../pg/index.js';
import type { EventLoopThrottle } from '../limits/event-loop-throttle.js';
import { mainKeyword, MODIFYING } from '../parser/keywords.js';
import { RowReader, type RowTaker } from './row-reader.js';
import { rejectOtherEncoding } from './client-encoding.js';
import type { DescribedStatement } from './statement.js';

/**
 * A step fetches at most this many times the rows so far, and about this many bytes, estimated from them. If rows get
 * longer, bytes of a step beyond the caps are fetched in vain.
 */
const STEP_GROWTH = 32;
const STEP_BYTES = 4 * 1024 * 1024;

/** Rows of the first step: enough to learn the length of a row. */
const FIRST_STEP = 16;

/** Encodes rows until a cap is reached, then only records that there were more. */
export class RowCollector implements RowTaker {
  /** Rows kept. */
  count = 0;
  /** All rows received. */
  received = 0;
  truncated = false;
  /** The rows kept, each after a comma. */
  readonly bytes = new BufferList();

  constructor(
    private readonly encoder: RowEncoder,
    private readonly maxRows: number,
    private readonly maxBytes: number,
  ) {}

  /** @throws MessageTooLarge for a single row longer than any response may be */
  readonly takeRows: RowHandler = (buffer, start, end) => {
    if (this.isFull()) {
      this.received++;
      return start + messageSize(buffer, start);
    }
    const rows = this.encoder.encode(buffer, start, end, this.maxRows - this.count, this.maxBytes - this.length);
    this.keep(rows);
    return rows.end;
  };

  /** See {@link RowTaker}. @throws as {@link takeRows} */
  async takeLongRow(message: Uint8Array<ArrayBuffer>): Promise<void> {
    if (this.isFull()) this.received++;
    else this.keep(await this.encoder.encodeLong(message));
  }

  private isFull(): boolean {
    if (this.count >= this.maxRows) this.truncated = true;
    return this.truncated;
  }

  private keep(rows: EncodedRows): void {
    this.received += rows.count;
    // The encoder keeps several rows within the limit, so this is a single one.
    if (this.bytes.length + rows.bytes.length - 1 > this.maxBytes) {
      if (rows.bytes.length - 1 > LIMITS.resultBytes) throw new MessageTooLarge();
      this.truncated = true;
    } else {
      this.bytes.push(rows.bytes);
      this.count += rows.count;
    }
  }

  /** The format codes in which to fetch the rows. */
  get formats(): RowEncoder['formats'] {
    return this.encoder.formats;
  }

  /** Bytes of the rows, without the comma before the first. */
  get length(): number {
    return Math.max(0, this.bytes.length - 1);
  }

  /**
   * The number of rows for the next step. After the first, it is estimated from the rows so far: one more than the caps
   * allow, to learn whether there is one.
   */
  nextStep(): number {
    const { length } = this;
    if (this.received === 0) return Math.min(FIRST_STEP, this.maxRows);
    const byBytes = this.count === 0 ? 1 : Math.min(this.maxBytes - length, STEP_BYTES) / (length / this.count);
    return Math.floor(Math.min(this.maxRows - this.count, byBytes, this.count * STEP_GROWTH)) + 1;
  }
}

/**
 * INSERT … RETURNING and the like have produced all rows before the first is sent, and EXECUTE may run one of them. The
 * command tag says which it was, and how many rows there are.
 */
const PRODUCED_AT_ONCE = new Set([...MODIFYING, 'EXECUTE']);

/**
 * Collects the rows of a statement, up to the caps.
 * @param projectId whose turn of the event loop it is
 * @returns the command tag, or null if the rows were cut off before the statement ended
 * @throws PostgresError, ConnectionLost, MessageTooLarge; EngineError statement_not_allowed
 */
export async function collectRows(
  throttle: EventLoopThrottle,
  projectId: string,
  { db, columns, params, text }: DescribedStatement,
  rows: RowCollector,
): Promise<string | null> {
  // Outside a transaction, the portal ends with its first step.
  const step = db.inTransaction && columns !== null ? rows.nextStep() : 0;
  const reader = new RowReader(db, throttle, projectId, rows);
  const { takeRows } = reader;
  try {
    let tag = await db.fetch(params, rows.formats, step, takeRows);
    await reader.settled();
    while (tag === null && !rows.truncated) {
      const turn = throttle.turn(projectId);
      if (turn !== undefined) await db.pausedFor(turn);
      tag = await db.fetchMore(rows.nextStep(), takeRows);
      await reader.settled();
    }
    if (tag === null && PRODUCED_AT_ONCE.has(mainKeyword(text))) tag = await db.fetchMore(0, takeRows);
    await reader.settled();
    for (const bytes of rows.bytes.buffers) rejectOtherEncoding(bytes);
    return tag;
  } finally {
    reader.end();
  }
}
