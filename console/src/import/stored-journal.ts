/** The journal of an import in this browser: how far it is, and which records must be corrected. */
import { signal } from '@preact/signals';
import { newKey } from '../../../src/client/insert.js';
import type { ErrorDetail } from '../../../src/contract/errors.js';
import { type ImportHeader, Journal, JOURNAL_FORMAT, type JournalLine, type Of } from '../../../src/import/journal.js';
import type { ImportPlan } from '../../../src/import/import-plan.js';
import { type EncodedRecord, messageIn } from '../../../src/import/refused-lines.js';
import type { RefusedRecord } from '../../../src/import/record-sender.js';
import { currentSession } from '../session.js';
import { addHeader, addLine, allHeaders, readLines, removeLines } from './stored-lines.js';

export interface Header extends ImportHeader {
  readonly format: number;
  /** The project's id. */
  readonly project: string;
  readonly table: string;
}

/** A refused record that the user must correct or discard. */
export interface RefusedRow {
  /** The number of the record, and of the correction that it was in. */
  readonly id: string;
  readonly record: EncodedRecord;
  readonly errors: readonly ErrorDetail[];
}

type Line =
  | (JournalLine & { refusedRows?: readonly RefusedRow[] })
  /** Refused records are sent again, as a stream of their own. */
  | { corrected: number; ids: readonly string[]; records: readonly EncodedRecord[] }
  | { isCorrected: number }
  | { discarded: readonly string[] }
  /** All records of the file are sent. */
  | { atEnd: true };

export class StoredJournal extends Journal<Header> {
  readonly refused = new Map<string, RefusedRow>();
  /** Changes when the fields above do. */
  readonly changes = signal(0);
  /** Total characters of the refused records. */
  refusedCharacters = 0;
  isAtEnd = false;
  /** The records of each correction that is not done. */
  private readonly corrections = new Map<number, readonly EncodedRecord[]>();
  private nextCorrection = 0;
  private lineCount = 0;

  private constructor(
    header: Header,
    /** Whether this browser has saved the journal, so that the import can be resumed. */
    readonly isKept: boolean,
  ) {
    super(header);
  }

  static async create(table: string, plan: ImportPlan): Promise<StoredJournal> {
    const begun = new Date().toISOString();
    const project = currentSession().project?.id ?? '';
    const header = { id: newKey(), format: JOURNAL_FORMAT, begun, project, table, plan };
    const isKept = await addHeader(header).then(
      () => true,
      () => false,
    );
    return new StoredJournal(header, isKept);
  }

  /** The unfinished journals of this project, the newest first. */
  static async unfinished(): Promise<StoredJournal[]> {
    const project = currentSession().project?.id ?? '';
    const own = (await allHeaders<Header>()).filter(
      (header) => header.project === project && header.format === JOURNAL_FORMAT,
    );
    own.sort((a, b) => (a.begun < b.begun ? 1 : -1));
    return Promise.all(
      own.map(async (header) => {
        const journal = new StoredJournal(header, true);
        const lines = await readLines<Line>(header.id);
        for (const line of lines) journal.apply(line);
        journal.lineCount = lines.length;
        return journal;
      }),
    );
  }

  /** Whether nothing is left to send or to correct. */
  get isFinished(): boolean {
    return this.isAtEnd && this.refused.size === 0 && this.corrections.size === 0;
  }

  /** Corrections that may not have arrived. */
  get openCorrections(): readonly (readonly [number, readonly EncodedRecord[]])[] {
    return [...this.corrections];
  }

  async addRefused(of: Of, refused: readonly RefusedRecord[]): Promise<void> {
    const refusedRows = refused.map(({ number, record, errors }) => ({
      id: of === undefined ? String(number) : `${of}.${number}`,
      record,
      errors: errors.map((place) => ({ ...place, message: messageIn(place) })),
    }));
    const numbers = refused.map(({ number }) => number);
    await this.add({ refused: numbers, refusedRows, ...(of === undefined ? {} : { of }) });
  }

  /**
   * Call this before the records are sent.
   * @returns the number of the correction
   */
  async addCorrection(ids: readonly string[], records: readonly EncodedRecord[]): Promise<number> {
    const number = this.nextCorrection++;
    await this.add({ corrected: number, ids, records });
    return number;
  }

  addDiscarded = (ids: readonly string[]): Promise<void> => this.add({ discarded: ids });

  addEnd = (): Promise<void> => this.add({ atEnd: true });

  /** All records of a correction are stored or refused again. */
  addCorrected = (number: number): Promise<void> => this.add({ isCorrected: number });

  async remove(): Promise<void> {
    if (this.isKept) await removeLines(this.header.id);
  }

  override async add(line: Line): Promise<void> {
    const number = this.lineCount++;
    if (this.isKept) await addLine(this.header.id, number, line);
    this.apply(line);
  }

  protected override apply(line: Line): void {
    if ('corrected' in line) {
      this.drop(line.ids);
      this.corrections.set(line.corrected, line.records);
      this.nextCorrection = Math.max(this.nextCorrection, line.corrected + 1);
    } else if ('isCorrected' in line) {
      this.corrections.delete(line.isCorrected);
    } else if ('discarded' in line) {
      this.drop(line.discarded);
    } else if ('atEnd' in line) {
      this.isAtEnd = true;
    } else {
      for (const row of line.refusedRows ?? []) this.keep(row);
      super.apply(line);
    }
    this.changes.value++;
  }

  private keep(row: RefusedRow): void {
    this.refused.set(row.id, row);
    this.refusedCharacters += row.record.json.length;
  }

  private drop(ids: readonly string[]): void {
    for (const id of ids) {
      this.refusedCharacters -= this.refused.get(id)?.record.json.length ?? 0;
      this.refused.delete(id);
    }
  }
}
