/** Slots and connections of each Postgres server. A server that hangs takes none from the others. */
import { DEFAULT_SERVER, serverName } from '../contract/servers.js';
import type { Log } from '../log.js';
import { ProjectConnectionPool } from '../tenancy/connections/project-connection-pool.js';
import type { ProjectSessions } from '../tenancy/connections/project-session.js';
import type { AddedServer, Placement } from '../tenancy/placement.js';
import type { Replica } from '../tenancy/replicas.js';
import type { Servers } from '../tenancy/servers.js';
import type { PostgresServer } from '../tenancy/postgres-server.js';
import { type Load, noLoad, Slots, type SlotClass } from './slots.js';

/** Limits that apply to each server. */
export interface CapacitySettings {
  /** Connections to projects' databases, including idle ones. */
  maxConnections: number;
  /** As `maxConnections`, for an added server without a limit of its own. */
  addedConnections: number;
  /** Requests running over all projects; at most the number of connections. */
  running: number;
  idleConnectionMs: number;
  /** Requests running per project; how many of those are reserved for inserts and schema calls; waiting per project. */
  projectRunning: number;
  projectReserved: number;
  projectWaiting: number;
  log: Log;
}

interface ServerCapacity {
  readonly maxConnections: number;
  /** null: the default server. */
  readonly server: PostgresServer | null;
  readonly replica: Replica | null;
  readonly slots: Slots;
  readonly pool: ProjectConnectionPool;
}

export class ServerCapacities {
  /** By name of the server or replica. Embedded servers of projects share one entry. */
  private readonly byServer = new Map<string, ServerCapacity>();

  constructor(
    private readonly servers: Servers,
    private readonly sessions: ProjectSessions,
    private readonly settings: CapacitySettings,
  ) {}

  /**
   * @param replica null: the server where the project lives
   * @throws EngineError database_unavailable if this instance does not have the server's URL
   */
  forPlacement(placement: Placement, replica: Replica | null = null): ServerCapacity {
    const name = replica?.name ?? serverName(placement);
    const maxConnections = this.connectionLimit(placement.added);
    const existing = this.byServer.get(name);
    const server = placement.added === null ? null : this.servers.serverOf(placement);
    if (existing?.maxConnections === maxConnections && existing.replica === replica && existing.server === server)
      return existing;
    const { host } = (replica?.server ?? this.servers.serverOf(placement)).address;
    // The operator may have changed the limit, the address or the replica. Running requests keep their connections, and
    // count as before.
    const slots = existing?.slots ?? this.newSlots();
    slots.setTotal(Math.min(this.settings.running, maxConnections));
    const pool = this.newPool(maxConnections, replica, host.startsWith('/'));
    const capacity = { maxConnections, server, replica, slots, pool };
    this.byServer.set(name, capacity);
    existing?.pool.close();
    return capacity;
  }

  /** Closes those of servers and replicas that were removed. @param names of those that remain, besides the default server */
  retain(names: readonly string[]): void {
    for (const [name, { pool }] of this.byServer) {
      if (name === DEFAULT_SERVER || names.includes(name)) continue;
      this.byServer.delete(name);
      pool.close();
    }
  }

  /** The limit of connections to the projects of a server. @param added null: the default server */
  connectionLimit(added: Pick<AddedServer, 'maxConnections'> | null): number {
    const { maxConnections, addedConnections } = this.settings;
    return added === null ? maxConnections : (added.maxConnections ?? addedConnections);
  }

  get connections(): { server: string; open: number; max: number }[] {
    return Array.from(this.byServer, ([server, { pool }]) => {
      const { open, max } = pool;
      return { server, open, max };
    });
  }

  /** Requests running and waiting now. @param projectId undefined: of all projects */
  load(projectId?: string): Record<SlotClass, Load> {
    const load = noLoad();
    for (const { slots } of this.byServer.values()) slots.addLoad(load, projectId);
    return load;
  }

  /** Closes the idle connections of a project at once, and the others after use. */
  closeProject(projectId: string): void {
    for (const { pool } of this.byServer.values()) pool.closeProject(projectId);
  }

  close(): void {
    for (const { pool } of this.byServer.values()) pool.close();
  }

  private newSlots(): Slots {
    const { running, projectRunning, projectReserved, projectWaiting } = this.settings;
    return new Slots({
      total: running,
      running: projectRunning,
      reservedForTyped: projectReserved,
      waiting: projectWaiting,
    });
  }

  private newPool(maxConnections: number, replica: Replica | null, isLocal: boolean): ProjectConnectionPool {
    const { projectRunning, projectReserved, idleConnectionMs, log } = this.settings;
    const sessions: Pick<ProjectSessions, 'open'> = {
      open: (connection) => this.sessions.open({ ...connection, replica: replica?.server ?? null }),
    };
    const limits = {
      total: maxConnections,
      // As many of each kind as may run; otherwise a change in the mix would close connections and open others.
      perProject: 2 * projectRunning - projectReserved,
      idleMs: idleConnectionMs,
      isLocal,
    };
    return new ProjectConnectionPool(sessions, limits, log);
  }
}
