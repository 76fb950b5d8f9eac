/** The servers of all projects: copied from one template, and started on demand, as many as the machine can run. */
import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join, relative, sep } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EngineError } from '../contract/errors.js';
import { exists } from '../files.js';
import { calledByRoot, ProjectAccounts, type UidRange } from './accounts.js';
import { type Binaries, refuseOtherMajor } from './binaries.js';
import type { ProjectCgroups } from './cgroup.js';
import { copyCluster } from './cluster.js';
import { PORT, serverConfig, type ServerSize, SUPERUSER } from './config.js';
import type { ServersFolder } from './servers-folder.js';
import { bytesIn } from './disk-reserve.js';
import { memoryBytes } from './process-limits.js';
import { removeLeftovers } from './lock-file.js';
import { Niceness } from './niceness.js';
import { type Postmaster, startPostmaster } from './postmaster.js';
import { parentOf } from './proc.js';
import { findPostmasters, stopPostmaster } from './processes.js';
import {
  ARCHIVE,
  ARCHIVE_SETTINGS,
  CONTROL,
  existingServerFolder,
  makeServerFolder,
  projectFolder,
  PROJECTS,
  serverFolder,
  type ServerFolder,
} from './server-folder.js';
import { StartQueue } from './start-queue.js';
import { type Running, SupervisedServer } from './supervised-server.js';
import { FleetSweeper, type SweeperEvents, type SweeperSettings } from './fleet-sweeper.js';

export interface FleetSettings extends SweeperSettings {
  readonly size: ServerSize;
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

export interface FleetEvents extends SweeperEvents {
  /** A server exited unexpectedly, or did not start. */
  failed(id: string, reason: string, pauseMs: number): void;
}

/** How to connect to a server as its superuser; `host` is the folder of its socket. */
export interface Socket {
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

class ProjectServer extends SupervisedServer {
  postmaster: Postmaster | null = null;
  /** Whether the server counts toward `maxServers`. One that is starting and does not count still waits for its turn. */
  hasRoom = false;
}

export class Fleet {
  /** Lowers the priority of busy processes; null: the servers have control groups, which share the processors. */
  readonly niceness: Niceness | null;
  private readonly servers = new Map<string, ProjectServer>();
  private readonly queue = new StartQueue(2 * availableParallelism());
  private readonly accounts: ProjectAccounts | null;
  private readonly sweeper: FleetSweeper;
  private closing = false;
  private preparing: Promise<unknown> = Promise.resolve();

  /** @param template returns the data directory from which new servers are copied, and creates it if it is missing */
  constructor(
    private readonly serversFolder: ServersFolder,
    private readonly binaries: Binaries,
    private readonly template: () => Promise<string>,
    private readonly settings: FleetSettings,
    private readonly events: FleetEvents,
    private readonly cgroups: ProjectCgroups | null,
  ) {
    const { folder, owner } = serversFolder;
    const owned = [
      { path: join(folder, PROJECTS), below: 'data' },
      { path: join(folder, ARCHIVE), below: '' },
    ];
    const { uids } = settings;
    this.accounts = uids !== null && calledByRoot() && owner.uid === 0 ? new ProjectAccounts(uids, owned) : null;
    this.sweeper = new FleetSweeper(serversFolder, this.servers, settings, events);
    this.niceness = cgroups === null ? new Niceness(async (pid) => this.isPostmaster(await parentOf(pid))) : null;
  }

  /** Stops the servers that an earlier service has left running. Only requests that need one of them wait. */
  async stopLeftBehind(): Promise<void> {
    for (const found of await findPostmasters(this.serversFolder.folder)) {
      const [place, id = ''] = relative(this.serversFolder.folder, found.data).split(sep);
      const stop = () => stopPostmaster(found.pid, found.data);
      if (place === PROJECTS) this.of(id).awaitEnd(stop());
      // A template was being built on this server.
      else if (place !== CONTROL) void stop().catch(() => {});
    }
    // Makes the template available for the next new project.
    this.preparing = this.template().catch(() => {});
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
    return Number.parseInt(this.version);
  }

  /** Whether a server with this id exists, running or not. */
  has(id: string): Promise<boolean> {
    return exists(join(this.serversFolder.folder, projectFolder(id)));
  }

  /** The number of servers that are running, starting or stopping. */
  get running(): number {
    return [...this.servers.values()].filter(
      ({ state, hasRoom }) => state === 'running' || state === 'stopping' || (state === 'starting' && hasRoom),
    ).length;
  }

  isRunning(id: string): boolean {
    return this.servers.get(id)?.state === 'running';
  }

  /** Whether the fleet started a postmaster with this process id. */
  private isPostmaster(pid: number): boolean {
    // The id of a server that has ended may belong to another program now.
    return [...this.servers.values()].some(({ state, postmaster }) => state === 'running' && postmaster?.pid === pid);
  }

  socket(id: string): Socket {
    return { host: serverFolder(this.serversFolder, projectFolder(id)).socketDir, port: PORT, user: SUPERUSER };
  }

  /** See {@link SupervisedServer.acquire}. */
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
    return bytesIn(join(data, 'base', DATABASE_OID));
  }

  /** Creates the folder of a new server without a data directory, which the caller creates. */
  async createEmpty(id: string): Promise<ServerFolder> {
    const folder = serverFolder(this.serversFolder, projectFolder(id), await this.accounts?.take(id));
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

  /** Whether the server's write-ahead log is archived. */
  async archivesWal(id: string): Promise<boolean> {
    return exists(join((await this.folderOf(id)).root, ARCHIVE_SETTINGS));
  }

  /** Stops a server, and removes all of its files. Can be repeated after a partial removal. */
  async remove(id: string): Promise<void> {
    await this.of(id).close();
    const folder = await this.folderOf(id).catch(() => serverFolder(this.serversFolder, projectFolder(id)));
    await removeLeftovers(folder);
    await rm(folder.root, { recursive: true, force: true, maxRetries: 8 });
    await rm(join(folder.socketDir, '..'), { recursive: true, force: true });
    this.servers.delete(id);
    this.accounts?.release(id);
  }

  /** Stops a server, for instance to change its settings; the next request starts it again. */
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
    this.sweeper.close();
    await this.preparing;
    await Promise.all([...this.servers].map(([id, server]) => this.beforeStop(id, server).then(() => server.close())));
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
    server.hasRoom = false;
    return this.queue.run(async () => {
      await this.makeRoomFor(server);
      const folder = await this.folderOf(id);
      await refuseOtherMajor(folder.data, this.binaries);
      const { size, backendMib } = this.settings;
      const options = { config: serverConfig(folder, size), backendMib, exclusive: true };
      const postmaster = await startPostmaster(folder, this.binaries, options, signal);
      server.postmaster = postmaster;
      // Without its own group, the server still runs.
      await this.cgroups?.add(id, postmaster.pid, GROUP_LIMITS).catch(() => {});
      const stop = async () => {
        await postmaster.stop();
        await this.cgroups?.remove(id);
      };
      return { ended: postmaster.ended, stop };
    });
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
    }
    server.hasRoom = true;
  }

  private async beforeStop(id: string, { state }: ProjectServer): Promise<void> {
    if (state !== 'running') return;
    const timeout = sleep(BEFORE_STOP_MS, undefined, { ref: false });
    await Promise.race([this.events.beforeStop(id, Infinity).catch(() => {}), timeout]);
  }
}

const tooMany = (max: number) =>
  new EngineError('overloaded', `${max} projects are in use, and this machine cannot run more servers at once`);
