/**
 * The log of a project's committed changes: segment files beside the data directory of its server, which hold the messages of
 * logical decoding as they came. A segment begins with what a reader has to know of the changes before it, so the oldest ones can go.
 * What follows the last commit in the last segment is not complete; after a crash the server sends it again, the same.
 */
import { type FileHandle, open, rename, rm, truncate, writeFile } from 'node:fs/promises';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { exists, isMissing, makeFolder, namesIn, readSmallFile, replaceFile } from '../files.js';
import { type Begin, readMessage } from '../pg/index.js';
import { isBefore, type Place } from './cursor.js';
import { BEGIN, COMMIT, FRAME_HEADER, frameOf, framesIn, HEAD, RELATION, type SegmentHead } from './frames.js';
import { type Keys, LogState } from './log-state.js';

/** Why a log began: the feed was turned on, the project was restored, the server gave up what was not read, or the log was lost. */
export type EpochReason = 'turned_on' | 'restored' | 'slot_lost' | 'log_lost';

export interface Epoch {
  readonly id: string;
  readonly reason: EpochReason;
  /** Where it begins, in hexadecimal. */
  readonly since: string;
  readonly startedAt: string;
  /** The log before it, and how far that was stored; null: there was none. */
  readonly previous: { readonly id: string; readonly lsn: string } | null;
}

export interface Segment extends Place {
  readonly path: string;
  /** Bytes of the file, and those up to the last commit in it. */
  bytes: number;
  committed: number;
  /** When something was last written, by the clock of the process. */
  writtenAt: number;
}

/** The last bytes that were written to a segment: those who read the newest changes need not open its file. */
interface Tail {
  readonly segment: Segment;
  readonly offset: number;
  readonly bytes: Buffer;
  filled: number;
}

export interface Retention {
  readonly hours: number;
  readonly bytes: number;
}

const SEGMENT_BYTES = 8 * 1024 * 1024;
/** A part of a transaction waits for more of it up to this size. */
const WRITE_BYTES = 256 * 1024;
const TAIL_BYTES = 256 * 1024;
const EPOCH_FILE = 'epoch.json';

/** The name of a segment sorts by its place. */
const nameOf = ({ lsn, index }: Place): string =>
  `${lsn.toString(16).padStart(16, '0')}-${index.toString(16).padStart(8, '0')}.log`;

const NAME = /^([0-9a-f]{16})-([0-9a-f]{8})\.log$/;

export class FeedLog {
  /** The place after the last commit that is stored. */
  end: Place;
  private file: FileHandle | null = null;
  private pending: Buffer = Buffer.allocUnsafe(256 * 1024);
  private filled = 0;
  /** The place after the last change that was added, committed or not. */
  private at: Place;
  private begin: Begin | null = null;
  private readonly relations = new Map<number, Buffer>();
  private xid = 0n;
  /** Where the last commit ends in what is pending. */
  private pendingCommit: { readonly end: Place; readonly filled: number } | null = null;
  private isDirty = false;
  private tail: Tail | null = null;
  /** Somebody has looked for it since it began: nobody pays for one that is not read. */
  private isTailRead = false;

  private constructor(
    private readonly folder: string,
    readonly epoch: Epoch,
    readonly segments: Segment[],
    end: Place,
    /** Primary keys of tables, by oid: a new segment begins with them. */
    readonly keys: Map<number, readonly string[] | null>,
  ) {
    this.end = this.at = end;
  }

  /** The log in this folder; null: there is none. What a crash has left incomplete is cut off. @throws the system's error */
  static async open(folder: string): Promise<FeedLog | null> {
    if (!(await exists(join(folder, EPOCH_FILE)))) return null;
    const epoch = JSON.parse((await readSmallFile(join(folder, EPOCH_FILE))).toString()) as Epoch;
    const segments: Segment[] = [];
    for (const name of (await namesIn(folder)).sort()) {
      const [, lsn, index] = NAME.exec(name) ?? [];
      if (lsn === undefined || index === undefined) continue;
      const path = join(folder, name);
      const file = await open(path);
      const { size, mtimeMs } = await file.stat().finally(() => file.close());
      const place = { lsn: BigInt(`0x${lsn}`), index: Number.parseInt(index, 16) };
      segments.push({ ...place, path, bytes: size, committed: size, writtenAt: mtimeMs });
    }
    const keys = new Map<number, readonly string[] | null>();
    const end = (await cutIncomplete(segments, keys)) ?? { lsn: BigInt(`0x${epoch.since}`), index: 0 };
    return new FeedLog(folder, epoch, segments, end, keys);
  }

  /** Begins a new log, without what the folder has. @param since changes from here on will be in it */
  static async create(folder: string, since: bigint, reason: EpochReason, previous: FeedLog | null): Promise<FeedLog> {
    await previous?.close();
    await makeFolder(folder, 0o700);
    const epoch: Epoch = {
      id: randomBytes(4).toString('hex'),
      reason,
      since: since.toString(16),
      startedAt: new Date().toISOString(),
      previous: previous === null ? null : { id: previous.epoch.id, lsn: previous.end.lsn.toString(16) },
    };
    for (const name of await namesIn(folder)) if (NAME.test(name)) await rm(join(folder, name));
    await replaceFile(join(folder, EPOCH_FILE), JSON.stringify(epoch), 0o600);
    return new FeedLog(folder, epoch, [], { lsn: since, index: 0 }, new Map());
  }

  /** Bytes of all segments. */
  get bytes(): number {
    return this.segments.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** The place before the oldest change that is kept. */
  get start(): Place {
    return this.segments[0] ?? this.end;
  }

  /**
   * Prepares for what the server sends next: the transactions after the last one that is complete.
   * @param xid a number near those of the transactions that follow, with both halves
   */
  async beginReading(xid: bigint): Promise<void> {
    await this.close();
    await cutIncomplete(this.segments, this.keys);
    this.xid = xid;
    this.begin = null;
    this.at = this.end;
  }

  /** Whether a transaction with this commit is stored already. */
  has(lsn: bigint): boolean {
    return lsn <= this.end.lsn;
  }

  /** Adds a message, which {@link write} writes. @param changes how many changes it has */
  add(buffer: Buffer, start: number, end: number, changes: number): void {
    const length = end - start;
    if (this.filled + FRAME_HEADER + length > this.pending.length) this.grow(FRAME_HEADER + length);
    this.pending.writeInt32BE(length, this.filled);
    buffer.copy(this.pending, this.filled + FRAME_HEADER, start, end);
    this.filled += FRAME_HEADER + length;
    const type = buffer[start];
    if (changes > 0) this.at = { lsn: this.at.lsn, index: this.at.index + changes };
    else if (type === BEGIN) this.noteBegin(buffer.subarray(start, end));
    else if (type === COMMIT) this.noteCommit();
    else if (type === RELATION) this.noteRelation(buffer.subarray(start, end));
  }

  private noteBegin(bytes: Buffer): void {
    const message = readMessage(bytes);
    if (message?.type !== 'begin') return;
    this.begin = message;
    this.at = { lsn: message.lsn, index: 0 };
  }

  private noteCommit(): void {
    this.begin = null;
    this.pendingCommit = { end: this.at, filled: this.filled };
  }

  private noteRelation(bytes: Buffer): void {
    this.relations.set(bytes.readUInt32BE(1), Buffer.from(bytes));
  }

  private grow(by: number): void {
    const larger = Buffer.allocUnsafe(Math.max(2 * this.pending.length, this.filled + by));
    this.pending.copy(larger, 0, 0, this.filled);
    this.pending = larger;
  }

  /** Writes what was added. @returns whether a transaction is complete now @throws the system's error */
  async write(): Promise<boolean> {
    if (this.filled === 0) return false;
    const bytes = this.pending.subarray(0, this.filled);
    let last = this.segments.at(-1);
    if (this.file === null || last === undefined || last.bytes > SEGMENT_BYTES) last = await this.nextSegment(last);
    const file = this.file as FileHandle;
    const start = last.bytes;
    for (let at = 0; at < bytes.length;)
      at += (await file.write(bytes, at, bytes.length - at, start + at)).bytesWritten;
    this.remember(last, bytes);
    last.bytes += bytes.length;
    last.writtenAt = Date.now();
    this.isDirty = true;
    const commit = this.pendingCommit;
    this.filled = 0;
    this.pendingCommit = null;
    if (this.pending.length > KEPT_BYTES) this.pending = Buffer.allocUnsafe(KEPT_BYTES);
    if (commit === null) return false;
    // Those before it have the beginning of the transaction.
    for (const segment of this.segments) segment.committed = segment.bytes;
    last.committed = start + commit.filled;
    this.end = commit.end;
    return true;
  }

  /** Call this before the segment counts the bytes. */
  private remember(segment: Segment, bytes: Buffer): void {
    let { tail } = this;
    if (tail?.segment !== segment || tail.filled + bytes.length > TAIL_BYTES) {
      if (bytes.length > TAIL_BYTES || !this.isTailRead) return this.forgetTail();
      this.isTailRead = false;
      // A new buffer, because a reader may have a part of the old one.
      tail = this.tail = { segment, offset: segment.bytes, bytes: Buffer.allocUnsafe(TAIL_BYTES), filled: 0 };
    }
    bytes.copy(tail.bytes, tail.filled);
    tail.filled += bytes.length;
  }

  /** The bytes of a segment between two offsets, if they are in memory. */
  inTail(segment: Segment, from: number, to: number): Buffer | null {
    this.isTailRead = true;
    const { tail } = this;
    if (tail?.segment !== segment || from < tail.offset) return null;
    return tail.bytes.subarray(from - tail.offset, to - tail.offset);
  }

  /** Call this after the file was changed. */
  forgetTail(): void {
    this.tail = null;
  }

  /**
   * The last segment that was written to, or a new one. A new one begins with the changes that are pending, of which the first may
   * continue a transaction.
   */
  private async nextSegment(last: Segment | undefined): Promise<Segment> {
    if (this.file === null && last !== undefined && last.bytes <= SEGMENT_BYTES) {
      this.file = await open(last.path, 'r+');
      return last;
    }
    await this.sync();
    await this.file?.close();
    this.file = null;
    const { place, begin } = this.before ?? { place: this.end, begin: null };
    const head: SegmentHead = {
      lsn: place.lsn.toString(16),
      index: place.index,
      xid: String(this.xid),
      begin: begin && { lsn: begin.lsn.toString(16), committedAt: String(begin.committedAt), xid: begin.xid },
      keys: [...this.keys],
    };
    const bytes = Buffer.concat([Buffer.from(`h${JSON.stringify(head)}`), ...this.relations.values()].map(frameOf));
    const path = join(this.folder, nameOf(place));
    // Under its name it is complete.
    await writeFile(`${path}.new`, bytes, { mode: 0o600 });
    await rename(`${path}.new`, path);
    const segment = { ...place, path, bytes: bytes.length, committed: bytes.length, writtenAt: Date.now() };
    this.segments.push(segment);
    this.file = await open(path, 'r+');
    return segment;
  }

  /** Where the pending messages begin. */
  private before: { readonly place: Place; readonly begin: Begin | null } | null = null;

  /** Bytes that were added, and are not written. */
  get pendingBytes(): number {
    return this.filled;
  }

  /** Whether a transaction is complete in what was added, or that is much. */
  get isWorthWriting(): boolean {
    return this.pendingCommit !== null || this.filled >= WRITE_BYTES;
  }

  /** Call this before the messages of one read are added. */
  beginBatch(): void {
    if (this.filled > 0) return;
    this.before = { place: this.begin === null ? this.end : this.at, begin: this.begin };
  }

  /** Everything written so far survives a loss of power. @throws the system's error */
  async sync(): Promise<void> {
    if (!this.isDirty || this.file === null) return;
    this.isDirty = false;
    try {
      await this.file.datasync();
    } catch (error) {
      this.isDirty = true;
      throw error;
    }
  }

  /** Removes the oldest segments that need not be kept. @returns how many */
  async prune({ hours, bytes }: Retention): Promise<number> {
    const oldest = Date.now() - hours * 3_600_000;
    let removed = 0;
    for (;;) {
      const [first, next] = this.segments;
      // The last one is being written.
      if (first === undefined || next === undefined) return removed;
      if (this.bytes <= bytes && first.writtenAt >= oldest) return removed;
      this.segments.shift();
      await rm(first.path, { force: true });
      removed++;
    }
  }

  /** The segment with the changes after this place, if they are stored; null: they are no longer kept. */
  segmentAt(place: Place): Segment | null {
    for (let i = this.segments.length - 1; i >= 0; i--) {
      const segment = this.segments[i] as Segment;
      if (!isBefore(place, segment)) return segment;
    }
    return null;
  }

  async close(): Promise<void> {
    // What is not flushed is not confirmed either, and sent again.
    await this.sync().catch(() => {});
    await this.file?.close();
    this.file = null;
    this.filled = 0;
    this.pendingCommit = null;
    this.forgetTail();
  }
}

/** A pending buffer that has grown for a long message is let go. */
const KEPT_BYTES = 4 * 1024 * 1024;

/**
 * Cuts off what follows the last commit: in the last segment, and those before it if a transaction spans several.
 * @returns the place after the last commit; null: there is none
 */
async function cutIncomplete(segments: Segment[], keys: Map<number, readonly string[] | null>): Promise<Place | null> {
  for (;;) {
    const last = segments.at(-1);
    if (last === undefined) return null;
    const found = await lastCommit(last.path).catch((error: unknown) => {
      if (isMissing(error)) return null;
      throw error;
    });
    if (found !== null && found.offset !== null) {
      if (found.offset < last.bytes) await truncate(last.path, found.offset);
      last.bytes = last.committed = found.offset;
      for (const [oid, key] of found.keys) keys.set(oid, key);
      return found.end;
    }
    // It has no commit, and continues a transaction that the segments before it begin.
    segments.pop();
    await rm(last.path, { force: true });
  }
}

interface LastCommit {
  readonly end: Place;
  /** After its last commit, or after its head; null: it has only a part of a transaction. */
  readonly offset: number | null;
  readonly keys: Keys;
}

async function lastCommit(path: string): Promise<LastCommit> {
  const state = new LogState();
  let last: LastCommit = { end: state.place, offset: null, keys: state.keys };
  let isHead = true;
  for (const { message, next } of framesIn(await readWhole(path))) {
    state.pass(message);
    isHead &&= message[0] === HEAD || message[0] === RELATION;
    if (message[0] === COMMIT || (isHead && state.begin === null))
      last = { end: state.place, offset: next, keys: state.keys };
  }
  return last;
}

async function readWhole(path: string): Promise<Buffer> {
  const file = await open(path);
  try {
    return await file.readFile();
  } finally {
    await file.close();
  }
}
