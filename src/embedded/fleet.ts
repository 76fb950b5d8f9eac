/** The servers of all projects: copied from one template, and started on demand, as many as the machine can run. */
import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { dirname, join, relative, sep } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EngineError } from '../contract/errors.js';
import { exists, removeFolder, replaceFile } from '../files.js';
import { runsAsRoot } from './accounts.js';
import { type Binaries, refuseOtherMajor } from './binaries.js';
import type { ProjectCgroups } from './cgroup.js';
import { copyCluster } from './cluster.js';
import { configFile, PORT, serverConfig, type ServerTuning, SUPERUSER } from './postgres-config.js';
import type { EmbeddedFolder } from './embedded-folder.js';
import { bytesIn } from './disk-reserve.js';
import { defaultParallelWorkers, defaultSharedBuffers, memoryBytes, MIN_BUFFERS_MIB } from './process-limits.js';
import { removeLeftovers } from './lock-file.js';
import { Niceness } from './niceness.js';
import { type Postmaster, startPostmaster } from './postmaster.js';
import { parentOf } from './proc.js';
import { endUser, findPostmasters, stopPostmaster } from './processes.js';
import { ProjectAccounts, type UidRange } from './project-accounts.js';
import { UidRegistry } from './uid-registry.js';
import {
  ARCHIVE,
  ARCHIVE_SETTINGS,
  CONTROL,
  existingServerFolder,
  FEED,
  makeRootFolder,
  makeServerFolder,
  projectFolder,
  PROJECTS,
  serverFolder,
  type ServerFolder,
  STREAM_SETTINGS,
} from './server-folder.js';
import { StartQueue } from './start-queue.js';
import { type Running, Supervisor } from './supervisor.js';
import { FleetHousekeeping, type HousekeepingEvents, type HousekeepingSettings } from './fleet-housekeeping.js';

/** The settings that differ between servers; null: by default. */
export interface ProjectServerSize extends Omit<ServerTuning, 'sharedBuffersMib' | 'parallelWorkers'> {
  readonly sharedBuffersMib: number | null;
  readonly parallelWorkers: number | null;
}

export interface FleetSettings extends HousekeepingSettings {
  readonly size: ProjectServerSize;
  /** MiB of private memory that each process of a server may use. */
  readonly backendMib: number;
  /** Maximum number of servers that run at once. */
  readonly maxServers: number;
  /** Maximum number of requests that wait for the start of one server. */
  readonly maxWaiting: number;
  /**
   * If the service is root, a range of user ids, one per server; null: all servers run as the account of the control
   * server.
   */
  readonly uids: UidRange | null;
}

export interface FleetEvents extends HousekeepingEvents {
  /** A server exited unexpectedly, or did not start. */
  failed(id: string, reason: string, pauseMs: number): void;
  /** A server is about to start: its settings files can still change. Must not reject. */
  beforeStart(id: string, folder: ServerFolder): Promise<void>;
  /** A server accepts connections; it is used when this has resolved. Must not reject. */
  started(id: string): Promise<void>;
  /** A running server is about to be stopped, for whatever reason. Must not reject. @param isUnused nobody uses it */
  stopping(id: string, isUnused: boolean): Promise<void>;
  /** A server has been removed. */
  removed(id: string): void;
}

/** The errors for writes while the disk is nearly full. */
export interface LackOfRoom {
  readonly error: EngineError;
  /** The error for what frees space, but may run code of the project; null: it is allowed. */
  readonly errorForCode: EngineError | null;
}

/** How to connect to a server as its superuser; `host` is the folder of its socket. */
export interface SuperuserLogin {
  readonly host: string;
  readonly port: number;
  readonly user: string;
}

/** After this time, a server is stopped even if `beforeStop` has not returned. */
const BEFORE_STOP_MS = 2_000;

/** The oid of the database that initdb creates, even if it was renamed (pg_database.dat of Postgres). */
const DATABASE_OID = '5';

/** A project may use half of the memory, and gets an equal share of busy processors. */
const GROUP_LIMITS = { cpuWeight: 100, memoryMaxBytes: Math.floor(memoryBytes() / 2), pidsMax: 256 };

class ProjectServer extends Supervisor {
  postmaster: Postmaster | null = null;
  /** Whether the server counts toward `maxServers`. One that is starting and does not count still waits for its turn. */
  countsTowardLimit = false;
  /** Its page cache, if it runs or starts. */
  buffersMib = 0;
}

export class Fleet {
  /** Lowers the priority of busy processes; null: the servers have control groups, which share the processors. */
  readonly niceness: Niceness | null;
  /** How often a server has exited unexpectedly, or did not start. */
  failures = 0;
  private readonly servers = new Map<string, ProjectServer>();
  private readonly queue = new StartQueue(2 * availableParallelism());
  private readonly accounts: ProjectAccounts | null;
  private readonly housekeeping: FleetHousekeeping;
  private closing = false;
  private preparing: Promise<unknown> = Promise.resolve();

  /** @param template returns the data directory from which new servers are copied, and creates it if it is missing */
  constructor(
    private readonly serversFolder: EmbeddedFolder,
    private readonly binaries: Binaries,
    private readonly template: () => Promise<string>,
    private readonly settings: FleetSettings,
    private readonly events: FleetEvents,
    private readonly cgroups: ProjectCgroups | null,
  ) {
    const { folder, owner } = serversFolder;
    const { uids } = settings;
    const hasAccounts = uids !== null && runsAsRoot() && owner.uid === 0;
    this.accounts = hasAccounts ? new ProjectAccounts(uids, folder, new UidRegistry()) : null;
    this.housekeeping = new FleetHousekeeping(serversFolder, this.servers, settings, events);
    this.niceness = cgroups === null ? new Niceness(async (pid) => this.isPostmaster(await parentOf(pid))) : null;
  }

  /** Stops the servers that an earlier service has left running. Only requests that need one of them wait. */
  async stopLeftBehind(): Promise<void> {
    for (const postmaster of await findPostmasters(this.serversFolder.folder)) {
      const [place, id = ''] = relative(this.serversFolder.folder, postmaster.data).split(sep);
      const stop = () => stopPostmaster(postmaster.pid, postmaster.data);
      if (place === PROJECTS) this.of(id).awaitEnd(stop());
      // A template was being built on this server.
      else if (place !== CONTROL) void stop().catch(() => {});
    }
    // Makes the template available for the next new project.
    this.preparing = Promise.allSettled([this.template(), this.accounts?.register()]);
  }

  /** A new id. It is short, because socket paths have a length limit. */
  static newId = (): string => randomBytes(6).toString('hex');

  /** The folder of archived WAL, with a subfolder for each server's id. Some of these servers may no longer exist. */
  get archives(): string {
    return join(this.serversFolder.folder, ARCHIVE);
  }

  /** The version of their Postgres, such as `18.4`. */
  get version(): string {
    return this.binaries.version;
  }

  get major(): number {
    return this.binaries.major;
  }

  /** Whether a server with this id exists, running or not. */
  has(id: string): Promise<boolean> {
    return exists(join(this.serversFolder.folder, projectFolder(id)));
  }

  /** The number of servers that are running, starting or stopping. */
  get running(): number {
    return [...this.servers.values()].filter(
      ({ state, countsTowardLimit }) =>
        state === 'running' || state === 'stopping' || (state === 'starting' && countsTowardLimit),
    ).length;
  }

  /** How long each server has run since the last call, in milliseconds, without those that have not. */
  takeAwakeMs(): Map<string, number> {
    return new Map(
      [...this.servers].map(([id, server]) => [id, server.takeAwakeMs()] as const).filter(([, ms]) => ms > 0),
    );
  }

  isRunning(id: string): boolean {
    return this.servers.get(id)?.state === 'running';
  }

  /** Whether projects can only be read, because less than the disk reserve is free. */
  get isReadOnly(): boolean {
    return this.housekeeping.isDiskLow;
  }

  /** What may not be written to a server while less than the disk reserve is free; null: there is room. */
  lackOfRoom(id: string): LackOfRoom | null {
    if (!this.isReadOnly) return null;
    return { error: diskFull(), errorForCode: this.housekeeping.wasStoppedForGrowth(id) ? onlyDrops() : null };
  }

  /** The reason why a server did not start when it was last needed; null: it did, or this process has not tried. */
  startFailure(id: string): string | null {
    return this.servers.get(id)?.startFailure ?? null;
  }

  /** How many did not start when they were last needed. */
  get notStarting(): number {
    return [...this.servers.values()].filter((server) => server.startFailure !== null).length;
  }

  /** Whether the fleet started a postmaster with this process id. */
  private isPostmaster(pid: number): boolean {
    // The id of a server that has ended may belong to another program now.
    return [...this.servers.values()].some(({ state, postmaster }) => state === 'running' && postmaster?.pid === pid);
  }

  socket(id: string): SuperuserLogin {
    return { host: serverFolder(this.serversFolder, projectFolder(id)).socketDir, port: PORT, user: SUPERUSER };
  }

  /** See {@link Supervisor.acquire}. */
  acquire(id: string): Promise<void> | undefined {
    return this.of(id).acquire();
  }

  release(id: string): void {
    this.servers.get(id)?.release();
  }

  /**
   * Creates a new server from the template. It is started on demand.
   * @returns the bytes of its database
   */
  async create(id: string): Promise<number> {
    const template = await this.template();
    const { data, account } = await this.createEmpty(id);
    await copyCluster(template, data, account, this.settings.size.durable);
    return this.databaseBytes(id);
  }

  /** Creates the folder of a new server without a data directory. @throws EngineError disk_full */
  async createEmpty(id: string): Promise<ServerFolder> {
    if (this.isReadOnly) throw diskFull();
    const name = projectFolder(id);
    await makeRootFolder(serverFolder(this.serversFolder, name));
    const folder = serverFolder(this.serversFolder, name, await this.accounts?.take(id));
    await makeServerFolder(folder);
    return folder;
  }

  /**
   * The folder of an existing server.
   * @throws Error if it does not exist
   */
  folderOf(id: string): Promise<ServerFolder> {
    return existingServerFolder(this.serversFolder, projectFolder(id));
  }

  /** The folder of the control server. */
  controlFolder(): Promise<ServerFolder> {
    return existingServerFolder(this.serversFolder, CONTROL);
  }

  /** Whether the server's write-ahead log is archived. */
  async archivesWal(id: string): Promise<boolean> {
    return exists(join((await this.folderOf(id)).root, ARCHIVE_SETTINGS));
  }

  /**
   * Turns the archiving of the write-ahead log on or off. Stops the server; the next request starts it again.
   * @param settings null: off
   */
  async setArchiving(id: string, settings: Readonly<Record<string, string>> | null): Promise<void> {
    await this.configure(id, ARCHIVE_SETTINGS, settings);
    await this.stop(id);
  }

  /** Stops the server, so that it starts with `wal_level = logical`; or restores the setting for a later start. */
  async setLogicalDecoding(id: string, on: boolean): Promise<void> {
    await this.configure(id, STREAM_SETTINGS, on ? { wal_level: 'logical' } : null);
    if (on) await this.stop(id);
  }

  /** @param file in the server's folder, see {@link ServerFolder.ownSettings} @param settings null: none */
  private async configure(id: string, file: string, settings: Readonly<Record<string, string>> | null): Promise<void> {
    const path = join((await this.folderOf(id)).root, file);
    if (settings === null) return rm(path, { force: true });
    await replaceFile(path, configFile(settings));
  }

  /** Bytes on disk of a server's database, running or not. @throws the system's error */
  databaseBytes(id: string): Promise<number> {
    return bytesIn(join(this.serversFolder.folder, projectFolder(id), 'data'), join('base', DATABASE_OID));
  }

  /** Bytes on disk of the changes that are kept for a server's feed. @throws the system's error */
  feedBytes(id: string): Promise<number> {
    return bytesIn(join(this.serversFolder.folder, projectFolder(id), FEED));
  }

  /** Stops a server, and removes all of its files. Can be repeated after a partial removal. */
  async remove(id: string): Promise<void> {
    await this.of(id).close();
    const folder = await this.folderOf(id).catch(() => serverFolder(this.serversFolder, projectFolder(id)));
    await removeLeftovers(folder);
    const { account, data } = folder;
    if (this.accounts?.has(account.uid)) await endUser(account, data);
    await removeFolder(folder.root);
    await removeFolder(dirname(folder.socketDir));
    this.servers.delete(id);
    this.events.removed(id);
    await this.accounts?.release(id, account.uid);
  }

  /** The next request starts it again. */
  stop(id: string): Promise<void> {
    return this.servers.get(id)?.stop() ?? Promise.resolve();
  }

  /** Stops a server that has no users. */
  async stopIfUnused(id: string): Promise<void> {
    const server = this.servers.get(id);
    if (server?.users === 0) await server.stop();
  }

  async close(): Promise<void> {
    this.closing = true;
    this.housekeeping.close();
    await this.preparing;
    await Promise.all([...this.servers].map(([id, server]) => this.beforeStop(id, server).then(() => server.close())));
  }

  private of(id: string): ProjectServer {
    const existing = this.servers.get(id);
    if (existing !== undefined) return existing;
    const supervision = {
      start: (signal: AbortSignal) => this.start(id, server, signal),
      failed: (reason: string, pauseMs: number) => {
        this.failures++;
        this.events.failed(id, reason, pauseMs);
      },
    };
    const server: ProjectServer = new ProjectServer(supervision, this.settings.maxWaiting);
    this.servers.set(id, server);
    return server;
  }

  private start(id: string, server: ProjectServer, signal: AbortSignal): Promise<Running> {
    server.countsTowardLimit = false;
    return this.queue.run(async () => {
      await this.makeRoomFor(server);
      const folder = await this.folderOf(id);
      await refuseOtherMajor(folder.data, this.binaries);
      const { backendMib } = this.settings;
      const config = serverConfig(folder, await this.sizeOf(id, server), this.major);
      const options = { config, backendMib, isFirstVictim: true, exclusive: true };
      this.events.inUse(id);
      await this.events.beforeStart(id, folder);
      const postmaster = await startPostmaster(folder, this.binaries, options, signal);
      server.postmaster = postmaster;
      // Without its own group, the server still runs.
      await this.cgroups?.add(id, postmaster.pid, GROUP_LIMITS).catch(() => {});
      if (!signal.aborted) await this.events.started(id);
      const stop = async () => {
        await this.events.stopping(id, server.users === 0);
        await postmaster.stop();
        await this.cgroups?.remove(id);
      };
      return { ended: postmaster.ended, stop };
    });
  }

  private async sizeOf(id: string, server: ProjectServer): Promise<ServerTuning> {
    const { size } = this.settings;
    // Postgres will say what is wrong with files that cannot be read.
    const bytes = size.sharedBuffersMib === null ? await this.databaseBytes(id).catch(() => 0) : 0;
    const others = [...this.servers.values()].filter((other) => other !== server && other.state !== 'stopped');
    const larger = others.map(({ buffersMib }) => buffersMib).filter((mib) => mib > MIN_BUFFERS_MIB);
    const takenMib = larger.reduce((sum, mib) => sum + mib, 0);
    server.buffersMib = size.sharedBuffersMib ?? defaultSharedBuffers(bytes, takenMib);
    return {
      ...size,
      sharedBuffersMib: server.buffersMib,
      parallelWorkers: size.parallelWorkers ?? defaultParallelWorkers(availableParallelism(), this.cgroups !== null),
    };
  }

  /**
   * If `maxServers` run, stops the server that has been idle for longest.
   * @throws EngineError overloaded
   */
  private async makeRoomFor(server: ProjectServer): Promise<void> {
    if (this.closing) throw new EngineError('database_unavailable', 'The service is stopping');
    while (this.running >= this.settings.maxServers) {
      const all = [...this.servers];
      const stopping = all.find(([, { state }]) => state === 'stopping');
      const idle = all.filter(([, { state, users }]) => state === 'running' && users === 0);
      const [longest] = idle.sort(([, a], [, b]) => a.idleSince - b.idleSince);
      const [id, victim] = stopping ?? longest ?? [];
      if (id === undefined || victim === undefined) throw tooMany(this.settings.maxServers);
      await this.beforeStop(id, victim);
      if (victim.users === 0 || victim.state === 'stopping') await victim.stop();
      else this.events.inUse(id);
    }
    server.countsTowardLimit = true;
  }

  private async beforeStop(id: string, { state }: ProjectServer): Promise<void> {
    if (state !== 'running') return;
    const timeout = sleep(BEFORE_STOP_MS, undefined, { ref: false });
    // The server is stopped anyway.
    await Promise.race([this.events.beforeStop(id, Infinity).catch(() => {}), timeout]);
  }
}

/** The log and the metrics say it, so it is no outage. */
const DISK_FULL = { retryAfter: 10, dependency: null };

const diskFull = () =>
  new EngineError('disk_full', 'The disk of the service is nearly full: projects can only be read', {
    hint: 'Reads, deletes and drops still work. DROP and TRUNCATE free space at once.',
    ...DISK_FULL,
  });

const onlyDrops = () =>
  new EngineError('disk_full', 'The disk of the service is nearly full, and this project has grown all the same', {
    hint: 'Until there is room, only reads, VACUUM and requests that consist of drops are allowed.',
    ...DISK_FULL,
  });

const tooMany = (max: number) =>
  new EngineError('overloaded', `${max} projects are in use, and this machine cannot run more servers at once`);
