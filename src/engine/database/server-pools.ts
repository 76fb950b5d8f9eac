/** What requests share of each Postgres server. What hangs on one server takes nothing from the others. */
import { serverName } from '../../contract/servers.js';
import { Connections } from '../../tenancy/connections/connections.js';
import type { ProjectSessions } from '../../tenancy/connections/project-session.js';
import type { AddedServer, Placement } from '../../tenancy/placement.js';
import type { Replica } from '../../tenancy/replicas.js';
import type { Servers } from '../../tenancy/servers.js';
import type { Server } from '../../tenancy/tenancy.js';
import { type Load, noLoad, Slots, type WorkKind } from '../limits/slots.js';

/** For each server. */
export interface PoolSettings {
  /** Connections to projects' databases, the idle ones included. */
  maxConnections: number;
  /** The same of an added server that has no bound of its own. */
  addedConnections: number;
  /** Running over all projects; no more than there may be connections. */
  running: number;
  idleConnectionMs: number;
  /** Running per project; of those, kept for inserts and schema calls; waiting per project. */
  projectRunning: number;
  projectReserved: number;
  projectWaiting: number;
}

interface ServerPool {
  readonly maxConnections: number;
  /** null: each project has one of its own. */
  readonly server: Server | null;
  readonly replica: Replica | null;
  readonly slots: Slots;
  readonly connections: Connections;
}

export class ServerPools {
  /** By the name of the server, or of a replica. Projects' own servers count as one. */
  private readonly known = new Map<string, ServerPool>();

  constructor(
    private readonly servers: Servers,
    private readonly sessions: ProjectSessions,
    private readonly settings: PoolSettings,
  ) {}

  /**
   * @param replica null: of the server where the project lives
   * @throws EngineError database_unavailable if this instance does not have the server's URL
   */
  of(placement: Placement, replica: Replica | null = null): ServerPool {
    const name = replica?.name ?? serverName(placement);
    const maxConnections = this.boundOf(placement.added);
    const known = this.known.get(name);
    const server = placement.added === null ? null : this.servers.serverOf(placement);
    if (known?.maxConnections === maxConnections && known.replica === replica && known.server === server) return known;
    const { host } = (replica?.server ?? this.servers.serverOf(placement)).address;
    const pool = this.open(maxConnections, server, replica, host.startsWith('/'));
    this.known.set(name, pool);
    // The operator has changed the bound, the address, or the replica. Requests that run end on what they have.
    known?.connections.close();
    return pool;
  }

  /** Connections to the projects of a server. @param added null: the installation began with it */
  boundOf(added: Pick<AddedServer, 'maxConnections'> | null): number {
    const { maxConnections, addedConnections } = this.settings;
    return added === null ? maxConnections : (added.maxConnections ?? addedConnections);
  }

  get connections(): { server: string; open: number; most: number }[] {
    return Array.from(this.known, ([server, { connections }]) => {
      const { open, most } = connections;
      return { server, open, most };
    });
  }

  /** Requests running and waiting now. @param project undefined: of all projects */
  load(project?: string): Record<WorkKind, Load> {
    const load = noLoad();
    for (const { slots } of this.known.values()) slots.addLoad(load, project);
    return load;
  }

  /** Closes the idle connections of a project, and the others after their use. */
  closeProject(project: string): void {
    for (const { connections } of this.known.values()) connections.closeProject(project);
  }

  close(): void {
    for (const { connections } of this.known.values()) connections.close();
  }

  private open(maxConnections: number, server: Server | null, replica: Replica | null, isLocal: boolean): ServerPool {
    const { running, projectRunning, projectReserved, projectWaiting, idleConnectionMs } = this.settings;
    const slots = new Slots({
      total: Math.min(running, maxConnections),
      running: projectRunning,
      reservedForTyped: projectReserved,
      waiting: projectWaiting,
    });
    const sessions: Pick<ProjectSessions, 'open'> = {
      open: (placement, pool) => this.sessions.open(placement, pool, null, replica?.server),
    };
    const connections = new Connections(sessions, {
      total: maxConnections,
      // As many of each kind as may run: else each change of what runs would close connections and log others in.
      perProject: 2 * projectRunning - projectReserved,
      idleMs: idleConnectionMs,
      isLocal,
    });
    return { maxConnections, server, replica, slots, connections };
  }
}
