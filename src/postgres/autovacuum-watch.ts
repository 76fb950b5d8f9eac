/**
 * Ends autovacuum where a project keeps it from the others. It runs the functions of a table's indexes and statistics for as
 * long as those like, and as slowly as the table's own settings ask for: no time limit of Postgres holds there, and its few
 * workers serve all projects (docs/decisions/0016).
 */
import type pg from 'pg';
import type { Niceness } from './embedded/niceness.js';
import type { DatabaseSizes } from './projects/database-size.js';

const LOOK_S = 5;

/** A visit to a table may take so long for its size: what Postgres's own settings let five workers write together. */
const BYTES_PER_S = 8 * 1024 * 1024;

/** Of what a project has spent, half is forgotten after so long. */
const HALF_LIFE_S = 600;

/** Seconds of workers that a project has spent before any has to leave, where others wait. */
const SPENT_S = 30;

/** Seconds of one visit after which it ends although nobody waits: its snapshot keeps dead rows of all catalogs. */
const VISIT_S = 600;

/** A visit that has outlasted its size for so long may not let its database grow by more (a function may call REINDEX). */
const WATCHED_S = 10;
const GROWTH_BYTES = 256 * 1024 * 1024;

/** Looks after which a worker that was ended and is still there is said not to end. */
const LOOKS_TO_END = 6;

/** One of autovacuum's processes at work in a project's database. */
interface Worker {
  readonly pid: number;
  /** Tells it from a later process that was given the same pid. */
  readonly began: string;
  readonly id: string;
  readonly project: string;
  readonly database: string;
  /** When it came to the table that it is at. */
  readonly visit: string;
  /** What it is to read there, where it has said so. */
  readonly bytes: number;
  /** All of the server's workers are busy. */
  readonly isShort: boolean;
}

/** A worker at one table. */
interface Visit {
  /** Seconds that it may take for the table's size, of which `spent` are none. */
  creditFor: number;
  credit: number;
  spent: number;
  /** Bytes of the database when it began to be watched. */
  size: number | null;
}

/**
 * Whatever they are doing: a project can stretch any step, the first by an expression of constants, the samples and scans by
 * the table's cost settings, the others by locks and functions.
 */
const WORKERS = `
  SELECT a.pid, a.backend_start::text AS began, p.id::text, p.name AS project, p.database_name AS database,
    coalesce(a.query_start::text, '') AS visit,
    coalesce(s.sample_blks_total, v.heap_blks_total, 0)::float8 * current_setting('block_size')::int AS bytes,
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker')
      >= current_setting('autovacuum_max_workers')::int AS "isShort"
  FROM cdp.projects p JOIN pg_stat_activity a ON a.datname = p.database_name
    LEFT JOIN pg_stat_progress_analyze s USING (pid) LEFT JOIN pg_stat_progress_vacuum v USING (pid)
  WHERE a.backend_type = 'autovacuum worker'`;

const THIS_WORKER = 'FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2::timestamptz';
const LEAVE_TABLE = `SELECT pg_cancel_backend(pid) ${THIS_WORKER}`;
const END = `SELECT pg_terminate_backend(pid) ${THIS_WORKER}`;

/**
 * Told of a project whose tables have kept autovacuum.
 * @param failure why that could not be ended; null: it was told to leave
 */
export type OnAutovacuumKept = (project: string, failure: Error | null) => void;

export class AutovacuumWatch {
  private visits = new Map<string, Visit>();
  /** How many looks ago a worker was first told to leave a table, and so is ended at the next. */
  private told = new Map<string, number>();
  /** Seconds of workers that projects have spent beyond what the sizes of their tables explain, by id. */
  private readonly spent = new Map<string, number>();
  private readonly timer: NodeJS.Timeout;
  private looking = false;

  /**
   * @param pool of the service's own role; where that may not see autovacuum's workers, none is ended
   * @param niceness lowers the priority of workers as well; null if the server is not our own
   */
  constructor(
    private readonly pool: pg.Pool,
    private readonly sizes: DatabaseSizes,
    private readonly niceness: Niceness | null,
    private readonly onKept: OnAutovacuumKept,
  ) {
    this.timer = setInterval(() => {
      if (this.looking) return;
      this.looking = true;
      // Where the server cannot be asked, the next look comes soon.
      void this.look()
        .catch(() => {})
        .finally(() => (this.looking = false));
    }, LOOK_S * 1_000).unref();
  }

  close(): void {
    clearInterval(this.timer);
  }

  private async look(): Promise<void> {
    const { rows: workers } = await this.pool.query<Worker>(WORKERS);
    const before = this.visits;
    this.visits = new Map(workers.map((worker) => [visitOf(worker), before.get(visitOf(worker)) ?? newVisit()]));
    this.told = new Map([...this.told].filter(([key]) => workers.some((worker) => keyOf(worker) === key)));
    this.forget();
    for (const worker of workers) this.charge(worker);
    const greediest = this.greediest(workers);
    for (const worker of workers) {
      const visit = this.at(worker);
      if (visit.credit > 0) continue;
      const mustLeave = worker.id === greediest || visit.spent >= VISIT_S || (await this.hasGrown(worker, visit));
      if (mustLeave) await this.tell(worker);
    }
  }

  private forget(): void {
    for (const [id, seconds] of this.spent) {
      const left = seconds * 0.5 ** (LOOK_S / HALF_LIFE_S);
      if (left < 1) this.spent.delete(id);
      else this.spent.set(id, left);
    }
  }

  /** The time since the last look, so far as the size of the table does not explain it. */
  private charge(worker: Worker): void {
    const { pid, id, bytes } = worker;
    const visit = this.at(worker);
    const creditFor = Math.max(visit.creditFor, bytes / BYTES_PER_S);
    const credit = visit.credit + creditFor - visit.creditFor;
    const spent = Math.max(0, LOOK_S - credit);
    if (visit.spent === 0 && spent > 0) void this.niceness?.lower(pid).catch(() => {});
    Object.assign(visit, { creditFor, credit: Math.max(0, credit - LOOK_S), spent: visit.spent + spent });
    this.spent.set(id, (this.spent.get(id) ?? 0) + spent);
  }

  /** The project that has to leave where all workers are busy; undefined: none has. */
  private greediest(workers: readonly Worker[]): string | undefined {
    if (workers[0]?.isShort !== true) return undefined;
    const spent = (id: string) => this.spent.get(id) ?? 0;
    return workers
      .filter((worker) => this.at(worker).credit === 0 && spent(worker.id) >= SPENT_S)
      .map(({ id }) => id)
      .sort((a, b) => spent(b) - spent(a))[0];
  }

  private async hasGrown({ database }: Worker, visit: Visit): Promise<boolean> {
    if (visit.spent < WATCHED_S) return false;
    const bytes = (await this.sizes.of(database)) ?? 0;
    visit.size ??= bytes;
    return bytes - visit.size > GROWTH_BYTES;
  }

  /** To leave its table; at the next occasion to end, for it was told already, or does not listen. */
  private async tell(worker: Worker): Promise<void> {
    const { pid, began, project } = worker;
    const looks = this.told.get(keyOf(worker)) ?? 0;
    this.told.set(keyOf(worker), looks + 1);
    try {
      const { rowCount } = await this.pool.query(looks === 0 ? LEAVE_TABLE : END, [pid, began]);
      // It is said once; and another process of the service may have ended it.
      if (looks === 0 && rowCount !== 0) this.onKept(project, null);
      if (looks === LOOKS_TO_END && rowCount !== 0) this.onKept(project, new Error('It does not end'));
    } catch (error) {
      if (looks === 0) this.onKept(project, error as Error);
    }
  }

  private at(worker: Worker): Visit {
    return this.visits.get(visitOf(worker)) as Visit;
  }
}

const keyOf = ({ pid, began }: Worker): string => `${pid} ${began}`;
const visitOf = (worker: Worker): string => `${keyOf(worker)} ${worker.visit}`;
const newVisit = (): Visit => ({ creditFor: 0, credit: 0, spent: 0, size: null });
