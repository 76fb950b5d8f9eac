/**
 * Ends autovacuum where a project keeps it. It runs the functions of a table's indexes and statistics, for as long as those
 * like: no time limit of Postgres holds there, and a few such tables would keep it from everybody (docs/decisions/0016).
 */
import type pg from 'pg';
import { type BackendPriority, GIVES_WAY } from './embedded/priority.js';
import type { ServerAddress } from './server.js';
import { withServiceClient } from './service-pool.js';

const LOOK_MS = 5_000;

/**
 * A worker that is found at a project's functions at so many looks in a row is told to leave the table: after 25 to 30 s. The
 * sample of a table has 30,000 rows, so functions may take most of a millisecond each. If it is found there once more it is
 * ended: it was told once already, or does not listen.
 */
const LOOKS = 6;

/** In a database where that has happened within the last hour: after 5 to 10 s. */
const LOOKS_AFTER_AN_END = 2;
const REMEMBERED_MS = 3_600_000;

/** One of autovacuum's processes at work in a project's database, at what may be the project's functions. */
interface Worker {
  readonly pid: number;
  /** Tells it from a later process that was given the same pid. */
  readonly began: string;
  readonly project: string;
  readonly database: string;
  /** The table whose indexes VACUUM is cleaning up; null: it is not at that. */
  readonly vacuumed: string | null;
}

/** Found at so many looks in a row. */
interface Found {
  looks: number;
  told: boolean;
}

/**
 * Who computes statistics, or cleans up indexes, which for BRIN makes summaries of their values; sampling a table and the other
 * steps of VACUUM run nothing of the project's (manual 27.4.1 and 27.4.5, phases of ANALYZE and VACUUM). And who is at a
 * table without any progress: summaries by themselves report none, and a function that catches an error has wiped it out.
 */
const AT_FUNCTIONS = `
  SELECT a.pid, a.backend_start::text AS began, p.name AS project, p.database_name AS database,
    CASE WHEN v.phase = 'cleaning up indexes' THEN v.relid::text END AS vacuumed
  FROM cdp.projects p JOIN pg_stat_activity a ON a.datname = p.database_name
    LEFT JOIN pg_stat_progress_analyze s USING (pid) LEFT JOIN pg_stat_progress_vacuum v USING (pid)
  WHERE a.backend_type = 'autovacuum worker' AND (s.phase LIKE 'computing %' OR v.phase = 'cleaning up indexes'
    OR s.pid IS NULL AND v.pid IS NULL AND a.query LIKE 'autovacuum: %')`;

/** Of a table, in its database: to clean up other indexes takes its time. */
const HAS_FUNCTIONS_IN_BRIN = `
  SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
  WHERE i.indrelid = $1::oid AND a.amname = 'brin' AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)`;

const THIS_WORKER = 'FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2::timestamptz';
const LEAVE_TABLE = `SELECT pg_cancel_backend(pid) ${THIS_WORKER}`;
const END = `SELECT pg_terminate_backend(pid) ${THIS_WORKER}`;

/** Told of a project whose functions have kept autovacuum, and of why that could not be ended. */
export type OnAutovacuumKept = (project: string, failure: Error | null) => void;

export class AutovacuumWatch {
  private found = new Map<string, Found>();
  /** When a worker was last told to leave a table of a project, by its name. */
  private readonly ended = new Map<string, number>();
  private readonly timer: NodeJS.Timeout;
  private looking = false;

  /**
   * @param pool of the service's own role; where that may not see autovacuum's workers, none is ended
   * @param priority lets workers give way as well; null where the server is not our own
   */
  constructor(
    private readonly address: ServerAddress,
    private readonly pool: pg.Pool,
    private readonly priority: BackendPriority | null,
    private readonly onKept: OnAutovacuumKept,
  ) {
    this.timer = setInterval(() => {
      if (this.looking) return;
      this.looking = true;
      // Where the server cannot be asked, the next look comes soon.
      void this.look()
        .catch(() => {})
        .finally(() => (this.looking = false));
    }, LOOK_MS).unref();
  }

  close(): void {
    clearInterval(this.timer);
  }

  private async look(): Promise<void> {
    const { rows } = await this.pool.query<Worker>(AT_FUNCTIONS);
    const before = this.found;
    this.found = new Map();
    for (const worker of rows) {
      if (!(await this.runsFunctions(worker))) continue;
      const key = `${worker.pid} ${worker.began}`;
      const found = before.get(key) ?? { looks: 0, told: false };
      this.found.set(key, found);
      found.looks++;
      if (found.looks === 1) void this.priority?.lower(worker.pid, GIVES_WAY).catch(() => {});
      if (found.looks >= this.allowed(worker.project)) await this.tell(worker, found);
    }
  }

  /** Where the database cannot be asked, it counts as if it did not. */
  private async runsFunctions({ database, vacuumed }: Worker): Promise<boolean> {
    if (vacuumed === null) return true;
    const asking = withServiceClient(this.address, database, (client) =>
      client.query(HAS_FUNCTIONS_IN_BRIN, [vacuumed]),
    );
    return asking.then(
      ({ rowCount }) => rowCount !== 0,
      () => false,
    );
  }

  private async tell({ pid, began, project }: Worker, found: Found): Promise<void> {
    this.ended.set(project, performance.now());
    try {
      const { rowCount } = await this.pool.query(found.told ? END : LEAVE_TABLE, [pid, began]);
      // It is said once; and another process of the service may have ended it.
      if (!found.told && rowCount !== 0) this.onKept(project, null);
    } catch (error) {
      if (!found.told) this.onKept(project, error as Error);
    }
    found.told = true;
  }

  private allowed(project: string): number {
    const last = this.ended.get(project);
    if (last === undefined) return LOOKS;
    if (performance.now() - last < REMEMBERED_MS) return LOOKS_AFTER_AN_END;
    this.ended.delete(project);
    return LOOKS;
  }
}
