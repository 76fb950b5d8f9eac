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
  state: 'waiting' | 'sent' | 'refused';
  /** Its group waits for a connection, which is a span of its own. */
  readonly endSpan: (error?: Error) => void;
  /** The wait is over: the batch is sent. */
  readonly send: () => void;
  readonly resolve: (outcome: Outcome) => void;
  readonly refuse: (error: Error) => void;
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
    const waited = project.waitBudget.start();
    let span = project.trace?.startWait();
    return new Promise((resolve, reject) => {
      const leave = (state: 'sent' | 'refused') => {
        if (entry.state !== 'waiting') return;
        entry.state = state;
        waited();
        counts.add(project.id, -1);
        this.sweeper.delete(entry);
      };
      const entry: Waiting = {
        batch,
        state: 'waiting',
        endSpan: (error) => {
          span?.end(error);
          span = undefined;
        },
        send: () => leave('sent'),
        resolve,
        refuse: (error) => {
          entry.endSpan(error);
          leave('refused');
          reject(error);
        },
        check: () => {
          if (!signal.aborted && project.waitBudget.ms > 0) return;
          this.waiting = this.waiting.filter((other) => other !== entry);
          entry.refuse(signal.aborted ? endedWhileWaiting(signal) : WAITED_TOO_LONG);
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
    for (const { endSpan } of group) endSpan();
    const { batch } = group.reduce((longest, entry) => (budgetOf(entry) > budgetOf(longest) ? entry : longest));
    const shared = group.length > 1 ? this.endOf(group) : null;
    const signal = shared?.signal ?? batch.signal;
    const use: CopyUse = { connection: 'typed', deadline: typedDeadline(signal), trace: traceOf(group) };
    let sent = group;
    const copy: Work<Outcome> = async (lease) => {
      sent = group.filter(({ state }) => state !== 'refused');
      if (sent.length === 0) return [];
      for (const entry of sent) entry.send();
      const step = this.stepOf(sent.map(({ batch }) => batch.rows));
      return storeAndCheck(lease, this.table, step, 'alone');
    };
    try {
      const outcome = await batch.project.use(use, copy).finally(shared?.unwatch);
      if (outcome === 'refused' && sent.length > 1) {
        await this.send(sent.slice(0, sent.length / 2));
        await this.send(sent.slice(sent.length / 2));
      } else for (const { resolve } of sent) resolve(outcome);
    } catch (error) {
      const isEnd = error === signal.reason;
      const others = isEnd ? sent.filter((entry) => !isEnded(entry)) : [];
      for (const entry of sent.filter((entry) => !others.includes(entry)))
        entry.refuse((isEnd ? entry.batch.signal.reason : error) as Error);
      if (others.length > 0) await this.send(others);
    }
  }

  /**
   * Aborted with the error that ends one of the requests, once it is sent. A client that disconnects cancels nothing that
   * others share.
   */
  private endOf(group: readonly Waiting[]): { signal: AbortSignal; unwatch: () => void } {
    const ending = new AbortController();
    const watch: Swept = {
      check: () => {
        const ended = group.find((entry) => entry.state === 'sent' && isEnded(entry));
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

const budgetOf = ({ batch }: Waiting): number => batch.project.waitBudget.ms;

/** The COPY belongs to the trace of the first traced request; the traces of the others link to it. */
function traceOf(group: readonly Waiting[]): RequestTrace | null {
  const [first, ...others] = group.flatMap(({ batch }) => batch.project.trace ?? []);
  return first === undefined ? null : first.forCopy(others);
}

/** Single instances: a stack trace for each would cost more than the rest of a rejection. */
const TOO_MANY_WAIT = new EngineError('overloaded', 'Too many batches of this project are waiting');
const WAITED_TOO_LONG = new EngineError('overloaded', 'The batch has waited too long for its turn');
