/** The journal of an import as a file of JSON lines. */
import { createHash, randomBytes } from 'node:crypto';
import {
  closeSync,
  fdatasync,
  fdatasyncSync,
  fsyncSync,
  openSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { hasCode, makeFolder } from '../../files.js';
import { type ImportHeader, Journal, JOURNAL_FORMAT, type JournalLine } from '../../import/journal.js';
import type { ImportPlan } from '../../import/import-plan.js';
import { UsageError } from '../exit.js';

const SYNC_EVERY_MS = 1_000;

/** Identifies an import, so that it can be resumed. */
interface Target {
  url: string;
  /** Id of the project. */
  project: string;
  table: string;
  /** Absolute paths. */
  files: string[];
}

interface Header extends ImportHeader {
  target: Target;
}

/** A refusal also has the length of the file of refused records after its own were written. */
type Line = (JournalLine & { bytes?: number }) | { refusedFile: string };

export class JournalFile extends Journal<Header> {
  /** Length of the file of refused records, as of this journal. */
  refusedBytes = 0;
  refusedFile: string | null = null;
  private readonly timer: NodeJS.Timeout | undefined;

  private constructor(
    header: Header,
    private readonly path: string | undefined,
    private fd: number | undefined,
  ) {
    super(header);
    if (fd === undefined) return;
    this.timer = setInterval(() => fdatasync(fd, () => {}), SYNC_EVERY_MS);
    this.timer.unref();
  }

  /** @param folder undefined: no later process can resume this import, and nothing is written */
  static async create(folder: string | undefined, target: Target, plan: ImportPlan): Promise<JournalFile> {
    const header = { id: randomBytes(16).toString('hex'), begun: new Date().toISOString(), target, plan };
    if (folder === undefined) return new JournalFile(header, undefined, undefined);
    await makeFolder(folder, 0o700);
    const path = pathOf(folder, target);
    const fd = openSync(path, 'wx', 0o600);
    writeSync(fd, `${JSON.stringify({ cdp_import: JOURNAL_FORMAT, ...header })}\n`);
    fsyncSync(fd);
    return new JournalFile(header, path, fd);
  }

  /** The journal of an import that did not complete. @throws UsageError if another version of cdp wrote it */
  static find(folder: string, target: Target): JournalFile | undefined {
    const path = pathOf(folder, target);
    let text: string;
    try {
      text = readFileSync(path, 'utf8');
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return undefined;
      throw error;
    }
    // An incomplete line has had no effect yet.
    const complete = text.slice(0, text.lastIndexOf('\n') + 1);
    if (complete === '') {
      rmSync(path);
      return undefined;
    }
    const [first = '', ...lines] = complete.trimEnd().split('\n');
    const { cdp_import: format, ...header } = JSON.parse(first) as Header & { cdp_import?: number };
    if (format !== JOURNAL_FORMAT) {
      throw new UsageError(
        `An interrupted import of these files was started by another version of cdp, in ${path}`,
        'Resume it with that version, or remove the file; rows already stored are kept',
      );
    }
    if (complete.length < text.length) truncateSync(path, Buffer.byteLength(complete));
    const journal = new JournalFile(header, path, openSync(path, 'a', 0o600));
    for (const line of lines) journal.apply(JSON.parse(line) as Line);
    return journal;
  }

  /**
   * Takes records out of the stream.
   * @param bytes length of the file of refused records, which has them
   */
  addRefused(refused: readonly number[], bytes: number): void {
    this.add({ refused, bytes });
  }

  addRefusedFile(path: string): void {
    this.add({ refusedFile: path });
  }

  /** Writes everything to disk. */
  sync(): void {
    if (this.fd !== undefined) fdatasyncSync(this.fd);
  }

  close(): void {
    clearInterval(this.timer);
    this.sync();
    if (this.fd !== undefined) closeSync(this.fd);
    this.fd = undefined;
  }

  /** Call this if the import is complete or abandoned. */
  remove(): void {
    this.close();
    if (this.path !== undefined) rmSync(this.path, { force: true });
  }

  override add(line: Line): void {
    if (this.fd !== undefined) writeSync(this.fd, `${JSON.stringify(line)}\n`);
    this.apply(line);
  }

  protected override apply(line: Line): void {
    if ('refusedFile' in line) {
      this.refusedFile = line.refusedFile;
      return;
    }
    if (line.bytes !== undefined) this.refusedBytes = line.bytes;
    super.apply(line);
  }
}

function pathOf(folder: string, { url, project, table, files }: Target): string {
  const hash = createHash('sha256').update(JSON.stringify([url, project, table, files]));
  return join(folder, `${hash.digest('hex').slice(0, 24)}.ndjson`);
}
