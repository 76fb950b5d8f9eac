/**
 * What has become of each batch of an import, line by line in a file, so that a later process goes on exactly where
 * this one ended, however it ended (docs/decisions/0026). Lines are written before what follows from them is done.
 */
import { createHash, randomBytes } from 'node:crypto';
import { closeSync, fdatasync, fsyncSync, openSync, readFileSync, rmSync, truncateSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { LIMITS } from '../../contract/limits.js';
import { makePrivate, stateFolder } from '../remote/folders.js';
import { UsageError } from '../remote/outcome.js';

/** Changes whenever batches are cut, encoded or named in another way. */
const FORMAT = 2;
const DURABLE_EVERY_MS = 1_000;
/** Less than a key is kept, by what clocks may differ and repeats may take. */
const KEYS_HOLD_MS = (LIMITS.idempotencyHours - 1) * 3_600_000;

/** Where to and into what; an import is found again by it. */
export interface Target {
  url: string;
  /** Id of the project. */
  project: string;
  table: string;
  /** Absolute. */
  files: string[];
}

/** What must be as it was for batches to be the same: the files, and how they are read. */
export interface Header<Plan> {
  /** Random; keys begin with it. */
  id: string;
  begun: string;
  target: Target;
  plan: Plan;
}

/** A part of a batch that is sent by itself, since the whole was refused. Places count in the batch. */
export interface Piece {
  id: number;
  places: number[];
}

/** Of a batch that is not done. */
export interface BatchState {
  nextPiece: number;
  /** null: the whole batch, under piece 0. */
  pieces: Piece[] | null;
}

export interface Totals {
  inserted: number;
  refused: number;
}

type Line = { t: number } & (
  | { done: number; rows: number }
  | { piece: number; of: number; rows: number }
  | { split: number; piece: number; refused: number; into: number[][]; bytes: number }
  | { refusedFile: string }
  | { sent: number }
);

export class Journal<Plan> {
  readonly totals: Totals = { inserted: 0, refused: 0 };
  /** Bytes of the file of refused records that belong to what is written here. */
  refusedBytes = 0;
  refusedFile: string | null = null;
  readonly #done = new Set<number>();
  /** Every batch below it is done. */
  #below = 0;
  readonly #open = new Map<number, BatchState>();
  readonly #file: string | null;
  #fd: number | null;
  #isDirty = false;
  #syncing: Promise<void> | null = null;
  readonly #timer: NodeJS.Timeout | undefined;
  /** Batches that were sent and are not done, by the time when they first were. */
  readonly #sent = new Map<number, number>();

  private constructor(
    readonly header: Header<Plan>,
    file: string | null,
    fd: number | null,
  ) {
    this.#file = file;
    this.#fd = fd;
    if (fd === null) return;
    this.#timer = setInterval(() => void this.sync().catch(() => {}), DURABLE_EVERY_MS);
    this.#timer.unref();
  }

  /** @param kept whether a later process could go on; not so for standard input */
  static async begin<Plan>(target: Target, plan: Plan, kept: boolean): Promise<Journal<Plan>> {
    const id = randomBytes(16).toString('hex');
    const header: Header<Plan> = { id, begun: new Date().toISOString(), target, plan };
    if (!kept) return new Journal(header, null, null);
    const file = fileOf(target);
    await makePrivate(join(file, '..'));
    const fd = openSync(file, 'wx', 0o600);
    writeSync(fd, `${JSON.stringify({ cdp_import: FORMAT, ...header })}\n`);
    fsyncSync(fd);
    return new Journal(header, file, fd);
  }

  /** The one of an import that did not come to its end; undefined where there is none. @throws UsageError */
  static find<Plan>(target: Target): Journal<Plan> | undefined {
    const file = fileOf(target);
    let text: string;
    try {
      text = readFileSync(file, 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw error;
    }
    // A line that was being written when the process ended says nothing yet.
    const end = text.lastIndexOf('\n') + 1;
    if (end === 0) {
      // Not even its head was written, so nothing was sent.
      rmSync(file);
      return undefined;
    }
    const [first, ...lines] = text.slice(0, end).trimEnd().split('\n');
    const { cdp_import: format, ...header } = JSON.parse(first || '{}') as Header<Plan> & { cdp_import?: number };
    if (format !== FORMAT)
      throw new UsageError(
        `${file} was written by another version of cdp`,
        'Finish the import with that one, or remove the file',
      );
    if (end < text.length) truncateSync(file, Buffer.byteLength(text.slice(0, end)));
    const fd = openSync(file, 'a', 0o600);
    const journal = new Journal(header, file, fd);
    for (const line of lines) journal.#replay(JSON.parse(line) as Line);
    return journal;
  }

  /** Batches that may be stored although the service may have forgotten their keys: sent a day ago, and never answered. */
  get beyondRecall(): number {
    return [...this.#sent.values()].filter((at) => Date.now() - at > KEYS_HOLD_MS).length;
  }

  isDone(batch: number): boolean {
    return batch < this.#below || this.#done.has(batch);
  }

  stateOf(batch: number): BatchState {
    return this.#open.get(batch) ?? { nextPiece: 1, pieces: null };
  }

  /** Unique to this import, batch and piece, and the same in every process that sends it. */
  keyOf(batch: number, piece: number): string {
    return `cdp-import-${this.header.id}-${batch}-${piece}`;
  }

  /** A batch is about to be sent. */
  sending(batch: number): void {
    if (!this.#sent.has(batch)) this.#write({ sent: batch });
  }

  batchDone(batch: number, rows: number): void {
    this.#write({ done: batch, rows });
  }

  pieceDone(batch: number, piece: number, rows: number): void {
    this.#write({ piece, of: batch, rows });
  }

  refusesInto(file: string): void {
    this.#write({ refusedFile: file });
  }

  /**
   * A piece was refused and is not sent again as it was.
   * @param refused records of it that were written down
   * @param bytes of the file of refused records from now on
   */
  split(batch: number, piece: number, refused: number, into: number[][], bytes: number): void {
    this.#write({ split: batch, piece, refused, into, bytes });
  }

  /** What is written is on the disk. Several who wait wait for the same. */
  async sync(): Promise<void> {
    while (this.#syncing !== null) await this.#syncing;
    if (!this.#isDirty || this.#fd === null) return;
    this.#isDirty = false;
    this.#syncing = promisify(fdatasync)(this.#fd).finally(() => (this.#syncing = null));
    await this.#syncing;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.sync();
    if (this.#fd !== null) closeSync(this.#fd);
    this.#fd = null;
  }

  /** The import came to its end, or is given up. */
  async remove(): Promise<void> {
    await this.close();
    if (this.#file !== null) rmSync(this.#file, { force: true });
  }

  #write(what: DistributiveOmit<Line, 't'>): void {
    const line = { ...what, t: Date.now() };
    if (this.#fd !== null) writeSync(this.#fd, `${JSON.stringify(line)}\n`);
    this.#isDirty = true;
    this.#replay(line);
  }

  #replay(line: Line): void {
    if ('sent' in line) {
      this.#sent.set(line.sent, line.t);
    } else if ('refusedFile' in line) {
      this.refusedFile = line.refusedFile;
    } else if ('done' in line) {
      this.totals.inserted += line.rows;
      this.#finish(line.done);
    } else if ('split' in line) {
      this.totals.refused += line.refused;
      this.refusedBytes = line.bytes;
      const { nextPiece, pieces } = this.stateOf(line.split);
      const parts = line.into.map((places, i) => ({ id: nextPiece + i, places }));
      const others = pieces?.filter(({ id }) => id !== line.piece) ?? [];
      this.#keep(line.split, { nextPiece: nextPiece + parts.length, pieces: [...parts, ...others] });
    } else {
      this.totals.inserted += line.rows;
      const { nextPiece, pieces } = this.stateOf(line.of);
      this.#keep(line.of, { nextPiece, pieces: pieces?.filter(({ id }) => id !== line.piece) ?? [] });
    }
  }

  #keep(batch: number, state: BatchState): void {
    if (state.pieces?.length === 0) this.#finish(batch);
    else this.#open.set(batch, state);
  }

  #finish(batch: number): void {
    this.#open.delete(batch);
    this.#sent.delete(batch);
    this.#done.add(batch);
    while (this.#done.delete(this.#below)) this.#below++;
  }
}

type DistributiveOmit<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;

function fileOf(target: Target): string {
  const { url, project, table, files } = target;
  const name = createHash('sha256')
    .update(JSON.stringify([url, project, table, files]))
    .digest('hex')
    .slice(0, 24);
  return join(stateFolder(), 'imports', `${name}.ndjson`);
}
