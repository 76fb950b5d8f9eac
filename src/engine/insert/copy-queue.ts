/**
 * Batches with the same columns share COPYs, because every COPY costs a statement and a commit, and concurrent COPYs
 * contend for the end of the table. At most two COPYs per target run at once: one being stored, one in transit. Batches
 * that arrive in the meantime wait; when a COPY ends, those that fit go together in the next. Large batches, and batches
 * retried after a rejected COPY, are sent alone and not counted.
 */
import type { EncodedBatch } from '../../codec/index.js';
import { EngineError } from '../../contract/errors.js';
import type { Result } from '../../pg/index.js';
import { NEVER } from '../limits/deadline.js';
import type { WaitBudget } from '../limits/wait-budget.js';
import { type Swept, Sweeper } from '../limits/sweeper.js';
import type { RequestTrace } from '../database/trace.js';

/** One that is being stored, and one in transit. */
const MAX_UNDER_WAY = 2;

/** The most records and bytes of a shared COPY. */
const MAX_RECORDS = 1_000;
const MAX_BYTES = 256 * 1024;

/** Why nothing was stored: Postgres refused the rows, or they were encoded for an earlier schema. */
export type NotStored = 'refused' | 'outdated';

export interface QueuedBatch {
  readonly rows: EncodedBatch;
  /** Aborted when its client disconnects. */
  readonly signal: AbortSignal;
  readonly waitBudget: WaitBudget;
  readonly trace: RequestTrace | null;
}

/** Stores batches in one transaction. */
type Copy = (batches: readonly QueuedBatch[], signal: AbortSignal) => Promise<readonly Result[] | NotStored>;

interface Waiting extends Swept {
  readonly batch: QueuedBatch;
  readonly copy: Copy;
  /** Called when the wait is over: the batch goes, or was refused. */
  readonly leave: () => void;
  readonly resolve: (outcome: ReturnType<Copy>) => void;
}

export class CopyQueue {
  private underWay = 0;
  private waiting: Waiting[] = [];
  private isGathering = false;
  private readonly sweeper = new Sweeper<Waiting>();

  /** @param maxWaiting the most batches that may wait while MAX_UNDER_WAY COPYs run */
  constructor(private readonly maxWaiting: number) {}

  /**
   * Stores the batch, perhaps in one COPY with others. If Postgres refuses a shared COPY, each batch goes alone.
   * @throws EngineError overloaded, and what `copy` throws
   */
  store(batch: QueuedBatch, copy: Copy): ReturnType<Copy> {
    const { rows, signal, waitBudget, trace } = batch;
    if (rows.data.length > MAX_BYTES / 2) return copy([batch], signal);
    const isBusy = this.underWay === MAX_UNDER_WAY;
    if (isBusy && this.waiting.length >= this.maxWaiting) return Promise.reject(TOO_MANY_WAIT);
    const due = performance.now() + waitBudget.ms;
    const waited = waitBudget.start();
    const wait = trace?.waits();
    return new Promise((resolve, reject) => {
      const entry: Waiting = {
        batch,
        copy,
        resolve,
        leave: () => {
          waited();
          wait?.end();
          this.sweeper.delete(entry);
        },
        check: (now) => {
          if (!signal.aborted && now < due) return;
          this.waiting.splice(this.waiting.indexOf(entry), 1);
          entry.leave();
          reject(TOO_MANY_WAIT);
        },
      };
      this.waiting.push(entry);
      this.sweeper.add(entry);
      this.gather();
    });
  }

  /** Sends the waiting batches at the end of this turn of the event loop, with those that it still reads. */
  private gather(): void {
    if (this.isGathering || this.underWay === MAX_UNDER_WAY) return;
    this.isGathering = true;
    setImmediate(() => {
      this.isGathering = false;
      if (this.underWay < MAX_UNDER_WAY) this.sendGroup();
    });
  }

  /** Sends the batches that have waited longest in one COPY. Each gets its outcome, or goes alone if it was refused. */
  private sendGroup(): void {
    const entries = this.waiting.splice(0, this.fitting());
    const [first] = entries;
    if (first === undefined) return;
    for (const { leave } of entries) leave();
    this.underWay++;
    const isShared = entries.length > 1;
    const batches = entries.map(({ batch }) => batch);
    // A client that disconnects must not cancel a COPY that others share.
    const sent = first.copy(batches, isShared ? NEVER : first.batch.signal).finally(() => {
      this.underWay--;
      if (this.waiting.length > 0) this.gather();
    });
    for (const { batch, copy, resolve } of entries) {
      const retry = () => copy([batch], batch.signal);
      resolve(isShared ? sent.then((outcome) => (outcome === 'refused' ? retry() : outcome)) : sent);
    }
  }

  /** The number of waiting batches that fit into one COPY, at least one. */
  private fitting(): number {
    let records = 0;
    let bytes = 0;
    const end = this.waiting.findIndex(({ batch: { rows } }, i) => {
      records += rows.records;
      bytes += rows.data.length;
      return i > 0 && (records > MAX_RECORDS || bytes > MAX_BYTES);
    });
    return end < 0 ? this.waiting.length : end;
  }
}

/** A single instance: a stack trace for each would cost more than the rest of a rejection. */
const TOO_MANY_WAIT = new EngineError('overloaded', 'Too many batches to this table are waiting');
