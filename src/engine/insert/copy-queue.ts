/**
 * Batches with the same columns share COPYs, because every COPY costs a statement and a commit, and concurrent COPYs
 * contend for the end of the table. At most two COPYs run at once: one being stored, one in transit. Batches that
 * arrive in the meantime wait; when a COPY ends, those that fit go together in the next. Large batches are sent alone
 * and not counted.
 */
import type { EncodedBatch } from '../../codec/index.js';
import type { Counts } from '../../contract/counts.js';
import { EngineError } from '../../contract/errors.js';
import type { Result, Step } from '../../pg/index.js';
import type { Work } from '../database/database-access.js';
import type { RequestTrace } from '../database/trace.js';
import { type Deadline, endedWhileWaiting, typedDeadline } from '../limits/deadline.js';
import { type Swept, Sweeper } from '../limits/sweeper.js';
import { WaitBudget } from '../limits/wait-budget.js';
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
  readonly waitBudget: WaitBudget;
  readonly trace: RequestTrace | null;
}

export interface QueuedBatch {
  readonly rows: EncodedBatch;
  /** As the request of the batch sees it. */
  readonly project: {
    readonly id: string;
    readonly waitBudget: WaitBudget;
    readonly trace: RequestTrace | null;
    use(use: CopyUse, work: Work<Outcome>): Promise<Outcome>;
  };
  /** Aborted when its client disconnects, or with the EngineError that ends its request. */
  readonly signal: AbortSignal;
}

/** Batches that wait, over all queues. */
export interface WaitingBatches {
  /** By project. */
  readonly counts: Counts;
  /** The most that may wait of one project, while MAX_UNDER_WAY COPYs run. */
  readonly max: number;
}

interface Waiting extends Swept {
  readonly batch: QueuedBatch;
  /** It has waited too long, or its request has ended: it must not be sent any more. */
  isRefused: boolean;
  readonly budgetLeft: () => WaitBudget;
  /** Ends the wait. @param error if the batch was not sent */
  readonly leave: (error?: unknown) => void;
  readonly resolve: (outcome: Outcome) => void;
  readonly reject: (error: unknown) => void;
}

export class CopyQueue {
  private underWay = 0;
  private waiting: Waiting[] = [];
  private isGathering = false;
  private readonly sweeper = new Sweeper<Swept>();

  /** @param stepOf the COPY of batches */
  constructor(
    private readonly table: TableWithCheck,
    private readonly stepOf: (rows: readonly EncodedBatch[]) => Step,
    private readonly waitingBatches: WaitingBatches,
  ) {}

  /**
   * Stores the batch, perhaps in one COPY with others.
   * @throws EngineError overloaded, and what `Project.use` throws
   */
  store(batch: QueuedBatch): Promise<Outcome> {
    const { rows, project, signal } = batch;
    const { counts, max } = this.waitingBatches;
    const isLarge = rows.data.length > MAX_BYTES / 2;
    const isBusy = !isLarge && this.underWay === MAX_UNDER_WAY;
    if (isBusy && counts.of(project.id) >= max) return Promise.reject(TOO_MANY_WAIT);
    const due = performance.now() + project.waitBudget.ms;
    const waited = project.waitBudget.start();
    const wait = project.trace?.startWait();
    let isWaiting = true;
    return new Promise((resolve, reject) => {
      const entry: Waiting = {
        batch,
        isRefused: false,
        resolve,
        reject,
        budgetLeft: () => (isWaiting ? new WaitBudget(due - performance.now()) : project.waitBudget),
        leave: (error) => {
          if (!isWaiting) return;
          isWaiting = false;
          waited();
          wait?.end(error);
          counts.add(project.id, -1);
          this.sweeper.delete(entry);
        },
        check: (now) => {
          if (!signal.aborted && now < due) return;
          const error = signal.aborted ? endedWhileWaiting(signal) : WAITED_TOO_LONG;
          entry.isRefused = true;
          entry.leave(error);
          reject(error);
          this.waiting = this.waiting.filter((other) => other !== entry);
        },
      };
      counts.add(project.id, 1);
      this.sweeper.add(entry);
      if (isLarge) return void this.send([entry]);
      this.waiting.push(entry);
      this.gather();
    });
  }

  /** Sends the waiting batches at the end of this turn of the event loop, with those that it still reads. */
  private gather(): void {
    if (this.isGathering || this.underWay === MAX_UNDER_WAY) return;
    this.isGathering = true;
    setImmediate(() => {
      this.isGathering = false;
      while (this.underWay < MAX_UNDER_WAY && this.waiting.length > 0) void this.sendGroup();
    });
  }

  /** Sends the batches that have waited longest. */
  private async sendGroup(): Promise<void> {
    this.underWay++;
    await this.send(this.waiting.splice(0, this.fitting()));
    this.underWay--;
    if (this.waiting.length > 0) this.gather();
  }

  /**
   * Stores the batches in one COPY. If Postgres refuses it, each half goes by itself, until the bad batch is alone. If one
   * of the requests is ended, the others go again.
   */
  private async send(group: readonly Waiting[]): Promise<void> {
    // It has waited least.
    const last = group.at(-1) as Waiting;
    const shared = group.length > 1 ? this.endOf(group) : null;
    const signal = shared?.signal ?? last.batch.signal;
    const deadline = typedDeadline(signal);
    const use: CopyUse = { connection: 'typed', deadline, waitBudget: last.budgetLeft(), trace: traceOf(group) };
    let sent = group;
    const copy: Work<Outcome> = (lease) => {
      sent = group.filter(({ isRefused }) => !isRefused);
      for (const { leave } of sent) leave();
      const step = this.stepOf(sent.map(({ batch }) => batch.rows));
      return storeAndCheck(lease, this.table, step, 'alone');
    };
    try {
      const outcome = await last.batch.project.use(use, copy).finally(shared?.unwatch);
      if (outcome === 'refused' && sent.length > 1) {
        await this.send(sent.slice(0, sent.length / 2));
        await this.send(sent.slice(sent.length / 2));
      } else for (const { resolve } of sent) resolve(outcome);
    } catch (error) {
      const others = error === signal.reason ? sent.filter((entry) => !isEnded(entry)) : [];
      for (const { leave, reject } of sent.filter((entry) => !others.includes(entry))) {
        leave(error);
        reject(error);
      }
      if (others.length > 0) await this.send(others);
    }
  }

  /** Aborted with the error that ends one of the requests. A client that disconnects cancels nothing that others share. */
  private endOf(group: readonly Waiting[]): { signal: AbortSignal; unwatch: () => void } {
    const ending = new AbortController();
    const watch: Swept = {
      check: () => {
        const ended = group.find(isEnded);
        if (ended !== undefined) ending.abort(ended.batch.signal.reason);
      },
    };
    this.sweeper.add(watch);
    return { signal: ending.signal, unwatch: () => this.sweeper.delete(watch) };
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

/** Whether the operator, or the revocation of its token, has ended the request. */
const isEnded = ({ batch }: Waiting): boolean => batch.signal.reason instanceof EngineError;

/** The COPY belongs to the trace of the first traced request; the traces of the others link to it. */
function traceOf(group: readonly Waiting[]): RequestTrace | null {
  const [first, ...others] = group.flatMap(({ batch }) => batch.project.trace ?? []);
  return first === undefined ? null : first.forCopy(others);
}

/** Single instances: a stack trace for each would cost more than the rest of a rejection. */
const TOO_MANY_WAIT = new EngineError('overloaded', 'Too many batches of this project are waiting');
const WAITED_TOO_LONG = new EngineError('overloaded', 'The batch has waited too long for its turn');
