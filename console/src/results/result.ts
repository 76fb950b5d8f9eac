/** The rows of a statement as they arrive. Holds rows up to a limit and counts the rest. */
import { type ReadonlySignal, signal } from '@preact/signals';
import type { Cell } from './cells.js';
import { cellsOf } from '../../../src/import/json-records.js';

export interface ResultColumn {
  readonly name: string;
  readonly type: string;
}

/** Maximum number of rows, and of characters of JSON text, held for the grid. */
export const HELD = { rows: 100_000, characters: 64 * 1024 * 1024 } as const;

/** Maximum number of characters held for all tabs. Above this, the oldest results release their rows. */
export const HELD_IN_ALL = 160 * 1024 * 1024;

/** Results that hold rows, the oldest first. */
const holding = new Set<Result>();
let heldInAll = 0;

/** Rows as a grid shows them. */
export interface HeldRows {
  readonly columns: readonly ResultColumn[];
  readonly rowCount: ReadonlySignal<number>;
  readonly isComplete: ReadonlySignal<boolean>;
  readonly held: number;
  cells(row: number): Cell[];
}

export class Result implements HeldRows {
  readonly columns: readonly ResultColumn[];
  /** Postgres's command tag; known after the statement has ended. */
  readonly type = signal('');
  /** The number of rows that have arrived, held or not; for a statement without rows, the number of affected ones. */
  readonly rowCount = signal(0);
  /** Whether the service has left out rows beyond its limits. */
  readonly isTruncated = signal(false);
  readonly isComplete = signal(false);
  /** Whether no more rows will arrive, even if the statement was stopped or failed. */
  readonly isEnded = signal(false);
  /** Whether its rows were released. */
  readonly isReleased = signal(false);
  #lines: string[] = [];
  #characters = 0;
  #seen = 0;
  #isScheduled = false;

  constructor(columns: readonly ResultColumn[]) {
    this.columns = columns;
  }

  /** @param line a row as the JSON text of an array */
  take(line: string): void {
    this.#seen++;
    if (!this.#isFull) {
      this.#lines.push(line);
      this.#characters += line.length;
      holding.add(this);
      heldInAll += line.length;
      if (heldInAll > HELD_IN_ALL) makeRoom(this);
    }
    // Only once per frame, for any number of rows.
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setTimeout(() => {
      this.#isScheduled = false;
      if (!this.isComplete.value) this.rowCount.value = this.#seen;
    }, 50);
  }

  end(type: string, rowCount: number, isTruncated = false): void {
    this.type.value = type;
    this.isTruncated.value = isTruncated;
    this.isComplete.value = true;
    this.isEnded.value = true;
    this.rowCount.value = rowCount;
  }

  /** Call this if the statement ends early. Rows that have arrived stay. */
  breakOff(): void {
    this.isEnded.value = true;
    this.rowCount.value = this.#seen;
  }

  /** Releases the rows. Call this when they are no longer shown. */
  release(): void {
    this.isReleased.value = true;
    this.#lines = [];
    heldInAll -= this.#characters;
    this.#characters = 0;
    holding.delete(this);
  }

  get held(): number {
    return this.#lines.length;
  }

  cells(row: number): Cell[] {
    return cellsOf(this.#lines[row] ?? '[]');
  }

  get #isFull(): boolean {
    return this.isReleased.peek() || this.#lines.length >= HELD.rows || this.#characters >= HELD.characters;
  }
}

function makeRoom(newest: Result): void {
  for (const result of holding) {
    if (heldInAll <= HELD_IN_ALL) return;
    if (result !== newest) result.release();
  }
}
