/** A project as the operations of one request see it: its name, its limits, and access to its database. */
import type { Consistency } from '../contract/servers.js';
import type { ProjectRow } from '../tenancy/control/control-rows.js';
import { isReader } from '../tenancy/connections/connection-kind.js';
import { isOnCitus } from '../tenancy/placement.js';
import type { DatabaseAccess, ProjectOfRequest, ProjectUse, Work } from './database/database-access.js';
import type { SchemaCache } from './insert/schema-cache.js';
import type { EventLoopThrottle } from './limits/event-loop-throttle.js';
import { WaitBudget } from './limits/wait-budget.js';
import { DryRun } from './write/dry-run.js';
import { positionOf, UNKNOWN_POSITION } from './database/position.js';
import type { Quotas } from './limits/quota.js';
import type { Requester } from './parser/parser-pool.js';
import type { Splitter } from './parser/splitter.js';
import type { RequestTrace } from './database/trace.js';

/** Services that all projects share. */
export interface SharedServices {
  readonly database: DatabaseAccess;
  readonly quotas: Quotas;
  readonly throttle: EventLoopThrottle;
  readonly schemaCache: SchemaCache;
  readonly splitter: Splitter;
  /** Maximum wait of one request, in milliseconds. */
  readonly waitMs: number;
  /** How long refused records are kept. */
  readonly quarantineDays: number;
}

export class Project implements ProjectOfRequest {
  constructor(
    readonly row: ProjectRow,
    readonly shared: SharedServices,
    /** Trace of the request; null: it is not traced. */
    readonly trace: RequestTrace | null,
    readonly replica: ProjectOfRequest['replica'] = null,
    /** How long this request may still wait, in any queue. */
    readonly waitBudget = new WaitBudget(shared.waitMs),
    /** null: the request's changes are kept. */
    readonly dryRun: DryRun | null = null,
  ) {}

  /** The project for a request whose changes are rolled back at the end. */
  inDryRun(): Project {
    const { row, shared, trace, replica, waitBudget, schema } = this;
    return new Project(row, shared, trace, replica, waitBudget, new DryRun(schema));
  }

  get id(): string {
    return this.row.id;
  }

  get name(): string {
    return this.row.name;
  }

  /** Includes the place, since what is cached about tables holds only there. */
  get cacheKey(): string {
    const { id, placement } = this.row;
    return `${id} ${placement.server} ${placement.database}`;
  }

  /** Who waits for the parser. */
  requester(signal: AbortSignal): Requester {
    return { project: this.id, budget: this.waitBudget, signal };
  }

  get schema(): string {
    return this.row.placement.schema;
  }

  /** Whether tables may be distributed over the workers of a cluster. */
  get isOnCitus(): boolean {
    return isOnCitus(this.row.placement);
  }

  /** Whether the server has streaming replicas. */
  get hasReplicas(): boolean {
    return this.row.replicas !== null;
  }

  /** The default for reads that do not specify one. */
  get consistency(): Consistency {
    return this.row.replicas?.consistency ?? 'strong';
  }

  /**
   * The project at a replica, for reads.
   * @param position that the replica must have reached, see `database/position.ts`
   * @returns null if no replica answers
   */
  atReplica(position: string | undefined): Project | null {
    const { row, shared, trace, waitBudget } = this;
    const at = shared.database.servers.replicas.next(row.replicas?.references ?? []);
    return at && new Project(row, shared, trace, { at, position }, waitBudget);
  }

  /** The position of its server after everything committed so far. Never rejects: the write has already succeeded. */
  async position(): Promise<string> {
    try {
      return await positionOf(this.shared.database.servers.serverOf(this.row.placement));
    } catch {
      // The server's URL has been replaced since the write began.
      return UNKNOWN_POSITION;
    }
  }

  /** Runs `work` on a connection, see {@link DatabaseAccess.use}. For a write that a dry run may undo, see `runWrite`. */
  use<T>(use: ProjectUse, work: Work<T>): Promise<T> {
    if (this.dryRun !== null && !isReader(use.connection)) throw new Error('A dry run writes only by runWrite');
    return this.shared.database.use(this, use, work);
  }
}
