/** Ends a backend from outside its connection, so that nothing its statement does can prevent it. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Niceness } from '../../embedded/niceness.js';
import { type Fragment, type Pool, sql } from '../../pg/index.js';

/** A backend, told apart from a later one that was given the same pid. */
export interface Backend {
  processId: number;
  role: string;
  /** A moment of its life, by the server's clock (timestamptz in ISO): who has its pid and began later is another. */
  seenAt: string;
}

/** How long a canceled statement may take to end before its backend is terminated (contract section 7). */
export const GRACE_MS = 500;

/** Between two checks whether a backend has gone that did not go at once. */
const CHECK_MS = 1_000;

/** What a backend does, in seconds since it began that; by the server's own account, which no statement can change. */
export interface Activity {
  /** `active`, `idle`, `idle in transaction`, … (pg_stat_activity.state) */
  readonly state: string;
  readonly stateSeconds: number;
  /** null: it is in no transaction. */
  readonly transactionSeconds: number | null;
}

export class Watchdog {
  constructor(
    private readonly pool: Pool,
    /** Lowers the priority of greedy backends; null if the server is not our own. */
    readonly niceness: Niceness | null = null,
  ) {}

  /**
   * Ends the backend, also if its statement catches its cancellation, and waits for it for a second at most.
   * @returns false if it is still there: Postgres has functions that do not check whether they are to end (strpos)
   */
  async terminate(backend: Backend): Promise<boolean> {
    const [found] = await this.pool.query(sql`SELECT pg_terminate_backend(pid, 1000) ${from(backend)}`);
    return found === undefined || found[0] === 't';
  }

  /**
   * @returns what these backends do, by process id; one that is gone is left out. @throws if Postgres does not answer
   */
  async activity(backends: readonly Backend[]): Promise<Map<number, Activity>> {
    const rows = await this.pool.query(
      sql`SELECT pid, coalesce(state, 'active'), extract(epoch FROM clock_timestamp() - state_change),
            extract(epoch FROM clock_timestamp() - xact_start)
          FROM ${activityOf(backends)}
          WHERE backend_start <= seen_at`,
    );
    return new Map(
      rows.map(([pid, state, stateSeconds, transactionSeconds]) => [
        Number(pid),
        {
          state: state ?? '',
          stateSeconds: Number(stateSeconds),
          transactionSeconds: transactionSeconds == null ? null : Number(transactionSeconds),
        },
      ]),
    );
  }

  /**
   * Waits until a backend that was terminated has gone, and lowers its priority meanwhile. @throws if Postgres does not
   * answer
   */
  async gone(backend: Backend): Promise<void> {
    const lowerPriority = this.niceness?.watch(backend);
    for (;;) {
      await lowerPriority?.().catch(() => {});
      await sleep(CHECK_MS, undefined, { ref: false });
      const found = await this.pool.query(sql`SELECT 1 ${from(backend)}`);
      if (found.length === 0) return;
    }
  }
}

/** The rows of pg_stat_activity of these backends, with `seen_at`: one that began later than that is another. */
export function activityOf(backends: readonly Backend[]): Fragment {
  const [pids, times] = [backends.map(({ processId }) => processId), backends.map(({ seenAt }) => seenAt)];
  return sql`pg_stat_activity JOIN unnest(${pids}::integer[], ${times}::timestamptz[]) AS watched (pid, seen_at) USING (pid)`;
}

const from = ({ processId, role, seenAt }: Backend): Fragment =>
  sql`FROM pg_stat_activity WHERE pid = ${processId} AND usename = ${role} AND backend_start <= ${seenAt}::timestamptz`;
