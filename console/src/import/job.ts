/** A running import. It continues while other screens are shown, and can be paused, resumed and corrected. */
import { signal } from '@preact/signals';
import { CdpClient } from '../../../src/client/index.js';
import { FileError } from '../../../src/import/file-error.js';
import type { EncodedRecord } from '../../../src/import/refused-lines.js';
import { type NumberedRecord, RecordReader, requireUnchanged } from '../../../src/import/record-reader.js';
import { InDoubtError, RecordSender } from '../../../src/import/record-sender.js';
import type { ImportFile } from '../../../src/import/source.js';
import { currentSession, watchedFetch } from '../session.js';
import { Corrections } from './corrections.js';
import type { StoredJournal } from './stored-journal.js';

/**
 * `waiting`: needs its file, to which the browser lost access when the tab was closed. `correcting`: everything has
 * been sent, and refused records remain.
 */
export type JobState = 'waiting' | 'running' | 'pausing' | 'paused' | 'failed' | 'correcting' | 'done';

/**
 * With more refused records the import pauses, because the user should look at them first. This also limits its memory.
 */
const REFUSED = { records: 10_000, characters: 16 * 1024 * 1024 };

export class ImportJob {
  readonly state = signal<JobState>('waiting');
  readonly error = signal<unknown>(null);
  /** The part of the file that has been read, from 0 to 1. */
  readonly share = signal(0);
  /** Whether corrected records are being sent. */
  readonly isSending = signal(false);
  readonly corrections: Corrections;
  private file: ImportFile | undefined;
  private stop = new AbortController();
  private readonly abort = new AbortController();
  private readonly client = new CdpClient({
    url: location.origin,
    token: currentSession().token,
    fetch: watchedFetch(currentSession().token),
  });
  private readonly sender: RecordSender;

  constructor(readonly journal: StoredJournal) {
    const { table, plan } = journal.header;
    this.corrections = new Corrections(journal);
    this.sender = new RecordSender(journal, {
      client: this.client,
      table,
      storing: plan.storing,
      signal: this.abort.signal,
      onRefused: async (of, refused) => {
        await journal.addRefused(of, refused);
        if (this.isFull) this.pause();
      },
    });
    if (journal.isAtEnd) this.state.value = this.stateAtEnd();
  }

  /** Whether the import waits for the user because too many records were refused. */
  get isFull(): boolean {
    return this.journal.refused.size >= REFUSED.records || this.journal.refusedCharacters >= REFUSED.characters;
  }

  get fileName(): string {
    return this.journal.header.plan.files[0]?.path ?? '';
  }

  /** @throws FileError if the import was started with another file */
  requireFile(file: ImportFile): Promise<void> {
    return requireUnchanged(file, this.journal.header.plan.files[0]?.identity ?? null);
  }

  /** Sends everything that is not done in the journal. Ends when all is sent, or the import is paused or fails. */
  async run(file = this.file): Promise<void> {
    if (this.state.value === 'running') return;
    const { journal } = this;
    this.file = file;
    this.state.value = 'running';
    this.error.value = null;
    try {
      for (const [number, records] of journal.openCorrections) await this.send(number, records);
      if (journal.isAtEnd) await this.end();
      else if (file === undefined) this.state.value = 'waiting';
      else await this.sendFile(file);
    } catch (error) {
      this.fail(error);
    }
  }

  private async sendFile(file: ImportFile): Promise<void> {
    this.stop = new AbortController();
    const reader = new RecordReader(this.journal.header.plan, [file]);
    const watch = setInterval(() => this.show(reader), 200);
    try {
      const isComplete = await this.sender.send(undefined, (from) => reader.groups(from), this.stop.signal);
      if (isComplete) await this.end();
      else this.state.value = 'paused';
    } finally {
      clearInterval(watch);
      this.show(reader);
      reader.close();
    }
  }

  /** Waits for what was sent. */
  pause(): void {
    if (this.state.value === 'running') this.state.value = 'pausing';
    this.stop.abort();
  }

  /** Sends refused records again in their corrected form. */
  async sendAgain(ids: readonly string[], records: readonly EncodedRecord[]): Promise<void> {
    this.isSending.value = true;
    try {
      const number = await this.journal.addCorrection(ids, records);
      await this.send(number, records);
      if (this.journal.isAtEnd) await this.end();
    } catch (error) {
      this.pause();
      this.fail(error);
    } finally {
      this.corrections.forget(ids.filter((id) => !this.journal.refused.has(id)));
      this.isSending.value = false;
    }
  }

  async discard(ids: readonly string[]): Promise<void> {
    await this.journal.addDiscarded(ids);
    if (this.journal.isAtEnd) await this.end();
  }

  /** Ends the import at once. What was sent may still be stored, and the journal stays. */
  leave(): void {
    this.stop.abort();
    this.abort.abort();
  }

  /** Sends a correction. */
  private async send(number: number, records: readonly EncodedRecord[]): Promise<void> {
    const { fileName } = this;
    await this.sender.send(number, async function* (from): AsyncGenerator<NumberedRecord[], void> {
      const all = records.map((record, index) => ({ index, record, json: record.json, end: 0, file: fileName }));
      yield Promise.resolve(all.slice(from));
    });
    await this.journal.addCorrected(number);
  }

  private async end(): Promise<void> {
    const { journal } = this;
    if (!journal.isAtEnd) await journal.addEnd();
    this.state.value = this.stateAtEnd();
    if (journal.isFinished) await journal.remove();
  }

  private stateAtEnd(): JobState {
    return this.journal.isFinished ? 'done' : 'correcting';
  }

  private fail(error: unknown): void {
    if (this.abort.signal.aborted) return;
    const isOtherTab = error instanceof DOMException && error.name === 'ConstraintError';
    this.error.value = isOtherTab
      ? new FileError('This import is being continued in another tab')
      : error instanceof InDoubtError
        ? new FileError(error.message, 'Check which rows the table has, discard this import, and import the others')
        : error;
    this.state.value = 'failed';
  }

  private show(reader: RecordReader): void {
    // After a pause, the file is read again from its beginning.
    this.share.value = Math.max(this.share.value, reader.share ?? 0);
  }
}
