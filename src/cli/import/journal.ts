/**
 * What has become of each batch of an import: a file of JSON lines that is only appended to, so that a later process can
 * resume exactly where this one ended (docs/decisions/0026). A line is written before anything that follows from it is done.
 */
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
import { LIMITS } from '../../contract/limits.js';
import { makeFolder } from '../../files.js';
import { UsageError } from '../exit.js';
import type { ImportPlan } from './plan.js';

/** Changes with the lines of the journal, and with the way in which batches are cut, encoded or named. */
const FORMAT = 3;
const SYNC_EVERY_MS = 1_000;
/** Shorter than the service keeps keys, to allow for differing clocks and for retries. */
const KEYS_VALID_MS = (LIMITS.idempotencyHours - 1) * 3_600_000;

/** Identifies an import, so that it can be found again. */
export interface Target {
  url: string;
  /** Id of the project. */
  project: string;
  table: string;
  /** Absolute paths. */
  files: string[];
}

interface Header {
  /** Random; the idempotency keys begin with it. */
  id: string;
  begun: string;
  target: Target;
  plan: ImportPlan;
}

/** What is sent in one request: a batch, or after it was refused, a part of it. */
export interface Part {
  /** Within the batch; 0 is the whole batch. */
  id: number;
  /** Positions in the batch; null for all. */
  positions: readonly number[] | null;
}

/** A batch that has been split. */
interface OpenBatch {
  nextId: number;
  parts: readonly Part[];
}

const UNSPLIT: OpenBatch = { nextId: 1, parts: [{ id: 0, positions: null }] };

type Line =
  | { sent: number; t: number }
  | { done: number; part: number; rows: number }
  | { split: number; part: number; into: number[][]; refused: number; bytes: number }
  | { refusedFile: string };

export class Journal {
  readonly totals = { inserted: 0, refused: 0 };
  /** Length of the file of refused records, as far as it belongs to this journal. */
  refusedBytes = 0;
  refusedFile: string | null = null;
  /** Every batch below this one is done. */
  private doneBelow = 0;
  private readonly done = new Set<number>();
  private readonly split = new Map<number, OpenBatch>();
  /** When each batch that is not done was first sent. */
  private readonly sentAt = new Map<number, number>();
  private readonly timer: NodeJS.Timeout | undefined;

  private constructor(
    readonly header: Header,
    private readonly path: string | undefined,
    private fd: number | undefined,
  ) {
    if (fd === undefined) return;
    this.timer = setInterval(() => fdatasync(fd, () => {}), SYNC_EVERY_MS);
    this.timer.unref();
  }

  /** @param folder undefined: no later process can resume this import, and nothing is written */
  static async create(folder: string | undefined, target: Target, plan: ImportPlan): Promise<Journal> {
    const header = { id: randomBytes(16).toString('hex'), begun: new Date().toISOString(), target, plan };
    if (folder === undefined) return new Journal(header, undefined, undefined);
    await makeFolder(folder, 0o700);
    const path = pathOf(folder, target);
    const fd = openSync(path, 'wx', 0o600);
    writeSync(fd, `${JSON.stringify({ cdp_import: FORMAT, ...header })}\n`);
    fsyncSync(fd);
    return new Journal(header, path, fd);
  }

  /** The journal of an import that did not complete. @throws UsageError if another version of cdp wrote it */
  static find(folder: string, target: Target): Journal | undefined {
    const path = pathOf(folder, target);
    let text: string;
    try {
      text = readFileSync(path, 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw error;
    }
    // A line that the process did not finish has no effect yet.
    const complete = text.slice(0, text.lastIndexOf('\n') + 1);
    if (complete === '') {
      rmSync(path);
      return undefined;
    }
    const [first = '', ...lines] = complete.trimEnd().split('\n');
    const { cdp_import: format, ...header } = JSON.parse(first) as Header & { cdp_import?: number };
    if (format !== FORMAT) {
      throw new UsageError(
        `An interrupted import of this was started by another version of cdp, in ${path}`,
        'Resume it with that version, or remove the file; rows that are stored stay',
      );
    }
    if (complete.length < text.length) truncateSync(path, Buffer.byteLength(complete));
    const journal = new Journal(header, path, openSync(path, 'a', 0o600));
    for (const line of lines) journal.apply(JSON.parse(line) as Line);
    return journal;
  }

  /** Batches that may be stored although the service has forgotten their keys: sent a day ago and never answered. */
  get outdated(): number {
    return [...this.sentAt.values()].filter((at) => Date.now() - at > KEYS_VALID_MS).length;
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
  addSent(batch: number): void {
    if (!this.sentAt.has(batch)) this.write({ sent: batch, t: Date.now() });
  }

  addDone(batch: number, { id }: Part, rows: number): void {
    this.write({ done: batch, part: id, rows });
  }

  /**
   * A part was refused, and others are sent instead of it.
   * @param refused number of its records that were written to the file of refused records
   * @param bytes length of that file
   */
  addSplit(batch: number, { id }: Part, into: number[][], refused: number, bytes: number): void {
    this.write({ split: batch, part: id, into, refused, bytes });
  }

  addRefusedFile(path: string): void {
    this.write({ refusedFile: path });
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

  /** The import is complete or abandoned. */
  remove(): void {
    this.close();
    if (this.path !== undefined) rmSync(this.path, { force: true });
  }

  private write(line: Line): void {
    if (this.fd !== undefined) writeSync(this.fd, `${JSON.stringify(line)}\n`);
    this.apply(line);
  }

  private apply(line: Line): void {
    if ('sent' in line) {
      this.sentAt.set(line.sent, line.t);
    } else if ('refusedFile' in line) {
      this.refusedFile = line.refusedFile;
    } else if ('done' in line) {
      this.totals.inserted += line.rows;
      this.replacePart(line.done, line.part, []);
    } else {
      this.totals.refused += line.refused;
      this.refusedBytes = line.bytes;
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

function pathOf(folder: string, { url, project, table, files }: Target): string {
  const hash = createHash('sha256').update(JSON.stringify([url, project, table, files]));
  return join(folder, `${hash.digest('hex').slice(0, 24)}.ndjson`);
}
