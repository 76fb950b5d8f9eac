/** Slots and connections of each Postgres server. A server that hangs takes none from the others. */
import { DEFAULT_SERVER, serverName } from '../../contract/servers.js';
import { Connections } from '../../tenancy/connections/connections.js';
import type { ProjectSessions } from '../../tenancy/connections/project-session.js';
import type { AddedServer, Placement } from '../../tenancy/placement.js';
import type { Replica } from '../../tenancy/replicas.js';
import type { Servers } from '../../tenancy/servers.js';
import type { Server } from '../../tenancy/tenancy.js';
import { type Load, noLoad, Slots, type WorkKind } from '../limits/slots.js';

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
}

interface ServerCapacity {
  readonly maxConnections: number;
  /** null: the default server. */
  readonly server: Server | null;
  readonly replica: Replica | null;
  readonly slots: Slots;
  readonly connections: Connections;
}

export class ServerCapacities {
  /** By name of the server or replica. Embedded servers of projects share one entry. */
  private readonly known = new Map<string, ServerCapacity>();

  constructor(
    private readonly servers: Servers,
    private readonly sessions: ProjectSessions,
    private readonly settings: CapacitySettings,
  ) {}

  /**
   * @param replica null: the server where the project lives
   * @throws EngineError database_unavailable if this instance does not have the server's URL
   */
  of(placement: Placement, replica: Replica | null = null): ServerCapacity {
    const name = replica?.name ?? serverName(placement);
    const maxConnections = this.connectionLimit(placement.added);
    const known = this.known.get(name);
    const server = placement.added === null ? null : this.servers.serverOf(placement);
    if (known?.maxConnections === maxConnections && known.replica === replica && known.server === server) return known;
    const { host } = (replica?.server ?? this.servers.serverOf(placement)).address;
    const capacity = this.open(maxConnections, server, replica, host.startsWith('/'));
    this.known.set(name, capacity);
    // The operator has changed the limit, the address or the replica. Running requests keep their connections.
    known?.connections.close();
    return capacity;
  }

  /** Closes those of servers and replicas that were removed. @param names of those that remain, besides the default server */
  retain(names: readonly string[]): void {
    for (const [name, { connections }] of this.known) {
      if (name === DEFAULT_SERVER || names.includes(name)) continue;
      this.known.delete(name);
      connections.close();
    }
  }

  /** The limit of connections to the projects of a server. @param added null: the default server */
  connectionLimit(added: Pick<AddedServer, 'maxConnections'> | null): number {
    const { maxConnections, addedConnections } = this.settings;
    return added === null ? maxConnections : (added.maxConnections ?? addedConnections);
  }

  get connections(): { server: string; open: number; max: number }[] {
    return Array.from(this.known, ([server, { connections }]) => {
      const { open, max } = connections;
      return { server, open, max };
    });
  }

  /** Requests running and waiting now. @param project undefined: of all projects */
  load(project?: string): Record<WorkKind, Load> {
    const load = noLoad();
    for (const { slots } of this.known.values()) slots.addLoad(load, project);
    return load;
  }

  /** Closes the idle connections of a project at once, and the others after use. */
  closeProject(project: string): void {
    for (const { connections } of this.known.values()) connections.closeProject(project);
  }

  close(): void {
    for (const { connections } of this.known.values()) connections.close();
  }

  private open(
    maxConnections: number,
    server: Server | null,
    replica: Replica | null,
    isLocal: boolean,
  ): ServerCapacity {
    const { running, projectRunning, projectReserved, projectWaiting, idleConnectionMs } = this.settings;
    const slots = new Slots({
      total: Math.min(running, maxConnections),
      running: projectRunning,
      reservedForTyped: projectReserved,
      waiting: projectWaiting,
    });
    const sessions: Pick<ProjectSessions, 'open'> = {
      open: (connection) => this.sessions.open({ ...connection, replica: replica?.server ?? null }),
    };
    const connections = new Connections(sessions, {
      total: maxConnections,
      // As many of each kind as may run; otherwise a change in the mix would close connections and open others.
      perProject: 2 * projectRunning - projectReserved,
      idleMs: idleConnectionMs,
      isLocal,
    });
    return { maxConnections, server, replica, slots, connections };
  }
}
