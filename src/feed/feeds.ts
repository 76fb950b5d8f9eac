/** The feeds of all projects: which have one, and what happens to it when a server starts and stops. */
import { rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { EngineError, messageOf } from '../contract/errors.js';
import type { FeedSettings } from '../contract/wire/changes.js';
import { FEED, FEED_SETTINGS, type ServerFolder } from '../embedded/server-folder.js';
import { configFile } from '../embedded/postgres-config.js';
import { replaceFile, removeFolder } from '../files.js';
import type { Log } from '../log.js';
import { runPeriodically } from '../tasks.js';
import type { ControlDatabase } from '../tenancy/control/control.js';
import type { AuditRow } from '../tenancy/control/audit-rows.js';
import type { ProjectRow } from '../tenancy/control/control-rows.js';
import type { Servers } from '../tenancy/servers.js';
import { inDatabase } from '../tenancy/tenancy.js';
import { withServer } from '../tenancy/postgres-server.js';
import { Feed } from './feed.js';
import { feedConfig, tearDown } from './set-up.js';

/** The WAL that a server keeps for a feed that is not read. */
const MAX_KEEP_MIB = 4_096;
const MIN_KEEP_MIB = 256;
const MIB = 1024 * 1024;

/** How often feeds are looked at whose server has ended before everything was stored, and old changes are removed. */
const WATCH_MS = 60_000;

export class Feeds {
  /** By the id of the server. */
  private readonly feeds = new Map<string, Promise<Feed | null>>();
  /** Why the next log of a server begins. */
  private readonly turningOn = new Set<string>();
  private servers: Servers | null = null;
  /** Set before the first server starts. */
  control!: ControlDatabase;
  private stopWatching = (): void => {};

  /** @param reserveBytes of the disk that stay free */
  constructor(
    private readonly reserveBytes: number,
    private readonly log: Log,
  ) {}

  /** Stores what servers have that an earlier service has left behind. */
  open(servers: Servers): void {
    this.servers = servers;
    this.stopWatching = runPeriodically(WATCH_MS, 'watch_feeds', () => this.watch(), this.log, { isFirstNow: true });
  }

  close(): void {
    this.stopWatching();
  }

  /** @throws EngineError not_found if the project has no feed; database_unavailable */
  async of(project: ProjectRow): Promise<Feed> {
    const known = project.feed === null ? null : await this.feeds.get(project.placement.server);
    if (known != null) return known;
    // It may have been turned on or off since the token was looked up.
    const current = await this.control.projects.find('id', project.id);
    const feed = current?.feed == null ? null : await this.feedAt(current);
    if (feed !== null) return feed;
    throw new EngineError('not_found', `The project "${project.name}" has no feed`, {
      hint: 'Turn it on: PUT /api/cdp/feed {}, or `cdp feed on`.',
    });
  }

  private feedAt(project: ProjectRow): Promise<Feed | null> {
    const { server } = project.placement;
    const known = this.feeds.get(server);
    if (known !== undefined) return known;
    const opening = this.openFeed(project);
    this.feeds.set(server, opening);
    opening.catch(() => this.feeds.delete(server));
    return opening;
  }

  private async openFeed({ placement, feed: settings }: ProjectRow): Promise<Feed | null> {
    const { tenancy, files } = this.placeOf(placement);
    if (files === null || settings === null) return null;
    const feed = new Feed(
      {
        placement,
        folder: logFolder(await files.folderOf(placement.server)),
        server: tenancy.serverOf(placement),
        major: files.major,
      },
      settings,
      this.log,
    );
    await feed.open();
    return feed;
  }

  private placeOf(placement: ProjectRow['placement']) {
    if (this.servers === null) throw new Error('The feeds are not open yet');
    const tenancy = this.servers.tenancyOf(placement);
    return { tenancy, files: tenancy.files };
  }

  // What happens to servers; see `FleetEvents`

  async beforeStart(id: string, folder: ServerFolder): Promise<void> {
    await this.configure(id, folder).catch((error: unknown) =>
      this.log.error({ server: id, error: messageOf(error) }, 'the settings for a feed are not written'),
    );
  }

  private async configure(id: string, folder: ServerFolder): Promise<void> {
    const path = join(folder.root, FEED_SETTINGS);
    const project = await this.control.projects.find('server', id);
    // A project that is being deleted, or whose feed is being turned off, may still have a slot.
    if (project?.feed == null) return;
    const { bavail, bsize } = await statfs(folder.root);
    const room = Math.floor((bavail * bsize - this.reserveBytes) / 2 / MIB);
    const keep = Math.max(MIN_KEEP_MIB, Math.min(MAX_KEEP_MIB, room));
    await replaceFile(path, configFile(feedConfig(keep)));
  }

  async started(id: string): Promise<void> {
    await this.begin(id).catch((error: unknown) =>
      this.log.error({ server: id, error: messageOf(error) }, 'the feed of a project has not begun'),
    );
  }

  private async begin(id: string): Promise<void> {
    const project = this.servers === null ? null : await this.control.projects.find('server', id);
    if (project?.feed == null) return;
    const feed = await this.feedAt(project);
    await feed?.serverStarted(this.turningOn.has(id) ? 'turned_on' : 'restored');
  }

  async stopping(id: string, isUnused: boolean): Promise<void> {
    try {
      await (await this.feeds.get(id))?.serverStopping(isUnused);
    } catch (error) {
      // What is not stored is sent after the next start.
      this.log.error({ server: id, error: messageOf(error) }, 'the feed of a project was not stored to its end');
    }
  }

  /** A server has ended by itself, so it may have changes that are not stored. */
  failed(id: string): void {
    const ended = this.feeds.get(id)?.then((feed) => feed?.serverEnded());
    // One that could not be opened has nothing to end.
    ended?.catch(() => {});
  }

  /** A server is removed, with its folder. */
  forget(id: string): void {
    this.feeds.delete(id);
  }

  // Turning it on and off

  /**
   * Turns the feed on, or changes it. For the first, the project's server restarts.
   * @throws EngineError not_supported, database_unavailable, request_in_flight
   */
  async turnOn(project: ProjectRow, settings: FeedSettings, entry: AuditRow | null): Promise<ProjectRow> {
    const { tenancy, files } = this.placeOf(project.placement);
    if (files === null) throw notSupported();
    const { server: id } = project.placement;
    const current = await this.store(project, settings, entry);
    const server = tenancy.serverOf(project.placement);
    if (project.feed === null) {
      this.turningOn.add(id);
      try {
        this.feeds.delete(id);
        await files.stop(id);
        await withServer(server, async () => {
          const { failure } = await this.of(current);
          if (failure !== null)
            throw new EngineError(
              'database_unavailable',
              `The feed is on, but does not store changes yet: ${failure}`,
              { retryAfter: 5 },
            );
        });
      } finally {
        this.turningOn.delete(id);
      }
      return current;
    }
    const feed = await this.of(current);
    await withServer(server, () => feed.change(settings));
    return current;
  }

  /** @throws EngineError request_in_flight */
  async turnOff(project: ProjectRow, entry: AuditRow | null): Promise<void> {
    const { tenancy, files } = this.placeOf(project.placement);
    if (files === null || project.feed === null) {
      await this.store(project, null, entry);
      return;
    }
    const { server: id } = project.placement;
    await withServer(tenancy.serverOf(project.placement), async () => {
      await (await this.of(project)).turnOff();
      await inDatabase(tenancy, project.placement, tearDown);
    });
    const folder = await files.folderOf(id);
    await rm(join(folder.root, FEED_SETTINGS), { force: true });
    await this.store(project, null, entry);
    this.feeds.delete(id);
    await removeFolder(logFolder(folder));
  }

  private async store(project: ProjectRow, settings: FeedSettings | null, entry: AuditRow | null): Promise<ProjectRow> {
    const stored = await this.control.projects.setFeed(project.id, settings, entry);
    if (stored !== null) return stored;
    throw new EngineError('request_in_flight', 'The project is being created, restored or deleted');
  }

  /** The feeds that this instance has looked at, by `status`, and those whose server runs by `walStatus`; the most WAL kept for one. */
  async load(): Promise<{ status: Map<string, number>; walStatus: Map<string, number>; keptBytes: number }> {
    const load = { status: new Map<string, number>(), walStatus: new Map<string, number>(), keptBytes: 0 };
    for (const opened of await Promise.allSettled(this.feeds.values())) {
      const feed = opened.status === 'fulfilled' ? opened.value : null;
      if (feed === null) continue;
      countOne(load.status, feed.status);
      if (feed.kept === null) continue;
      countOne(load.walStatus, feed.kept.status);
      load.keptBytes = Math.max(load.keptBytes, feed.kept.bytes);
    }
    return load;
  }

  /** Starts servers that have not stored everything, asks the others what they keep, and removes old changes. */
  async watch(): Promise<void> {
    const projects = (await this.control.projects.list()).filter(
      ({ feed, status }) => feed !== null && status !== 'creating',
    );
    for (const project of projects) {
      const feed = await this.feedAt(project);
      await feed?.prune();
      await feed?.look();
      const { tenancy } = this.placeOf(project.placement);
      if (feed === null || feed.isAtRest || tenancy.isRunning(project.placement)) continue;
      // A server that does not start is tried again.
      await withServer(tenancy.serverOf(project.placement), () => Promise.resolve()).catch(() => {});
    }
  }
}

const countOne = (counts: Map<string, number>, name: string) => counts.set(name, (counts.get(name) ?? 0) + 1);

const logFolder = ({ root }: Pick<ServerFolder, 'root'>): string => join(root, FEED);

const notSupported = () =>
  new EngineError(
    'not_supported',
    'A feed needs a Postgres server of its own, and this project is on a server by address',
  );
