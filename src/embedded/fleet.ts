/** The servers of all projects: copied from one template, started as far as the machine allows, stopped when idle. */
import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join, relative, sep } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EngineError } from '../contract/errors.js';
import { type Binaries, refuseOtherMajor } from './binaries.js';
import type { ProjectCgroups } from './cgroup.js';
import { copyCluster } from './cluster.js';
import { PORT, serverConfig, type ServerSize, SUPERUSER } from './config.js';
import { bytesIn, DiskReserve } from './disk-reserve.js';
import { archiveFolder, CONTROL, existingHome, type Home, homeOf, makeHome, projectFolder, PROJECTS } from './home.js';
import { memoryBytes } from './limits.js';
import { clearAway } from './lock-file.js';
import { ProjectAccounts, type UidRange } from './project-accounts.js';
import { boundLog, type Postmaster, startPostmaster } from './postmaster.js';
import { foundServers } from './processes.js';
import { freeSharedMemory } from './shared-memory.js';
import type { Root } from './root.js';
import { StartQueue } from './start-queue.js';
import { type Running, SupervisedServer } from './supervised-server.js';

export interface FleetSettings {
  readonly size: ServerSize;
  /** MiB of private memory that each process of a server may take. */
  readonly backendMib: number;
  /** Servers that may run at once. */
  readonly maxServers: number;
  /** Requests that may wait for the start of one server. */
  readonly maxWaiting: number;
  /** A server that nobody has used for this time is stopped. */
  readonly idleStopMs: number;
  /** Bytes of the disk that projects may not fill. */
  readonly diskReserve: number;
  /** User ids for the servers, one each, if the service is root; null: all run as the control server does. */
  readonly uids: UidRange | null;
}

export interface FleetEvents {
  /** A server ended by itself, or did not start. */
  failed(id: string, reason: string, pauseMs: number): void;
  /** A server was stopped because it grew while the disk was nearly full. */
  grew(id: string, bytes: number): void;
  /** Asked before an idle server is stopped. @returns false to let it run for now, for instance if autovacuum works */
  mayStop(id: string, idleMs: number): Promise<boolean>;
}

/** How to reach a server as its superuser; `host` is the folder of its socket. */
export interface Socket {
  readonly host: string;
  readonly port: number;
  readonly user: string;
}

/** How often logs and disk are checked. */
const LOOK_MS = 500;

/** A server that does not answer is stopped all the same. */
const LAST_LOOK_MS = 2_000;

/** One that grew while the disk was short may not start again for this time. */
const GREW_PAUSE_MS = 10_000;

/** The database that initdb makes, under whatever name (pg_database.dat of Postgres). */
const DATABASE_OID = '5';

/** One project takes no more than half of the memory, and as much of the processors as any other that wants them. */
const GROUP_LIMITS = { cpuWeight: 100, memoryMaxBytes: Math.floor(memoryBytes() / 2), pidsMax: 256 };

class ProjectServer extends SupervisedServer {
  postmaster: Postmaster | null = null;
  asking = false;
  /** There is room for it, and it counts. */
  launched = false;
}

export class Fleet {
  private readonly servers = new Map<string, ProjectServer>();
  private readonly queue: StartQueue;
  private readonly disk: DiskReserve;
  private readonly accounts: ProjectAccounts;
  private readonly timer: NodeJS.Timeout;
  private looking = false;
  private closing = false;
  private preparing: Promise<unknown> = Promise.resolve();

  private constructor(
    private readonly root: Root,
    private readonly binaries: Binaries,
    private readonly template: () => Promise<string>,
    private readonly settings: FleetSettings,
    private readonly events: FleetEvents,
    private readonly cgroups: ProjectCgroups | null,
  ) {
    this.queue = new StartQueue(2 * availableParallelism());
    this.disk = new DiskReserve(root.folder, settings.diskReserve);
    this.accounts = new ProjectAccounts(root, settings.uids);
    this.timer = setInterval(() => void this.look(), Math.min(LOOK_MS, settings.idleStopMs)).unref();
  }

  /**
   * Stops the servers that an earlier service left behind. Only requests that need one of them wait for that.
   * @param template returns the data directory that new servers are copied from, and makes it if it is missing
   */
  static async open(
    root: Root,
    binaries: Binaries,
    template: () => Promise<string>,
    settings: FleetSettings,
    events: FleetEvents,
    cgroups: ProjectCgroups | null,
  ): Promise<Fleet> {
    const fleet = new Fleet(root, binaries, template, settings, events, cgroups);
    for (const { data, end } of await foundServers(root.folder)) {
      const [place, id = ''] = relative(root.folder, data).split(sep);
      if (place === PROJECTS) fleet.of(id).awaitEnd(end());
      // A template that was being built.
      else if (place !== CONTROL) void end().catch(() => {});
    }
    // The next new project needs it.
    fleet.preparing = template().catch(() => {});
    return fleet;
  }

  /** Servers that run, start or stop now. */
  get running(): number {
    let count = 0;
    for (const { state, launched } of this.servers.values()) {
      if (state === 'running' || state === 'stopping' || (state === 'starting' && launched)) count++;
    }
    return count;
  }

  /** Pids of the postmasters that run now. */
  isPostmaster(pid: number): boolean {
    for (const { postmaster } of this.servers.values()) if (postmaster?.pid === pid) return true;
    return false;
  }

  isRunning(id: string): boolean {
    return this.servers.get(id)?.state === 'running';
  }

  socket(id: string): Socket {
    return { host: this.home(id).socketDir, port: PORT, user: SUPERUSER };
  }

  /** See {@link SupervisedServer.acquire}. */
  acquire(id: string): Promise<void> | undefined {
    return this.of(id).acquire();
  }

  release(id: string): void {
    this.servers.get(id)?.release();
  }

  /** A new id: short, so that the paths of sockets stay short. */
  static newId = (): string => randomBytes(6).toString('hex');

  /**
   * Makes the folder of a new server from the template. It is started when somebody needs it.
   * @returns bytes of its database
   */
  async create(id: string): Promise<number> {
    const template = await this.template();
    const home = homeOf(this.root, projectFolder(id), await this.accounts.take(id));
    await makeHome(home);
    await copyCluster(template, home.data, home.account, this.settings.size.durable);
    return bytesIn(join(home.data, 'base', DATABASE_OID));
  }

  /** Makes the folder of a new server, whose data directory the caller fills, for instance from a backup. */
  async createEmpty(id: string): Promise<Home> {
    const home = homeOf(this.root, projectFolder(id), await this.accounts.take(id));
    await makeHome(home);
    return home;
  }

  /** The folder of a server that exists. @throws Error if there is none */
  homeOf(id: string): Promise<Home> {
    return existingHome(this.root, projectFolder(id));
  }

  /** Stops a server, and removes everything of it. Every step may have been done before. */
  async remove(id: string): Promise<void> {
    await this.of(id).close();
    const home = await existingHome(this.root, projectFolder(id)).catch(() => this.home(id));
    // What a service and a postmaster that were killed have left.
    await clearAway(home);
    await freeSharedMemory(home);
    await rm(home.root, { recursive: true, force: true, maxRetries: 8 });
    if (!home.socketDir.startsWith(home.root)) {
      await rm(join(home.socketDir, '..'), { recursive: true, force: true });
    }
    this.servers.delete(id);
    this.accounts.release(id);
  }

  /** See {@link SupervisedServer.whileStopped}. */
  whileStopped<T>(id: string, work: (needed: AbortSignal) => Promise<T>): Promise<T | null> {
    return this.of(id).whileStopped(work);
  }

  /** The folder that all servers are in, for archives of their logs. */
  get folder(): string {
    return this.root.folder;
  }

  /** Stops one server, for instance because its settings change; the next request starts it again. */
  stop(id: string): Promise<void> {
    return this.servers.get(id)?.stop() ?? Promise.resolve();
  }

  async close(): Promise<void> {
    this.closing = true;
    clearInterval(this.timer);
    await this.preparing;
    await Promise.all([...this.servers].map(([id, server]) => this.lastLook(id, server).then(() => server.close())));
  }

  private home(id: string): Home {
    return homeOf(this.root, projectFolder(id));
  }

  private of(id: string): ProjectServer {
    const known = this.servers.get(id);
    if (known !== undefined) return known;
    const supervision = {
      start: (signal: AbortSignal) => this.start(id, server, signal),
      failed: (reason: string, pauseMs: number) => this.events.failed(id, reason, pauseMs),
    };
    const server: ProjectServer = new ProjectServer(supervision, this.settings.maxWaiting);
    this.servers.set(id, server);
    return server;
  }

  private start(id: string, server: ProjectServer, signal: AbortSignal): Promise<Running> {
    server.launched = false;
    return this.queue.run(async () => {
      await this.makeRoomFor(server);
      const home = await existingHome(this.root, projectFolder(id));
      await refuseOtherMajor(home.data, this.binaries);
      const { size, backendMib } = this.settings;
      const config = serverConfig(home, size);
      const options = { config, backendMib, exclusive: true };
      const postmaster = await startPostmaster(home, this.binaries, options, signal);
      server.postmaster = postmaster;
      // Without a group of its own the server runs all the same.
      await this.cgroups?.add(id, postmaster.pid, GROUP_LIMITS).catch(() => {});
      const stop = async () => {
        await postmaster.stop();
        await this.cgroups?.remove(id);
      };
      return { ended: postmaster.ended, stop };
    });
  }

  /** At the bound, the server that has been idle for the longest time is stopped. @throws EngineError overloaded */
  private async makeRoomFor(server: ProjectServer): Promise<void> {
    if (this.closing) throw new EngineError('database_unavailable', 'The service is being stopped');
    while (this.running >= this.settings.maxServers) {
      const all = [...this.servers];
      const leaving = all.find(([, { state }]) => state === 'stopping');
      const idle = all.filter(([, { state, users }]) => state === 'running' && users === 0);
      const [longest] = idle.sort(([, a], [, b]) => a.idleSince - b.idleSince);
      const [id, goes] = leaving ?? longest ?? [];
      if (id === undefined || goes === undefined) throw tooMany(this.settings.maxServers);
      await this.lastLook(id, goes);
      if (goes.users === 0 || goes.state === 'stopping') await goes.stop();
    }
    server.launched = true;
  }

  /** The look that goes before the stop of an idle server, for one that is stopped in any case. */
  private async lastLook(id: string, { state }: ProjectServer): Promise<void> {
    if (state !== 'running') return;
    const late = sleep(LAST_LOOK_MS, undefined, { ref: false });
    await Promise.race([this.events.mayStop(id, Infinity).catch(() => {}), late]);
  }

  private async look(): Promise<void> {
    if (this.looking) return;
    this.looking = true;
    try {
      for (const [id, server] of this.servers) {
        if (server.state !== 'running') continue;
        await boundLog(await existingHome(this.root, projectFolder(id))).catch(() => {});
        this.stopIfIdle(id, server);
      }
      await this.endGrowing();
    } catch {
      // The next look comes soon.
    } finally {
      this.looking = false;
    }
  }

  private stopIfIdle(id: string, server: ProjectServer): void {
    const idleMs = performance.now() - server.idleSince;
    if (server.users > 0 || idleMs < this.settings.idleStopMs || server.asking) return;
    server.asking = true;
    const stop = async () => {
      const may = await this.events.mayStop(id, idleMs).catch(() => true);
      if (may && server.users === 0 && performance.now() - server.idleSince >= idleMs) await server.stop();
    };
    void stop()
      .catch(() => {})
      .finally(() => (server.asking = false));
  }

  private async endGrowing(): Promise<void> {
    const running = [...this.servers].filter(([, { state }]) => state === 'running').map(([id]) => id);
    const foldersOf = (id: string) => [this.home(id).root, archiveFolder(this.root.folder, id)];
    const worst = await this.disk.greatestGrowth(running.map((id) => ({ id, folders: foldersOf(id) })));
    if (worst === null) return;
    const server = this.of(worst.id);
    server.pause(GREW_PAUSE_MS);
    this.events.grew(worst.id, worst.bytes);
    await server.stop();
  }
}

const tooMany = (max: number) =>
  new EngineError('overloaded', `${max} projects are in use now, and no more servers may run at once`);
