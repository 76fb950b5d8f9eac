/** The feed of one project: its log, the collector while its server runs, and pages of changes for readers. */
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { LRUCache } from 'lru-cache';
import { EngineError } from '../contract/errors.js';
import type { FeedSettings, FeedState } from '../contract/wire/changes.js';
import { isMissing, replaceFile } from '../files.js';
import type { Log } from '../log.js';
import { type Session, sql, startupOptions, visibleIn } from '../pg/index.js';
import type { Placement } from '../tenancy/placement.js';
import { type PostgresServer, withServer } from '../tenancy/postgres-server.js';
import { withServiceSession } from '../tenancy/service-pool.js';
import { ChangeEncoder, type ChangeFilter, type EncodedChanges, type VisibleColumns } from './change-json.js';
import { Collector, type CollectorEvents } from './collector.js';
import { type Cursor, cursorOf, cursorText, isBefore, type Place } from './cursor.js';
import { type EpochReason, FeedLog } from './feed-log.js';
import { eraseFromLog, type TellsOf } from './erase-from-log.js';
import { readAllRights, readRights, type Rights, rightsIn } from './feed-rights.js';
import { ChangesGone, LogReader } from './log-reader.js';
import {
  applySettings,
  createSlot,
  currentXid,
  dropSlot,
  flushedLsn,
  isSetUp,
  makePublications,
  slotState,
  tablesOf,
  type WalKept,
  walKept,
} from './set-up.js';
import { WaitingReaders } from './waiting-readers.js';

/** Where the feed's files and its server are. */
export interface FeedPlace {
  readonly placement: Placement;
  /** The folder of the log. */
  readonly folder: string;
  readonly server: PostgresServer;
  readonly major: number;
}

export interface ReadChanges {
  /** null: from now on. */
  readonly after: Cursor | null;
  /** The role that reads, by its name on the server. */
  readonly role: string;
  readonly filter: Omit<ChangeFilter, 'visible'>;
  readonly limit: number;
  /** How long to wait for the first change. */
  readonly waitMs: number;
  readonly signal: AbortSignal;
  /** Waits until more may be decoded. */
  readonly turn: () => Promise<void> | undefined;
}

export interface Page extends EncodedChanges {
  /** Where to go on. */
  readonly cursor: string;
}

/** What was known when the server stopped with everything stored. */
interface AtRest {
  readonly rights: Readonly<Record<string, Parameters<typeof rightsIn>[0]>>;
}

/** Values have one text, whatever the project has set for its database (`codec/results/text-values.ts`). */
const WALSENDER = startupOptions({
  DateStyle: 'ISO',
  IntervalStyle: 'postgres',
  TimeZone: 'UTC',
  bytea_output: 'hex',
  extra_float_digits: '1',
});

const AT_REST_FILE = 'at-rest.json';

/** Rights are asked again after this time; changes of the schema and GRANT are noticed at once. */
const RIGHTS_MS = 500;
const RETRY_MS = 2_000;
/** How long a stop waits for what is not stored. */
const DRAIN_MS = 5_000;
/** Maximum size of the changes of an answer; one may exceed it. */
const PAGE_BYTES = 4 * 1024 * 1024;
const SHARED_PAGES = 4;
/** After every change of a transaction. */
const AFTER_ALL = 2 ** 31;

export class Feed {
  /** Why changes are not being stored although the server runs; null: they are. */
  failure: string | null = null;
  /** What the server kept when it was last asked; null: it was not running. */
  kept: WalKept | null = null;
  private log: FeedLog | null = null;
  private reader: LogReader | null = null;
  private collector: Collector | null = null;
  private atRest: AtRest | null = null;
  private isServerRunning = false;
  private isOff = false;
  private retry: NodeJS.Timeout | undefined;
  private readonly waiting = new WaitingReaders(() => this.log && this.log.end);
  private readonly rights = new Map<string, { readonly at: number; readonly rights: Promise<Rights> }>();
  /** Counts changes of the schema and of rights. */
  private generation = 0;
  private readonly pages = new LRUCache<string, Promise<Page>>({ max: SHARED_PAGES });

  constructor(
    private readonly place: FeedPlace,
    public settings: FeedSettings,
    private readonly report: Log,
  ) {}

  /** Reads what is there. @throws the system's error */
  async open(): Promise<void> {
    this.useLog(await FeedLog.open(this.place.folder));
    this.atRest = await readAtRest(this.place.folder);
  }

  /** Whether everything that was committed is in the log, and the server is stopped. */
  get isAtRest(): boolean {
    return this.atRest !== null && !this.isServerRunning;
  }

  get status(): FeedState['status'] {
    if (this.isAtRest) return 'at_rest';
    return this.collector === null ? 'behind' : 'reading';
  }

  private useLog(log: FeedLog | null): void {
    this.log = log;
    this.reader = log && new LogReader(log);
    this.pages.clear();
    this.waiting.wake();
  }

  // While the server runs

  /** The server accepts connections, and is not used yet. @param reason why a log begins, if there is none. Never rejects. */
  async serverStarted(reason: EpochReason): Promise<void> {
    this.isServerRunning = true;
    this.atRest = null;
    this.forgetRights();
    await this.begin(reason).catch((error: unknown) => this.fail(error));
  }

  private async begin(reason: EpochReason): Promise<void> {
    const { folder } = this.place;
    // Rights can change from now on: if this file cannot be removed, the feed does not begin.
    await rm(join(folder, AT_REST_FILE), { force: true });
    const xid = await this.inDatabase(async (session) => {
      await makePublications(session, this.place.major);
      const slot = await slotState(session);
      const log = this.log ?? (await FeedLog.open(folder));
      if (slot === null || slot.isLost) {
        if (slot !== null) await dropSlot(session);
        const since = await createSlot(session);
        const why = slot !== null ? 'slot_lost' : log === null ? reason : 'restored';
        this.useLog(await FeedLog.create(folder, since, why, log));
        if (slot !== null)
          this.report.error(
            { feed: folder, from: log?.end.lsn.toString(16), to: since.toString(16) },
            'changes are lost for the feed: the server has given up their WAL',
          );
      } else if (log === null) this.useLog(await FeedLog.create(folder, slot.confirmed, 'log_lost', null));
      else if (this.log === null) this.useLog(log);
      const isNew = this.log !== log || slot === null || slot.isLost;
      if (isNew || !(await isSetUp(session, this.settings))) await applySettings(session, this.settings, isNew);
      return currentXid(session);
    });
    const { log } = this;
    if (log === null || this.isOff || !this.isServerRunning) return;
    const login = {
      ...this.place.server.address,
      database: this.place.placement.database,
      application_name: 'cdp feed',
      options: WALSENDER,
    };
    const collector = await Collector.start(login, log, xid, this.collectorEvents(log));
    this.collector = collector;
    this.failure = null;
    void collector.ended.then((error) => {
      if (this.collector !== collector) return;
      this.collector = null;
      this.fail(error);
    });
  }

  private collectorEvents(log: FeedLog): CollectorEvents {
    return {
      stored: () => this.waiting.wakeSoon(),
      described: ({ table_oid: oid, key }) => {
        if (oid !== null) log.keys.set(Number(oid), key);
        this.forgetRights();
      },
      passed: () => {
        const move = this.inDatabase((session) => session.query(sql`SELECT pg_log_standby_snapshot()`));
        // Otherwise the server moves on at its next checkpoint, as Postgres 15 always does.
        move.catch(() => {});
        // The watch of all feeds removes them later.
        this.prune().catch(() => {});
      },
      makeRoom: async () => (await log.prune({ hours: this.settings.retention_hours, bytes: log.bytes / 2 })) > 0,
    };
  }

  private fail(error: unknown): void {
    if (this.isOff || !this.isServerRunning) return;
    const message = error instanceof Error ? error.message : String(error);
    if (this.failure !== message)
      this.report.error({ feed: this.place.folder, error: message }, 'the feed of a project does not store changes');
    this.failure = message;
    clearTimeout(this.retry);
    this.retry = setTimeout(
      () => void this.begin('restored').catch((again: unknown) => this.fail(again)),
      RETRY_MS,
    ).unref();
  }

  /**
   * The server is about to be stopped: stores what it has, and lets it go.
   * @param isUnused nobody can change anything any more
   */
  async serverStopping(isUnused: boolean): Promise<void> {
    clearTimeout(this.retry);
    const { collector } = this;
    try {
      if (collector === null) return;
      const atRest = await this.inDatabase(async (session): Promise<AtRest | null> => {
        const isComplete = await collector.reach(await flushedLsn(session), DRAIN_MS);
        return isComplete && isUnused ? { rights: await readAllRights(session, this.place.placement) } : null;
        // What is not stored now is sent after the next start, which the watch of all feeds makes.
      }).catch(() => null);
      this.collector = null;
      await collector.close();
      if (atRest !== null) await replaceFile(join(this.place.folder, AT_REST_FILE), JSON.stringify(atRest), 0o600);
      this.atRest = atRest;
    } finally {
      this.serverEnded();
      await this.log?.close();
    }
  }

  /** The server is stopped, or has ended. */
  serverEnded(): void {
    this.isServerRunning = false;
    this.forgetRights();
    clearTimeout(this.retry);
  }

  /** Other settings, while the server runs. @throws PostgresError */
  async change(settings: FeedSettings): Promise<void> {
    await this.inDatabase((session) => applySettings(session, settings, false));
    this.settings = settings;
    await this.prune();
  }

  /** Ends reading and waiting for good. */
  async turnOff(): Promise<void> {
    this.isOff = true;
    clearTimeout(this.retry);
    const { collector } = this;
    this.collector = null;
    await collector?.close();
    await this.log?.close();
    this.useLog(null);
  }

  /** What it is, and how far. @throws PostgresError, ConnectionLost */
  async state(): Promise<FeedState> {
    const { log, settings, failure } = this;
    const cursor = (place: Place) => log && cursorText({ epoch: log.epoch.id, ...place, seen: [] });
    const server = this.isServerRunning
      ? await this.inDatabase(async (session) => ({
          kept: await walKept(session),
          tables: await tablesOf(session),
        }))
      : null;
    return {
      ...settings,
      start: log && cursor(log.start),
      end: log && cursor(log.end),
      bytes: log?.bytes ?? 0,
      status: this.status,
      reason: failure,
      behind_bytes: server?.kept.bytes ?? null,
      table_list: server?.tables ?? null,
    };
  }

  /** Notices whether the server keeps more WAL for the feed than it would by itself. Never rejects. */
  async look(): Promise<void> {
    const before = this.kept?.status ?? 'reserved';
    // One that does not answer is stopping, or the collector says so.
    this.kept = this.isServerRunning ? await this.inDatabase(walKept).catch(() => null) : null;
    const { status = 'reserved', bytes = 0 } = this.kept ?? {};
    if (before !== 'reserved' || status === 'reserved') return;
    const what = { feed: this.place.folder, wal_status: status, bytes };
    this.report.warn(what, 'a server keeps WAL because the feed of its project is behind, or a transaction stays open');
  }

  async prune(): Promise<void> {
    const { retention_hours: hours, retention_mib: mib } = this.settings;
    await this.log?.prune({ hours, bytes: mib * 1024 * 1024 });
  }

  // Reading

  /**
   * Changes after a cursor, as many as there are up to the limit; waits if there is none.
   * @throws EngineError cursor_expired, invalid_request, rate_limited, database_unavailable
   */
  async read(request: ReadChanges): Promise<Page> {
    const until = performance.now() + request.waitMs;
    let cursor = request.after ?? (await this.now());
    this.check(cursor);
    for (;;) {
      const page = await this.page(cursor, request);
      const waitMs = until - performance.now();
      if (page.changes.length > 0) this.waiting.countReader();
      if (page.changes.length > 0 || waitMs <= 0) return page;
      cursor = cursorOf(page.cursor);
      await this.waiting.wait(cursor, waitMs, request.signal);
      request.signal.throwIfAborted();
    }
  }

  /** The cursor after everything that is committed. @throws EngineError database_unavailable if there is no log yet */
  async now(): Promise<Cursor> {
    const log = this.requireLog();
    await this.catchUp();
    return { epoch: log.epoch.id, ...log.end, seen: [] };
  }

  /**
   * Waits until everything that is committed now is stored; at rest it is.
   * @returns the collector; null: it does not run
   * @throws EngineError database_unavailable
   */
  private async catchUp(): Promise<Collector | null> {
    const { collector } = this;
    if (collector === null && this.isAtRest) return null;
    if (collector !== null && (await collector.reach(await this.inDatabase(flushedLsn), DRAIN_MS))) return collector;
    throw new EngineError('database_unavailable', 'The feed of the project is behind', { retryAfter: 2 });
  }

  private requireLog(): FeedLog {
    if (this.log !== null) return this.log;
    throw new EngineError('database_unavailable', 'The feed of the project has not begun yet', {
      retryAfter: 2,
      hint: this.failure ?? undefined,
    });
  }

  /** @throws EngineError cursor_expired, invalid_request */
  private check({ epoch, lsn, index }: Cursor): void {
    const log = this.requireLog();
    if (epoch !== log.epoch.id) throw expired(log, epoch);
    if (isBefore({ lsn, index }, log.start)) throw expired(log, epoch);
    // Before a crash the log may have been longer, and it will be again.
    const known = this.collector?.stored ?? null;
    if (known !== null && isBefore(log.end, { lsn, index }) && (lsn > known || lsn === log.end.lsn))
      throw new EngineError('invalid_request', 'The cursor is after all changes of the project');
  }

  /** Readers that want the same share one page. */
  private async page(cursor: Cursor, { role, filter, limit, turn }: ReadChanges): Promise<Page> {
    for (;;) {
      const { generation, reader } = this;
      const log = this.requireLog();
      const rights = await this.rightsOf(role);
      const { tables, operations, columns } = filter;
      const lists = [tables, operations, columns].map((list) => list && [...list]);
      const end = this.waiting.end ?? log.end;
      const key = JSON.stringify([cursorText(cursor), String(end.lsn), role, limit, lists, generation]);
      const visible = (oid: number) => this.visibleIn(rights, role, oid);
      const page =
        this.pages.get(key) ?? this.readPage(log, reader, { cursor, end }, { ...filter, visible }, limit, turn);
      this.pages.set(key, page);
      const result = await page.catch((error: unknown) => {
        this.pages.delete(key);
        throw error instanceof ChangesGone ? expired(log, cursor.epoch) : error;
      });
      // Rights that were taken away meanwhile hold for all that came after.
      if (generation === this.generation) return result;
      this.pages.delete(key);
    }
  }

  private async readPage(
    log: FeedLog,
    reader: LogReader | null,
    { cursor: { epoch, seen, ...after }, end }: { readonly cursor: Cursor; readonly end: Place },
    filter: ChangeFilter,
    limit: number,
    turn: () => Promise<void> | undefined,
  ): Promise<Page> {
    const left = new Set(seen);
    const encoder = new ChangeEncoder(epoch, filter, after, left);
    const place = await (reader ?? new LogReader(log)).read(
      { after, end },
      (message, place, state) => {
        if (encoder.changes.length >= limit || encoder.length >= PAGE_BYTES) return false;
        encoder.encode(message, place, state);
        return true;
      },
      turn,
    );
    return { ...encoder.encoded(), cursor: cursorText({ epoch, ...place, seen: [...left] }) };
  }

  /**
   * The cursor after exactly what a snapshot shows. A transaction can be in the log before it is visible, so the cursor names those
   * after it that the snapshot has.
   * @param snapshot in the format of pg_current_snapshot(), taken just before
   * @throws EngineError database_unavailable if the feed does not get that far
   */
  async cursorAfter(snapshot: string): Promise<string> {
    const log = this.requireLog();
    const isVisible = visibleIn(snapshot);
    const recent = (await this.catchUp())?.recent ?? [];
    const first = recent.findIndex(({ xid }) => !isVisible(xid));
    const { epoch } = log;
    if (first === -1) return cursorText({ epoch: epoch.id, ...log.end, seen: [] });
    const seen = recent.slice(first).filter(({ xid }) => isVisible(xid));
    const before = recent[first - 1]?.lsn ?? (recent[first] as { lsn: bigint }).lsn - 1n;
    return cursorText({ epoch: epoch.id, lsn: before, index: AFTER_ALL, seen: seen.map(({ xid }) => xid) });
  }

  /** What a role may read of a table. @throws EngineError database_unavailable */
  async visibleTo(role: string, oid: number): Promise<VisibleColumns> {
    const rights = await this.rightsOf(role);
    // It may have been made since the role was looked up.
    if (!rights.has(oid)) this.rights.delete(role);
    return this.visibleIn(await this.rightsOf(role), role, oid);
  }

  /** What a table had that no longer exists is for its owner only: nobody knows what others might read. */
  private visibleIn(rights: Rights, role: string, oid: number): VisibleColumns {
    return rights.get(oid) ?? (rights.has(oid) || role !== this.place.placement.writer ? null : 'all');
  }

  /**
   * Erases a person from the changes that are committed now.
   * @returns how many told of the person
   * @throws EngineError database_unavailable; the system's error
   */
  async erase(tellsOf: TellsOf, turn: () => Promise<void> | undefined): Promise<number> {
    await this.catchUp();
    const erased = await eraseFromLog(this.requireLog(), tellsOf, turn);
    this.pages.clear();
    return erased;
  }

  // Rights

  private forgetRights(): void {
    this.generation++;
    this.rights.clear();
  }

  private rightsOf(role: string): Promise<Rights> {
    if (this.atRest !== null) return Promise.resolve(rightsIn(this.atRest.rights[role] ?? []));
    const known = this.rights.get(role);
    const now = performance.now();
    if (known !== undefined && now - known.at < RIGHTS_MS) return known.rights;
    const rights = this.readRights(role);
    this.rights.set(role, { at: now, rights });
    rights.catch(() => this.rights.delete(role));
    return rights;
  }

  /** Readers do not keep the server running; one that has ended without a word is started, because rights may have changed. */
  private async readRights(role: string): Promise<Rights> {
    const read = () => this.inDatabase((session) => readRights(session, this.place.placement, role));
    if (!this.isServerRunning) return withServer(this.place.server, read);
    return read().catch((error: unknown) => {
      // It has been stopped meanwhile.
      if (this.atRest !== null) return rightsIn(this.atRest.rights[role] ?? []);
      throw error;
    });
  }

  private inDatabase<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return withServiceSession(this.place.server.address, this.place.placement.database, work);
  }
}

async function readAtRest(folder: string): Promise<AtRest | null> {
  try {
    return JSON.parse(await readFile(join(folder, AT_REST_FILE), 'utf8')) as AtRest;
  } catch (error) {
    // A file that was cut off is none: the server is asked again.
    if (isMissing(error) || error instanceof SyntaxError) return null;
    throw error;
  }
}

const REASONS: Readonly<Record<EpochReason, string>> = {
  turned_on: 'the feed was turned off, and on again',
  restored: 'the project was restored',
  slot_lost: 'changes came faster than they could be read, and Postgres has given up the WAL with them',
  log_lost: 'the files of the feed were lost',
};

/** @param epoch that of the cursor */
function expired({ epoch: { id, reason, since, previous }, start }: FeedLog, epoch: string): EngineError {
  const oldest = cursorText({ epoch: id, ...start, seen: [] });
  const lost = previous?.id === epoch ? `: it has those up to ${previous.lsn}, and the feed goes on at ${since}` : '';
  const why =
    epoch === id
      ? 'Changes after this cursor are no longer kept'
      : `This cursor is of a former feed, because ${REASONS[reason]}${lost}`;
  return new EngineError('cursor_expired', why, {
    hint: `Read each table again, with GET /api/cdp/changes/snapshot?table=…, and go on from the cursor it begins with. The oldest change that is kept is after ${oldest}.`,
  });
}
