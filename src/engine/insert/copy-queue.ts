/**
 * Batches of the same columns share COPYs: each COPY has a statement and a commit of its own, and COPYs next to each
 * other contend for the end of the table. At most two are under way, so that the second arrives while the first is
 * stored. Batches that arrive meanwhile wait; when one ends, all that wait go together in one COPY, as far as they fit.
 */
import { LRUCache } from 'lru-cache';
import type { EncodedBatch } from '../../codec/index.js';
import { EngineError } from '../../contract/errors.js';
import { type Fragment, ident, join, literal, sql, type Step } from '../../pg/index.js';
import type { Table } from '../catalog/catalog.js';
import { NEVER } from '../limits/deadline.js';
import type { WaitBudget } from '../limits/wait-budget.js';
import { type Swept, Sweeper } from '../limits/sweeper.js';
import type { RequestTrace } from '../database/trace.js';

/** One that is being stored, and one on its way. */
const MAX_UNDER_WAY = 2;

/** Records and bytes of one shared COPY. */
const MAX_RECORDS = 1_000;
const MAX_BYTES = 256 * 1024;

/**
 * Unless all is stored, nothing is: Postgres refused the rows, or the table has another schema than they were encoded
 * for.
 */
export type CopyOutcome = 'stored' | 'refused' | 'outdated';

export interface QueuedBatch {
  readonly rows: EncodedBatch;
  /** Aborted when its client leaves. */
  readonly signal: AbortSignal;
  /** How long it may wait. */
  readonly waitBudget: WaitBudget;
  readonly trace: RequestTrace | null;
}

/** Stores batches in one transaction. */
type Copy = (batches: readonly QueuedBatch[], signal: AbortSignal) => Promise<CopyOutcome>;

/** Batches that go in one COPY. */
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
   * To be called for each batch: the first call sends all of them, the others get its outcome. @throws what `copy`
   * throws
   */
  send(batch: QueuedBatch, copy: Copy): Promise<CopyOutcome> {
    // No client that leaves undoes what others wait for.
    return (this.outcome ??= copy(this.batches, this.isShared ? NEVER : batch.signal).finally(this.hasEnded));
  }
}

interface Waiting extends Swept {
  readonly batch: QueuedBatch;
  /** Its wait is over: it goes, or was refused. */
  readonly leave: () => void;
  readonly resolve: (group: CopyGroup) => void;
}

export class CopyQueue {
  private underWay = 0;
  private waiting: Waiting[] = [];
  private isGathering = false;
  private readonly sweeper = new Sweeper<Waiting>();

  /** @param maxWaiting batches that may wait while as many COPYs as possible are under way */
  constructor(private readonly maxWaiting: number) {}

  /**
   * Stores the batch with those that go at the same time. If Postgres refuses what they share, each goes alone.
   * @throws EngineError overloaded, and what `copy` throws
   */
  async store(batch: QueuedBatch, copy: Copy): Promise<CopyOutcome> {
    const group = await this.join(batch);
    const outcome = await group.send(batch, copy);
    return outcome === 'refused' && group.isShared ? copy([batch], batch.signal) : outcome;
  }

  /**
   * Waits until the batch can be sent.
   * @returns the batches it goes with
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

  /** Whatever else this turn of the event loop reads goes with those that wait. */
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

  /** How many of those that wait fit into one COPY: at least one. */
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

/** One for all: the stack of each would cost more than the rest of a rejection. */
const TOO_MANY_WAIT = new EngineError('overloaded', 'Too many batches to this table are waiting', {
  retryAfter: 1,
});

type CopyFormat = EncodedBatch['format'];

/** What the encoder writes for a default; in a value a backslash is doubled. */
const DEFAULT_MARK = '\\D';

const OPTIONS: Readonly<Record<CopyFormat, Fragment>> = {
  binary: sql`FORMAT binary`,
  text: sql`FORMAT text`,
  marked: sql`FORMAT text, DEFAULT ${literal(DEFAULT_MARK)}`,
};

/** Targets of a table that are kept: each set of columns that batches give is one. */
const MAX_TARGETS = 16;

/** Where COPY puts rows: some columns of a table, in one format. Batches with the same target can share a COPY. */
export class CopyTarget {
  /** The batches on their way here. */
  readonly queue: CopyQueue;

  private constructor(
    private readonly text: string,
    private readonly format: CopyFormat,
    maxWaiting: number,
  ) {
    this.queue = new CopyQueue(maxWaiting);
  }

  /**
   * The targets of a table, by the columns and the format that the encoder gives.
   * @param maxWaiting batches that may wait for each
   */
  static of({ schema, name, columns }: Table, maxWaiting: number): (rows: EncodedBatch) => CopyTarget {
    const known = new LRUCache<string, CopyTarget>({ max: MAX_TARGETS });
    return ({ format, columns: given }) => {
      const key = `${format} ${given.join()}`;
      const found = known.get(key);
      if (found !== undefined) return found;
      const names = join(given.map((index) => ident(columns[index]?.name ?? '')));
      const copy = sql`COPY ${ident(schema, name)} (${names}) FROM STDIN (${OPTIONS[format]})`;
      const target = new CopyTarget(copy.text, format, maxWaiting);
      known.set(key, target);
      return target;
    };
  }

  /** The COPY of batches that were encoded for this target. */
  copy(batches: readonly EncodedBatch[]): Step {
    const data = batches.map((batch) => batch.data);
    return { text: this.text, params: [], data, ...(this.format === 'binary' && { format: this.format }) };
  }
}
