/**
 * Batches with the same columns share COPYs, because every COPY costs a statement and a commit, and concurrent COPYs
 * contend for the end of the table. At most two COPYs run at once: one being stored, one in transit. Batches that
 * arrive in the meantime wait; when a COPY ends, those that fit go together in the next. Large batches are sent alone
 * and not counted.
 */
import type { EncodedBatch } from '../../codec/index.js';
import { EngineError } from '../../contract/errors.js';
import type { Result, Step } from '../../pg/index.js';
import type { Work } from '../database/database-access.js';
import type { RequestTrace } from '../database/trace.js';
import { type Deadline, endedWhileWaiting, NEVER, typedDeadline } from '../limits/deadline.js';
import { type Swept, Sweeper } from '../limits/sweeper.js';
import type { WaitBudget } from '../limits/wait-budget.js';
import { type NotStored, storeAndCheck, type TableWithCheck } from './store-rows.js';

/** One that is being stored, and one in transit. */
const MAX_UNDER_WAY = 2;

/** The most records and bytes of a shared COPY. */
const MAX_RECORDS = 1_000;
const MAX_BYTES = 256 * 1024;

type Outcome = readonly Result[] | NotStored;

interface CopyUse {
  readonly connection: 'typed';
  readonly deadline: Deadline;
  readonly trace: RequestTrace | null;
}

export interface QueuedBatch {
  readonly rows: EncodedBatch;
  /** As the request of the batch sees it. */
  readonly project: {
    readonly waitBudget: WaitBudget;
    readonly trace: RequestTrace | null;
    use(use: CopyUse, work: Work<Outcome>): Promise<Outcome>;
  };
  /** Aborted when its client disconnects, or with the EngineError that ends its request. */
  readonly signal: AbortSignal;
}

interface Waiting extends Swept {
  readonly batch: QueuedBatch;
  /** Called when the wait is over: the batch goes, or was refused. */
  readonly leave: () => void;
  readonly resolve: (outcome: Outcome) => void;
  readonly reject: (error: unknown) => void;
}

export class CopyQueue {
  private underWay = 0;
  private waiting: Waiting[] = [];
  private isGathering = false;
  private readonly sweeper = new Sweeper<Waiting>();

  /**
   * @param stepOf the COPY of batches
   * @param maxWaiting the most batches that may wait while MAX_UNDER_WAY COPYs run
   */
  constructor(
    private readonly table: TableWithCheck,
    private readonly stepOf: (rows: readonly EncodedBatch[]) => Step,
    private readonly maxWaiting: number,
  ) {}

  /**
   * Stores the batch, perhaps in one COPY with others.
   * @throws EngineError overloaded, and what `Project.use` throws
   */
  store(batch: QueuedBatch): Promise<Outcome> {
    const { rows, project, signal } = batch;
    if (rows.data.length > MAX_BYTES / 2) return this.copy([batch]);
    const isBusy = this.underWay === MAX_UNDER_WAY;
    if (isBusy && this.waiting.length >= this.maxWaiting) return Promise.reject(TOO_MANY_WAIT);
    const due = performance.now() + project.waitBudget.ms;
    const waited = project.waitBudget.start();
    const wait = project.trace?.waits();
    return new Promise((resolve, reject) => {
      const entry: Waiting = {
        batch,
        resolve,
        reject,
        leave: () => {
          waited();
          wait?.end();
          this.sweeper.delete(entry);
        },
        check: (now) => {
          if (!signal.aborted && now < due) return;
          this.waiting.splice(this.waiting.indexOf(entry), 1);
          entry.leave();
          reject(signal.aborted ? endedWhileWaiting(signal) : WAITED_TOO_LONG);
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
      if (this.underWay < MAX_UNDER_WAY) void this.sendGroup();
    });
  }

  /** Sends the batches that have waited longest. */
  private async sendGroup(): Promise<void> {
    const group = this.waiting.splice(0, this.fitting());
    if (group.length === 0) return;
    for (const { leave } of group) leave();
    this.underWay++;
    await this.send(group);
    this.underWay--;
    if (this.waiting.length > 0) this.gather();
  }

  /** Stores the batches in one COPY. If Postgres refuses it, each half goes by itself, until the bad batch is alone. */
  private async send(group: readonly Waiting[]): Promise<void> {
    try {
      const outcome = await this.copy(group.map(({ batch }) => batch));
      if (outcome === 'refused' && group.length > 1) {
        await this.send(group.slice(0, group.length / 2));
        await this.send(group.slice(group.length / 2));
      } else for (const { resolve } of group) resolve(outcome);
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
  }

  private async copy(batches: readonly QueuedBatch[]): Promise<Outcome> {
    // It has waited least, so it may still wait longest.
    const last = batches.at(-1) as QueuedBatch;
    // A client that disconnects must not cancel a COPY that others share.
    const signal = batches.length > 1 ? NEVER : last.signal;
    const use: CopyUse = { connection: 'typed', deadline: typedDeadline(signal), trace: traceOf(batches) };
    const step = this.stepOf(batches.map(({ rows }) => rows));
    return last.project.use(use, (lease) => storeAndCheck(lease, this.table, step, 'alone'));
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

/** The COPY belongs to the trace of the first traced request; the traces of the others link to it. */
function traceOf(batches: readonly QueuedBatch[]): RequestTrace | null {
  const [first, ...others] = batches.flatMap(({ project }) => project.trace ?? []);
  return first === undefined ? null : first.copying(others);
}

/** Single instances: a stack trace for each would cost more than the rest of a rejection. */
const TOO_MANY_WAIT = new EngineError('overloaded', 'Too many batches to this table are waiting');
const WAITED_TOO_LONG = new EngineError('overloaded', 'The batch has waited too long for its turn');
