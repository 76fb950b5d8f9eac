/**
 * Writes of one project that can share transactions, because each costs a statement and a commit, and concurrent ones contend
 * for the end of a table. At most two run at once: one being stored, one in transit. What arrives in the meantime waits; when
 * one ends, those that fit go together in the next. A large one is sent alone and at once, in addition to these two; until it
 * has a connection it counts as waiting.
 */
import type { Counts } from '../../counts.js';
import { EngineError } from '../../contract/errors.js';
import type { Project } from '../../db/project.js';
import type { RequestTrace, ChildSpan } from '../../db/trace.js';
import { endedWhileWaiting } from '../../db/backend-request.js';
import { type Checkable, PeriodicChecks } from '../../db/periodic-checks.js';
import type { WriteEnd } from '../../db/transaction.js';
import type { QueryRunner } from '../../db/query-runner.js';
import type { StoreOutcome } from './store-rows.js';

/** One that is being stored, and one in transit. */
const MAX_UNDER_WAY = 2;

/** Maximum records and bytes in one transaction that is shared. */
const MAX_RECORDS = 1_000;
const MAX_BYTES = 256 * 1024;

/** What a request stores. */
export interface SharedWrite {
  readonly project: Project;
  /** Aborted when its client disconnects, or with the EngineError that ends its request. */
  readonly signal: AbortSignal;
  readonly records: number;
  readonly bytes: number;
}

/** Writes that wait, over all queues. */
export interface WaitingWrites {
  /** By project. */
  readonly counts: Counts;
  /** Maximum of one project, while MAX_UNDER_WAY run. */
  readonly max: number;
}

/** A write in the queue: it waits until it is sent, then for the outcome. */
class QueueEntry<W extends SharedWrite> implements Checkable {
  state: 'waiting' | 'sent' | 'left' = 'waiting';
  readonly outcome: Promise<StoreOutcome>;
  resolve!: (outcome: StoreOutcome) => void;
  private reject!: (error: Error) => void;
  private readonly stopWaiting: () => void;
  private span: ChildSpan | undefined;

  /** @param onLeave called when it no longer waits */
  constructor(
    readonly write: W,
    private readonly onLeave: () => void,
  ) {
    const { waitBudget, trace } = write.project;
    this.outcome = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    this.stopWaiting = waitBudget.start();
    this.span = trace?.startWait();
  }

  /** Call this when its transaction begins to wait for a connection: that has a span of its own. */
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
    const { project, signal } = this.write;
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

export class WriteQueue<W extends SharedWrite> {
  private underWay = 0;
  private waiting: QueueEntry<W>[] = [];
  private isGathering = false;
  private readonly checks = new PeriodicChecks<Checkable>();

  /**
   * @param store stores the writes in one transaction
   * @param isIdempotent storing them again would store nothing twice
   */
  constructor(
    private readonly waitingWrites: WaitingWrites,
    private readonly store: (db: QueryRunner, writes: readonly W[]) => WriteEnd<null, StoreOutcome>,
    private readonly isIdempotent = false,
  ) {}

  /**
   * Stores it, perhaps in one transaction with others.
   * @throws EngineError overloaded, and what `Project.write` throws
   */
  add(write: W): Promise<StoreOutcome> {
    const { counts, max } = this.waitingWrites;
    const { id } = write.project;
    const isLarge = write.bytes > MAX_BYTES / 2;
    const isBusy = !isLarge && this.underWay === MAX_UNDER_WAY;
    if (isBusy && counts.of(id) >= max) return Promise.reject(TOO_MANY_WAIT);
    const entry = new QueueEntry(write, () => {
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

  /** Sends what waits at the end of this turn of the event loop, with what it still reads. */
  private gather(): void {
    if (this.isGathering || this.underWay === MAX_UNDER_WAY) return;
    this.isGathering = true;
    setImmediate(() => {
      this.isGathering = false;
      while (this.underWay < MAX_UNDER_WAY && this.waiting.length > 0) void this.sendGroup();
    });
  }

  /** Sends those that have waited longest. */
  private async sendGroup(): Promise<void> {
    this.underWay++;
    await this.send(this.waiting.splice(0, this.fittingCount()));
    this.underWay--;
    if (this.waiting.length > 0) this.gather();
  }

  /**
   * Stores the writes in one transaction. If Postgres refuses it, each half goes by itself, until the bad one is alone. If one
   * of the requests is ended, the others go again. The signal of one that goes alone is its own, so if its client
   * disconnects or it is ended, nobody waits for another attempt.
   */
  private async send(group: readonly QueueEntry<W>[]): Promise<void> {
    for (const entry of group) entry.endSpan();
    // The transaction waits on the longest budget of its writes; one whose own is used up leaves by itself.
    const { write } = group.reduce((longest, entry) => (budgetOf(entry) > budgetOf(longest) ? entry : longest));
    const shared = group.length > 1 ? this.watchForEnd(group) : null;
    const signal = shared?.signal ?? write.signal;
    let accepted = group;
    const work = (db: QueryRunner): WriteEnd<null, StoreOutcome> => {
      accepted = group.filter(({ state }) => state !== 'left');
      if (accepted.length === 0) return { rollback: [] };
      for (const entry of accepted) entry.markSent();
      return this.store(
        db,
        accepted.map((entry) => entry.write),
      );
    };
    try {
      const options = { signal, trace: traceOf(group), isIdempotent: this.isIdempotent };
      const outcome = await write.project.write<StoreOutcome>(options, work).finally(shared?.unwatch);
      if (outcome === 'refused' && accepted.length > 1) {
        const middle = accepted.length >> 1;
        await this.send(accepted.slice(0, middle));
        await this.send(accepted.slice(middle));
      } else for (const entry of accepted) entry.resolve(outcome);
    } catch (error) {
      const wasEnded = error === signal.reason;
      const others = wasEnded ? accepted.filter((entry) => !wasEndedByService(entry)) : [];
      for (const entry of accepted.filter((entry) => !others.includes(entry)))
        entry.giveUp((wasEnded ? entry.write.signal.reason : error) as Error);
      if (others.length > 0) await this.send(others);
    }
  }

  /**
   * A signal that aborts with the error of the first request that is ended after it was sent. A client that disconnects
   * cancels nothing that others share.
   */
  private watchForEnd(group: readonly QueueEntry<W>[]): { signal: AbortSignal; unwatch: () => void } {
    const ending = new AbortController();
    const watch: Checkable = {
      check: () => {
        const endedEntry = group.find((entry) => entry.state === 'sent' && wasEndedByService(entry));
        if (endedEntry !== undefined) ending.abort(endedEntry.write.signal.reason);
      },
    };
    this.checks.add(watch);
    return { signal: ending.signal, unwatch: () => this.checks.delete(watch) };
  }

  /** The number of waiting ones that fit into one transaction, at least one. */
  private fittingCount(): number {
    let records = 0;
    let bytes = 0;
    const end = this.waiting.findIndex(({ write }, i) => {
      records += write.records;
      bytes += write.bytes;
      return i > 0 && (records > MAX_RECORDS || bytes > MAX_BYTES);
    });
    return end < 0 ? this.waiting.length : end;
  }
}

/** Whether the operator, or the revocation of its token, has ended the request. */
const wasEndedByService = ({ write }: QueueEntry<SharedWrite>): boolean => write.signal.reason instanceof EngineError;

const budgetOf = ({ write }: QueueEntry<SharedWrite>): number => write.project.waitBudget.ms;

/** The transaction belongs to the trace of the first traced request; the traces of the others link to it. */
function traceOf(group: readonly QueueEntry<SharedWrite>[]): RequestTrace | null {
  const [first, ...others] = group.flatMap(({ write }) => write.project.trace ?? []);
  return first === undefined ? null : first.forCopy(others);
}

/** Single instances: a stack trace for each would cost more than the rest of a rejection. */
const TOO_MANY_WAIT = new EngineError('overloaded', 'Too many batches of this project are waiting');
const WAITED_TOO_LONG = new EngineError('overloaded', 'The batch has waited too long for its turn');
