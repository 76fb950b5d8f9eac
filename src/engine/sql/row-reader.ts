/**
 * Reads the rows of a statement from Postgres, in their order. A long row is encoded in a thread. Until it is, reading
 * pauses, and what had already arrived waits.
 */
import type { QueryRunner } from '../../db/query-runner.js';
import { messageSize, type RowHandler } from '../../pg/index.js';
import type { EventLoopThrottle } from '../limits/event-loop-throttle.js';

/** Longer rows would hold up the event loop. */
const LONG_ROW_BYTES = 512 * 1024;

/** What takes the rows. */
export interface RowTaker {
  readonly takeRows: RowHandler;
  /** @param message its DataRow, with memory of its own, which may be taken away */
  takeLongRow(message: Uint8Array<ArrayBuffer>): Promise<void>;
}

export class RowReader {
  private waits = 0;
  private hasEnded = false;
  /** Settles when all rows that wait have been taken; null: none waits. */
  private waiting: Promise<void> | null = null;

  /** @param projectId whose turn of the event loop it is */
  constructor(
    private readonly db: QueryRunner,
    private readonly throttle: EventLoopThrottle,
    private readonly projectId: string,
    private readonly taker: RowTaker,
  ) {}

  readonly takeRows: RowHandler = (buffer, start, end) => {
    const size = messageSize(buffer, start);
    if (this.waiting === null && size <= LONG_ROW_BYTES) return this.takeAtOnce(buffer, start, end);
    const message = new Uint8Array(buffer.subarray(start, start + size));
    const taken: Promise<void> = (this.waiting ?? Promise.resolve())
      .then(() => this.takeWaiting(message))
      .then(() => {
        if (this.waiting === taken) this.waiting = null;
      });
    this.waiting = taken;
    // `settled` throws the error, unless the statement fails first.
    this.pauseUntil(taken.catch(() => {}));
    return start + size;
  };

  /** Waits until all rows that have arrived are taken. @throws what the taker throws */
  async settled(): Promise<void> {
    if (this.waiting !== null) await this.waiting;
  }

  /** Stops reading from Postgres until then. That time does not count as time of the statement. */
  pauseUntil(ready: Promise<void> | undefined): void {
    if (ready === undefined) return;
    if (this.waits++ === 0) this.db.pause();
    void ready.then(() => {
      if (--this.waits === 0) this.resume();
    });
  }

  /** Call this when the statement has ended: what it waits for then, such as a slow client, no longer matters. */
  end(): void {
    if (this.waits > 0) this.resume();
    this.hasEnded = true;
  }

  private takeAtOnce(buffer: Buffer, start: number, end: number): number {
    return this.throttle.charge(this.projectId, () => this.taker.takeRows(buffer, start, end));
  }

  private async takeWaiting(message: Uint8Array<ArrayBuffer>): Promise<void> {
    const { length } = message;
    if (length <= LONG_ROW_BYTES) return void this.takeAtOnce(Buffer.from(message.buffer), 0, length);
    await this.throttle.turn(this.projectId);
    await this.throttle.chargeWait(this.projectId, () => this.taker.takeLongRow(message));
  }

  private resume(): void {
    if (!this.hasEnded) this.db.resume();
  }
}
