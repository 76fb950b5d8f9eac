/**
 * The state of each batch of an import, as lines that are only appended. A later process can resume exactly where this
 * one ended (docs/decisions/0026). Each line is saved before any action that depends on it.
 */
import { LIMITS } from '../contract/limits.js';
import type { ImportPlan } from './import-plan.js';

/** Incremented if the lines change, or if batches are divided, encoded or named differently. */
export const JOURNAL_FORMAT = 5;

/** Shorter than the time for which the service keeps keys, to allow for clock differences and retries. */
const KEYS_VALID_MS = (LIMITS.idempotencyHours - 1) * 3_600_000;

export interface ImportHeader {
  /** Random; the idempotency keys contain it. */
  id: string;
  begun: string;
  plan: ImportPlan;
}

/** The records of one request: a batch, or after a refusal a part of it. */
export interface Part {
  /** Unique within the batch; 0 is the whole batch. */
  id: number;
  /** Positions in the batch; null for all. */
  positions: readonly number[] | null;
}

/** A batch that was split. */
interface SplitBatch {
  nextId: number;
  parts: readonly Part[];
}

const UNSPLIT: SplitBatch = { nextId: 1, parts: [{ id: 0, positions: null }] };

/** The outcome of a part. */
export interface PartOutcome {
  inserted: number;
  updated: number;
  ignored: number;
  quarantined: number;
}

export type JournalLine =
  | { sent: number; t: number }
  | ({ done: number; part: number } & PartOutcome)
  | { split: number; part: number; into: number[][]; refused: number };

export abstract class Journal<Header extends ImportHeader = ImportHeader> {
  readonly totals = { inserted: 0, updated: 0, ignored: 0, refused: 0, quarantined: 0 };
  /** All batches below this one are done. */
  private doneBelow = 0;
  private readonly done = new Set<number>();
  private readonly split = new Map<number, SplitBatch>();
  /** When each batch that is not done was first sent. */
  private readonly sentAt = new Map<number, number>();

  protected constructor(readonly header: Header) {}

  /** Saves a line, and applies it after that. */
  protected abstract add(line: JournalLine): void | Promise<void>;

  /** Batches that may be stored although the service has forgotten their keys: sent a day ago and never answered. */
  get batchesWithExpiredKeys(): { batch: number; sentAt: number }[] {
    const sent = [...this.sentAt].map(([batch, sentAt]) => ({ batch, sentAt }));
    return sent.filter(({ sentAt }) => Date.now() - sentAt > KEYS_VALID_MS);
  }

  get stored(): number {
    return this.totals.inserted + this.totals.updated;
  }

  /** Whether a batch has been sent. */
  get hasBegun(): boolean {
    return this.sentAt.size > 0 || this.doneBelow > 0 || this.done.size > 0;
  }

  isDone(batch: number): boolean {
    return batch < this.doneBelow || this.done.has(batch);
  }

  isSplit(batch: number): boolean {
    return this.split.has(batch);
  }

  /** The parts of a batch that are not done, in order. */
  partsOf(batch: number): readonly Part[] {
    return this.isDone(batch) ? [] : (this.split.get(batch) ?? UNSPLIT).parts;
  }

  /** The idempotency key: unique to this import, batch and part, and the same in every process that sends it. */
  keyOf(batch: number, { id }: Part): string {
    return `cdp-import-${this.header.id}-${batch}-${id}`;
  }

  /** Call this before sending the batch. */
  async addSent(batch: number): Promise<void> {
    if (!this.sentAt.has(batch)) await this.add({ sent: batch, t: Date.now() });
  }

  async addDone(batch: number, { id }: Part, stored: PartOutcome): Promise<void> {
    await this.add({ done: batch, part: id, ...stored });
  }

  protected apply(line: JournalLine): void {
    if ('sent' in line) {
      this.sentAt.set(line.sent, line.t);
    } else if ('done' in line) {
      for (const each of ['inserted', 'updated', 'ignored', 'quarantined'] as const) this.totals[each] += line[each];
      this.replacePart(line.done, line.part, []);
    } else {
      this.totals.refused += line.refused;
      this.replacePart(line.split, line.part, line.into);
    }
  }

  private replacePart(batch: number, part: number, into: readonly number[][]): void {
    const { nextId, parts } = this.split.get(batch) ?? UNSPLIT;
    const left = [
      ...into.map((positions, i) => ({ id: nextId + i, positions })),
      ...parts.filter(({ id }) => id !== part),
    ];
    if (left.length > 0) {
      this.split.set(batch, { nextId: nextId + into.length, parts: left });
      return;
    }
    this.split.delete(batch);
    this.sentAt.delete(batch);
    this.done.add(batch);
    while (this.done.delete(this.doneBelow)) this.doneBelow++;
  }
}
