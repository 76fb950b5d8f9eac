/**
 * Batches with the same columns share COPYs, because every COPY costs a statement and a commit, and concurrent COPYs
 * contend for the end of the table. At most two COPYs run at once: one being stored, one in transit. Batches that
 * arrive in the meantime wait; when a COPY ends, those that fit go together in the next. A large batch is sent alone
 * and at once, in addition to these two; until it has a connection it counts as waiting.
 */
import type { EncodedBatch } from '../../codec/index.js';
import type { Counts } from '../../counts.js';
import { EngineError } from '../../contract/errors.js';
import { type Fragment, ident, join, literal, sql, type Statement, type Step } from '../../pg/index.js';
import type { Table } from '../catalog/catalog.js';
import type { Project } from '../../db/project.js';
import type { RequestTrace, ChildSpan } from '../../db/trace.js';
import { endedWhileWaiting } from '../../db/backend-request.js';
import { type Checkable, PeriodicChecks } from '../../db/periodic-checks.js';
import type { WriteEnd } from '../../db/transaction.js';
import type { QueryRunner } from '../../db/query-runner.js';
import { resetIfCodeRuns, endByStoring, type StoreOutcome } from './store-rows.js';

/** One that is being stored, and one in transit. */
const MAX_UNDER_WAY = 2;

/** Maximum records and bytes in one shared COPY. */
const MAX_RECORDS = 1_000;
const MAX_BYTES = 256 * 1024;

/** The encoder's mark for a default; in a value, a backslash is doubled. */
const DEFAULT_MARK = '\\D';

const COPY_OPTIONS: Readonly<Record<EncodedBatch['format'], Fragment>> = {
  binary: sql`FORMAT binary`,
  text: sql`FORMAT text`,
  marked: sql`FORMAT text, DEFAULT ${literal(DEFAULT_MARK)}`,
};

interface QueuedBatch {
  readonly encoded: EncodedBatch;
  readonly project: Project;
  /** Aborted when its client disconnects, or with the EngineError that ends its request. */
  readonly signal: AbortSignal;
}

export interface TableWithCheck {
  readonly table: Table;
  /** Confirms the schema if it runs after the rows were stored. */
  readonly check: Statement;
}

/** Batches that wait, over all queues. */
export interface WaitingBatches {
  /** By project. */
  readonly counts: Counts;
  /** Maximum of one project, while MAX_UNDER_WAY COPYs run. */
  readonly max: number;
}

/** A batch in the queue: it waits until its COPY is sent, then for the outcome. */
class QueueEntry implements Checkable {
  state: 'waiting' | 'sent' | 'left' = 'waiting';
  readonly outcome: Promise<StoreOutcome>;
  resolve!: (outcome: StoreOutcome) => void;
  private reject!: (error: Error) => void;
  private readonly stopWaiting: () => void;
  private span: ChildSpan | undefined;

  /** @param onLeave called when it no longer waits */
  constructor(
    readonly batch: QueuedBatch,
    private readonly onLeave: () => void,
  ) {
    const { waitBudget, trace } = batch.project;
    this.outcome = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    this.stopWaiting = waitBudget.start();
    this.span = trace?.startWait();
  }

  /** Call this when its COPY begins to wait for a connection: that has a span of its own. */
  endSpan(error?: Error): void {
    this.span?.end(error);
    this.span = undefined;
  }

  markSent(): void {
    this.leave('sent');
  }

  giveUp(error: Error): void {
    this.endSpan(error);
    this.leave('left');
    this.reject(error);
  }

  check(): void {
    const { project, signal } = this.batch;
    if (signal.aborted) this.giveUp(endedWhileWaiting(signal));
    else if (project.waitBudget.ms === 0) this.giveUp(WAITED_TOO_LONG);
  }

  private leave(state: 'sent' | 'left'): void {
    if (this.state !== 'waiting') return;
    this.state = state;
    this.stopWaiting();
    this.onLeave();
  }
}

export class CopyQueue {
  /** The COPY, without data. */
  private readonly copy: Step;
  private underWay = 0;
  private waiting: QueueEntry[] = [];
  private isGathering = false;
  private readonly checks = new PeriodicChecks<Checkable>();

  /** @param encoded a batch; the queue takes batches with the same columns and format */
  constructor(
    private readonly table: TableWithCheck,
    { format, columns }: EncodedBatch,
    private readonly waitingBatches: WaitingBatches,
  ) {
    const { schema, name, columns: all } = table.table;
    const names = join(columns.map((index) => ident(all[index]?.name ?? '')));
    const { text } = sql`COPY ${ident(schema, name)} (${names}) FROM STDIN (${COPY_OPTIONS[format]})`;
    this.copy = { text, params: [], ...(format === 'binary' && { format }) };
  }

  copyOf(batches: readonly EncodedBatch[]): Step {
    return { ...this.copy, data: batches.map(({ data }) => data) };
  }

  /**
   * Stores the batch, perhaps in one COPY with others.
   * @throws EngineError overloaded, and what `Project.write` throws
   */
  store(batch: QueuedBatch): Promise<StoreOutcome> {
    const { counts, max } = this.waitingBatches;
    const { id } = batch.project;
    const isLarge = batch.encoded.data.length > MAX_BYTES / 2;
    const isBusy = !isLarge && this.underWay === MAX_UNDER_WAY;
    if (isBusy && counts.of(id) >= max) return Promise.reject(TOO_MANY_WAIT);
    const entry = new QueueEntry(batch, () => {
      counts.add(id, -1);
      this.checks.delete(entry);
      if (entry.state === 'left') this.waiting = this.waiting.filter((other) => other !== entry);
    });
    counts.add(id, 1);
    this.checks.add(entry);
    if (isLarge) void this.send([entry]);
    else {
      this.waiting.push(entry);
      this.gather();
    }
    return entry.outcome;
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
    await this.send(this.waiting.splice(0, this.fittingCount()));
    this.underWay--;
    if (this.waiting.length > 0) this.gather();
  }

  /**
   * Stores the batches in one COPY. If Postgres refuses it, each half goes by itself, until the bad batch is alone. If one
   * of the requests is ended, the others go again. The signal of a batch that goes alone is its own, so if its client
   * disconnects or it is ended, nobody waits for another attempt.
   */
  private async send(group: readonly QueueEntry[]): Promise<void> {
    for (const entry of group) entry.endSpan();
    // The COPY waits on the longest budget of its batches; one whose own is used up leaves by itself.
    const { batch } = group.reduce((longest, entry) => (budgetOf(entry) > budgetOf(longest) ? entry : longest));
    const shared = group.length > 1 ? this.watchForEnd(group) : null;
    const signal = shared?.signal ?? batch.signal;
    let accepted = group;
    const copy = (db: QueryRunner): WriteEnd<null, StoreOutcome> => {
      accepted = group.filter(({ state }) => state !== 'left');
      if (accepted.length === 0) return { rollback: [] };
      for (const entry of accepted) entry.markSent();
      const { table, check } = this.table;
      resetIfCodeRuns(db, table, false);
      const batches = accepted.map(({ batch }) => batch.encoded);
      return endByStoring(this.copyOf(batches), check, { response: null, resultOf: (results) => results });
    };
    try {
      const options = { signal, trace: traceOf(group) };
      const outcome = await batch.project.write<StoreOutcome>(options, copy).finally(shared?.unwatch);
      if (outcome === 'refused' && accepted.length > 1) {
        const middle = accepted.length >> 1;
        await this.send(accepted.slice(0, middle));
        await this.send(accepted.slice(middle));
      } else for (const entry of accepted) entry.resolve(outcome);
    } catch (error) {
      const wasEnded = error === signal.reason;
      const others = wasEnded ? accepted.filter((entry) => !wasEndedByService(entry)) : [];
      for (const entry of accepted.filter((entry) => !others.includes(entry)))
        entry.giveUp((wasEnded ? entry.batch.signal.reason : error) as Error);
      if (others.length > 0) await this.send(others);
    }
  }

  /**
   * A signal that aborts with the error of the first request that is ended after it was sent. A client that disconnects
   * cancels nothing that others share.
   */
  private watchForEnd(group: readonly QueueEntry[]): { signal: AbortSignal; unwatch: () => void } {
    const ending = new AbortController();
    const watch: Checkable = {
      check: () => {
        const endedEntry = group.find((entry) => entry.state === 'sent' && wasEndedByService(entry));
        if (endedEntry !== undefined) ending.abort(endedEntry.batch.signal.reason);
      },
    };
    this.checks.add(watch);
    return { signal: ending.signal, unwatch: () => this.checks.delete(watch) };
  }

  /** The number of waiting batches that fit into one COPY, at least one. */
  private fittingCount(): number {
    let records = 0;
    let bytes = 0;
    const end = this.waiting.findIndex(({ batch: { encoded } }, i) => {
      records += encoded.recordCount;
      bytes += encoded.data.length;
      return i > 0 && (records > MAX_RECORDS || bytes > MAX_BYTES);
    });
    return end < 0 ? this.waiting.length : end;
  }
}

/** Whether the operator, or the revocation of its token, has ended the request. */
const wasEndedByService = ({ batch }: QueueEntry): boolean => batch.signal.reason instanceof EngineError;

const budgetOf = ({ batch }: QueueEntry): number => batch.project.waitBudget.ms;

/** The COPY belongs to the trace of the first traced request; the traces of the others link to it. */
function traceOf(group: readonly QueueEntry[]): RequestTrace | null {
  const [first, ...others] = group.flatMap(({ batch }) => batch.project.trace ?? []);
  return first === undefined ? null : first.forCopy(others);
}

/** Single instances: a stack trace for each would cost more than the rest of a rejection. */
const TOO_MANY_WAIT = new EngineError('overloaded', 'Too many batches of this project are waiting');
const WAITED_TOO_LONG = new EngineError('overloaded', 'The batch has waited too long for its turn');
