/**
 * Batches with the same columns share COPYs, because every COPY costs a statement and a commit, and concurrent COPYs
 * contend for the end of the table. At most two run at once, so that the second is in transit while the first is
 * stored; a batch above half of MAX_BYTES and a batch repeated after a refused COPY go alone and do not count. Batches
 * that arrive in the meantime wait; when a COPY ends, those that fit go together in the next.
 */
import type { EncodedBatch } from '../../codec/index.js';
import { EngineError } from '../../contract/errors.js';
import { NEVER } from '../limits/deadline.js';
import type { WaitBudget } from '../limits/wait-budget.js';
import { type Swept, Sweeper } from '../limits/sweeper.js';
import type { RequestTrace } from '../database/trace.js';

/** One that is being stored, and one in transit. */
const MAX_UNDER_WAY = 2;

/** The most records and bytes of a shared COPY. */
const MAX_RECORDS = 1_000;
const MAX_BYTES = 256 * 1024;

/**
 * Everything was stored, or nothing was: Postgres refused the rows, or the rows were encoded for an earlier schema.
 */
export type CopyOutcome = 'stored' | 'refused' | 'outdated';

export interface QueuedBatch {
  readonly rows: EncodedBatch;
  /** Aborted when its client disconnects. */
  readonly signal: AbortSignal;
  readonly waitBudget: WaitBudget;
  readonly trace: RequestTrace | null;
}

/** Stores batches in one transaction. */
type Copy = (batches: readonly QueuedBatch[], signal: AbortSignal) => Promise<CopyOutcome>;

/** The batches of one COPY. */
class CopyGroup {
  private outcome: Promise<CopyOutcome> | null = null;

  constructor(
    private readonly batches: readonly QueuedBatch[],
    private readonly hasEnded: () => void = () => {},
  ) {}

  get isShared(): boolean {
    return this.batches.length > 1;
  }

  /**
   * Call this for each batch: the first call sends all of them, the others get its outcome. @throws what `copy`
   * throws
   */
  send(batch: QueuedBatch, copy: Copy): Promise<CopyOutcome> {
    // A client that disconnects must not cancel a COPY that others share.
    return (this.outcome ??= copy(this.batches, this.isShared ? NEVER : batch.signal).finally(this.hasEnded));
  }
}

interface Waiting extends Swept {
  readonly batch: QueuedBatch;
  /** Called when the wait is over: the batch goes, or was refused. */
  readonly leave: () => void;
  readonly resolve: (group: CopyGroup) => void;
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
  async store(batch: QueuedBatch, copy: Copy): Promise<CopyOutcome> {
    const group = await this.join(batch);
    const outcome = await group.send(batch, copy);
    return outcome === 'refused' && group.isShared ? copy([batch], batch.signal) : outcome;
  }

  /**
   * Waits until the batch can be sent.
   * @returns the group that it goes with
   * @throws EngineError overloaded
   */
  private join(batch: QueuedBatch): Promise<CopyGroup> {
    const { rows, signal, waitBudget, trace } = batch;
    if (rows.data.length > MAX_BYTES / 2) return Promise.resolve(new CopyGroup([batch]));
    const isBusy = this.underWay === MAX_UNDER_WAY;
    if (isBusy && this.waiting.length >= this.maxWaiting) return Promise.reject(TOO_MANY_WAIT);
    const due = performance.now() + waitBudget.ms;
    const waited = waitBudget.start();
    const wait = trace?.waits();
    return new Promise((resolve, reject) => {
      const entry: Waiting = {
        batch,
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
      if (this.underWay < MAX_UNDER_WAY && this.waiting.length > 0) this.admitGroup();
    });
  }

  private admitGroup(): void {
    const entries = this.waiting.splice(0, this.fitting());
    this.underWay++;
    const group = new CopyGroup(
      entries.map(({ batch }) => batch),
      () => {
        this.underWay--;
        if (this.waiting.length > 0) this.gather();
      },
    );
    for (const { leave, resolve } of entries) {
      leave();
      resolve(group);
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
const TOO_MANY_WAIT = new EngineError('overloaded', 'Too many batches to this table are waiting', {
  retryAfter: 1,
});
