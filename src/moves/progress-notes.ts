/** Notes the progress of a running move. */
import type { CopyProgress } from './copy.js';
import { beingUndone, type MoveRows } from './move-rows.js';

const NOTE_EVERY_MS = 1_000;

/** Stores the progress every second, and finds out whether the move is being undone. */
export class ProgressNotes {
  private readonly undoing = new AbortController();
  /** Aborted once the move is found to be undone. */
  readonly undoSignal: AbortSignal = this.undoing.signal;
  private readonly tables = new Map<string, { rows: number; bytes: number }>();
  private timer: NodeJS.Timeout | undefined;
  private writing: Promise<void> = Promise.resolve();

  constructor(
    private readonly moveRows: MoveRows,
    private readonly id: string,
  ) {}

  begin(): void {
    this.timer = setInterval(() => void this.write(), NOTE_EVERY_MS);
  }

  take({ table, rows, bytes }: CopyProgress): void {
    this.tables.set(table, { rows, bytes });
  }

  async end(): Promise<void> {
    clearInterval(this.timer);
    await this.write();
  }

  private write(): Promise<void> {
    const sum = (key: 'rows' | 'bytes') => [...this.tables.values()].reduce((total, table) => total + table[key], 0);
    this.writing = this.writing
      .then(() => this.moveRows.note(this.id, { rows: sum('rows'), bytes: sum('bytes') }))
      .then((goesOn) => {
        if (!goesOn) this.undoing.abort(beingUndone());
      })
      // The control database may be unavailable for a moment; if it stays so, the next step fails.
      .catch(() => {});
    return this.writing;
  }
}
