/**
 * Ends autovacuum where a project keeps it. ANALYZE, and the summaries of BRIN, run the functions of a table's indexes and
 * statistics, for as long as those like: no time limit of Postgres holds in autovacuum, and a few such tables would keep
 * it from everybody (docs/decisions/0016).
 */
import type pg from 'pg';
import { type BackendPriority, GIVES_WAY } from './embedded/priority.js';

const LOOK_MS = 5_000;

/**
 * A worker that is found at a project's functions at so many looks in a row is ended: after 25 to 30 s. The sample of a table has
 * 30,000 rows, so functions may take most of a millisecond each.
 */
const LOOKS = 6;

/** In a database where that has happened within the last hour: after 5 to 10 s. */
const LOOKS_AFTER_AN_END = 2;
const REMEMBERED_MS = 3_600_000;

/** In place of a number of looks: one that is there all the same (strpos) need not be told again. */
const TOLD = -Infinity;

/** One of autovacuum's processes at work in a project's database, at what may be the project's functions. */
interface Worker {
  readonly pid: number;
  /** Tells it from a later process that was given the same pid. */
  readonly began: string;
  readonly project: string;
}

/** Sampling a table runs nothing of the project's, nor does VACUUM (manual 27.4.1, phases of ANALYZE). */
const AT_FUNCTIONS = {
  text: `SELECT a.pid, a.backend_start::text AS began, p.name AS project
    FROM cdp.projects p JOIN pg_stat_activity a ON a.datname = p.database_name LEFT JOIN pg_stat_progress_analyze s USING (pid)
    WHERE a.backend_type = 'autovacuum worker'
      AND (s.phase LIKE 'computing %' OR a.query LIKE 'autovacuum: BRIN summarize %')`,
};

const END = 'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2::timestamptz';

/** Told of a project whose functions have kept autovacuum, and of why that could not be ended. */
export type OnAutovacuumKept = (project: string, failure: Error | null) => void;

export class AutovacuumWatch {
  /** Looks in a row at which each worker was found. */
  private looks = new Map<string, number>();
  /** When a worker was last ended for a project, by its name. */
  private readonly ended = new Map<string, number>();
  private readonly timer: NodeJS.Timeout;
  private looking = false;

  /**
   * @param pool of the service's own role; where that may not see autovacuum's workers, none is ended
   * @param priority lets workers give way as well; null where the server is not our own
   */
  constructor(
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
    const before = this.looks;
    this.looks = new Map();
    for (const worker of rows) {
      const { pid, began, project } = worker;
      const key = `${pid} ${began}`;
      const looks = (before.get(key) ?? 0) + 1;
      this.looks.set(key, looks);
      if (looks === 1) await this.priority?.lower(pid, GIVES_WAY);
      if (looks >= this.allowed(project)) this.looks.set(key, (await this.end(worker)) ? TOLD : 0);
    }
  }

  /** @returns false where it could not be told to end */
  private async end({ pid, began, project }: Worker): Promise<boolean> {
    this.ended.set(project, performance.now());
    try {
      const { rowCount } = await this.pool.query(END, [pid, began]);
      // Another process of the service may have told it.
      if (rowCount !== 0) this.onKept(project, null);
      return true;
    } catch (error) {
      this.onKept(project, error as Error);
      return false;
    }
  }

  private allowed(project: string): number {
    const last = this.ended.get(project);
    if (last === undefined) return LOOKS;
    if (performance.now() - last < REMEMBERED_MS) return LOOKS_AFTER_AN_END;
    this.ended.delete(project);
    return LOOKS;
  }
}
