/**
 * How far the streams of an import are, as lines that are only appended. A later process can resume exactly where this
 * one ended (docs/decisions/0026). Each line is saved before any action that depends on it.
 *
 * An import is one stream; it is several if a request had to end early, each under its own key. Records are counted from
 * 0 over all files. What a stream sends is a function of the files and this journal: the records from its first on,
 * without those that were refused.
 */
import type { ImportPlan } from './import-plan.js';

/** Incremented if the lines change, or if records are encoded or streams named differently. */
export const JOURNAL_FORMAT = 7;

export interface ImportHeader {
  /** Random; the idempotency keys contain it. */
  id: string;
  begun: string;
  plan: ImportPlan;
}

/** What an ended stream has stored. */
export interface StreamOutcome {
  inserted: number;
  updated: number;
  ignored: number;
  unchanged: number;
  quarantined: number;
}

/** The records of the files, or by its number a correction, whose records are counted from 0. */
export type Of = number | undefined;

/** `t`: milliseconds since 1970. */
export type JournalLine = { of?: number } & (
  | { part: number; from: number; t: number }
  /** The service has acknowledged so many rows of the stream, and all records before `next`. */
  | { stored: number; next: number; t: number }
  | ({ done: number; next: number } & StreamOutcome)
  /** Records that are in no stream. */
  | { refused: readonly number[] }
);

export interface StreamState {
  /** The number of the newest stream; -1 for none. */
  part: number;
  /** Whether it has no answer yet. */
  isOpen: boolean;
  /** Its first record; if it has an answer, that of the next one. */
  from: number;
  /** What it has stored, as far as is known, and when that was. */
  rows: number;
  next: number;
  t: number;
  refused: Set<number>;
}

const nothing = (): StreamState => {
  return { part: -1, isOpen: false, from: 0, rows: 0, next: 0, t: 0, refused: new Set() };
};

export abstract class Journal<Header extends ImportHeader = ImportHeader> {
  /** Of all streams that have ended, and the refused records. */
  readonly totals = { inserted: 0, updated: 0, ignored: 0, unchanged: 0, refused: 0, quarantined: 0 };
  private readonly states = new Map<Of, StreamState>();

  protected constructor(readonly header: Header) {}

  /** Saves a line, and applies it after that. */
  abstract add(line: JournalLine): void | Promise<void>;

  /** Rows that are stored, as far as is known. */
  get stored(): number {
    return this.totals.inserted + this.totals.updated + this.storedByOpen;
  }

  /** By streams that have no answer yet, which would say how many are new. */
  get storedByOpen(): number {
    return [...this.states.values()].reduce((sum, { isOpen, rows }) => sum + (isOpen ? rows : 0), 0);
  }

  /** Whether anything has been sent. */
  get hasBegun(): boolean {
    return this.states.size > 0;
  }

  stateOf(of: Of): StreamState {
    return this.states.get(of) ?? nothing();
  }

  /** The idempotency key of a stream: unique to this import, and the same in every process that sends it. */
  keyOf(of: Of, part: number): string {
    return `cdp-import-${this.header.id}${of === undefined ? '' : `-${of}`}-${part}`;
  }

  protected apply(line: JournalLine): void {
    const state = this.stateOf(line.of);
    this.states.set(line.of, state);
    if ('part' in line) {
      Object.assign(state, { part: line.part, isOpen: true, from: line.from, rows: 0, next: line.from, t: line.t });
    } else if ('stored' in line) {
      Object.assign(state, { rows: line.stored, next: line.next, t: line.t });
    } else if ('done' in line) {
      for (const each of ['inserted', 'updated', 'ignored', 'unchanged', 'quarantined'] as const)
        this.totals[each] += line[each];
      Object.assign(state, { isOpen: false, from: line.next, next: line.next });
    } else {
      this.totals.refused += line.refused.length;
      for (const number of line.refused) state.refused.add(number);
    }
  }
}
