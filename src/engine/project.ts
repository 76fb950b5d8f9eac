/** A project as the operations of one request see it: its name, its limits, and access to its database. */
import type { Consistency } from '../contract/servers.js';
import type { ProjectRow } from '../tenancy/control/control-rows.js';
import { isOnCitus } from '../tenancy/placement.js';
import type { ConnectionKind } from '../tenancy/connections/project-session.js';
import type { Replica } from '../tenancy/replicas.js';
import type { DatabaseAccess, Work } from './database/database-access.js';
import type { SchemaCache } from './insert/schema-cache.js';
import type { Deadline } from './limits/deadline.js';
import type { EventLoopThrottle } from './limits/event-loop-throttle.js';
import { WaitBudget } from './limits/wait-budget.js';
import { DryRun } from './database/dry-run.js';
import { awaitPosition, positionOf, UNKNOWN_POSITION } from './database/position.js';
import type { QuotaImpact, Quotas } from './limits/quota.js';
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

/** How a request uses the project's database. */
interface ProjectUse {
  readonly connection: ConnectionKind;
  readonly deadline: Deadline;
  /** The effect that the work may have on the size of the project. */
  readonly impact?: QuotaImpact | undefined;
  /** Default: the trace of the request. */
  readonly trace?: RequestTrace | null | undefined;
}

export class Project {
  constructor(
    readonly row: ProjectRow,
    readonly shared: SharedServices,
    /** Trace of the request; null: it is not traced. */
    readonly trace: RequestTrace | null,
    /**
     * The replica to read from, and the position that it must have reached; null: the server where the project lives.
     */
    private readonly replica: { readonly at: Replica; readonly position: string | undefined } | null = null,
    /** How long this request may still wait, in any queue. */
    readonly waitBudget = new WaitBudget(shared.waitMs),
    /** null: the request's changes are kept. */
    readonly dryRun: DryRun | null = null,
  ) {}

  /** The project for a request whose changes are rolled back at the end. */
  inDryRun(): { project: Project; dryRun: DryRun } {
    const { row, shared, trace, replica, waitBudget, schema } = this;
    const dryRun = new DryRun(schema);
    return { project: new Project(row, shared, trace, replica, waitBudget, dryRun), dryRun };
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

  /** Runs `work` on a connection, see {@link DatabaseAccess.use}. */
  use<T>({ connection, deadline, impact = 'writes', trace = this.trace }: ProjectUse, work: Work<T>): Promise<T> {
    const { dryRun, waitBudget } = this;
    const { at = null, position } = this.replica ?? {};
    const run: Work<T> =
      dryRun === null ? work : (lease, clock) => dryRun.begin(lease.session).then(() => work(lease, clock));
    const runThere: Work<T> =
      at === null ? run : (lease, clock) => awaitPosition(lease, clock, position).then(() => run(lease, clock));
    const use = { connection, deadline, impact, trace, waitBudget, replica: at };
    return this.shared.database.use(this.row, use, runThere);
  }
}
