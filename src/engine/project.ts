/** One project as the operations of one request see it: its name, its limits, and the way to its database. */
import type { Lease } from '../tenancy/connections/connections.js';
import type { ProjectRow } from '../tenancy/control-rows.js';
import type { PoolName } from '../tenancy/connections/project-session.js';
import type { DatabaseAccess, Work } from './database-access.js';
import type { SchemaCache } from './insert/schema-cache.js';
import type { Deadline } from './limits/deadline.js';
import type { EventLoopThrottle } from './limits/event-loop-throttle.js';
import { WaitBudget } from './limits/wait-budget.js';
import type { OverQuota, QuotaImpact, Quotas } from './quota.js';
import type { Splitter } from './sql/splitter.js';
import type { RequestTrace } from './trace.js';

/** What all projects of a service share. */
export interface SharedServices {
  readonly database: DatabaseAccess;
  readonly quotas: Quotas;
  readonly throttle: EventLoopThrottle;
  readonly schemas: SchemaCache;
  readonly splitter: Splitter;
  /** Longest wait of one request, in milliseconds. */
  readonly waitMs: number;
}

export class Project {
  /** How long this request may still wait, in whatever queue. */
  readonly waitBudget: WaitBudget;

  constructor(
    private readonly row: ProjectRow,
    private readonly shared: SharedServices,
    /** Of the request; null if it is not traced. */
    readonly trace: RequestTrace | null,
  ) {
    this.waitBudget = new WaitBudget(shared.waitMs);
  }

  get id(): string {
    return this.row.id;
  }

  get name(): string {
    return this.row.name;
  }

  get schema(): string {
    return this.row.placement.schema;
  }

  get schemas(): SchemaCache {
    return this.shared.schemas;
  }

  get splitter(): Splitter {
    return this.shared.splitter;
  }

  /**
   * @param bytes of this project that are about to be read or encoded, or just were
   * @returns resolves when it may go on; undefined if there is nothing to wait for
   */
  throttle(bytes: number): Promise<void> | undefined {
    return this.shared.throttle.pause(this.id, bytes);
  }

  /** To be called before whatever makes the project larger. @throws EngineError quota_exceeded, database_unavailable */
  requireRoom(): Promise<void> | undefined {
    return this.shared.quotas.requireRoom(this.row);
  }

  /** Whether, and how, the project is over its disk quota; null at once if it has none. @throws EngineError database_unavailable */
  overQuota(): Promise<OverQuota | null> | null {
    return this.shared.quotas.overQuota(this.row);
  }

  /**
   * Runs `work` on a connection, see {@link DatabaseAccess.use}.
   * @param impact what the work may do to the size of the project before it is ended
   */
  use<T>(
    pool: PoolName,
    deadline: Deadline,
    work: Work<T>,
    impact: QuotaImpact = 'writes',
    trace: RequestTrace | null = this.trace,
  ): Promise<T> {
    return this.shared.database.use(this.row, { pool, deadline, impact, trace, waitBudget: this.waitBudget }, work);
  }

  /** The project may have changed what its roles may do: its next connections check and repair the rights. */
  distrust(lease: Lease): void {
    lease.closeAfterUse();
    this.shared.database.closeProject(this.id);
  }
}
