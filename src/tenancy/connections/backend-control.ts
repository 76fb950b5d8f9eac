/** Ends backends from outside their connections, so that no statement can prevent it. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Niceness } from '../../embedded/niceness.js';
import { type Fragment, type Pool, sql } from '../../pg/index.js';

/** A backend, distinguished from a later one with the same pid. */
export interface Backend {
  processId: number;
  role: string;
  /**
   * A moment of its life, by the server's clock (timestamptz in ISO format): a backend with its pid that began later is
   * another.
   */
  seenAt: string;
}

/** How long a canceled statement may take to end before its backend is terminated (contract C13.15). */
export const GRACE_MS = 500;

/** How often to check whether a terminated backend is gone. */
const CHECK_MS = 1_000;

/** The state of a backend and its age in seconds, as the server reports it; no statement can change that. */
export interface Activity {
  /** `active`, `idle`, `idle in transaction`, … (pg_stat_activity.state) */
  readonly state: string;
  readonly stateSeconds: number;
  /** null: not in a transaction. */
  readonly transactionSeconds: number | null;
}

export class BackendControl {
  constructor(
    private readonly pool: Pool,
    /** Lowers the priority of greedy backends; null if the kernel shares the processors, or the operator starts the server. */
    readonly niceness: Niceness | null = null,
  ) {}

  /**
   * Ends the backend, even if its statement catches the cancellation, and waits for at most a second.
   * @returns false if it is still there: some functions of Postgres do not check for interrupts (strpos)
   */
  async terminate(backend: Backend): Promise<boolean> {
    const [row] = await this.pool.query(sql`SELECT pg_terminate_backend(pid, 1000) ${from(backend)}`);
    return row === undefined || row[0] === 't';
  }

  /**
   * @returns the activity of these backends by process id, without those that are gone @throws if Postgres does not
   * answer
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
   * Whether the backend's transaction has written anything, or it builds an index (CREATE INDEX CONCURRENTLY writes before
   * its transaction has an id). @throws if Postgres does not answer
   */
  async hasWritten(backend: Backend): Promise<boolean> {
    const rows = await this.pool.query(
      sql`SELECT 1 ${from(backend)} AND (backend_xid IS NOT NULL OR pid IN (SELECT pid FROM pg_stat_progress_create_index))`,
    );
    return rows.length > 0;
  }

  /**
   * Waits until a terminated backend is gone, and meanwhile lowers its priority. @throws if Postgres does not answer
   */
  async untilGone(backend: Backend): Promise<void> {
    const lowerPriority = this.niceness?.watch(backend);
    for (;;) {
      // Without the priority, it still ends.
      await lowerPriority?.().catch(() => {});
      await sleep(CHECK_MS, undefined, { ref: false });
      const rows = await this.pool.query(sql`SELECT 1 ${from(backend)}`);
      if (rows.length === 0) return;
    }
  }
}

/** The rows of pg_stat_activity for these backends, with `seen_at`: one that began later is a different backend. */
export function activityOf(backends: readonly Backend[]): Fragment {
  const [pids, times] = [backends.map(({ processId }) => processId), backends.map(({ seenAt }) => seenAt)];
  return sql`pg_stat_activity JOIN unnest(${pids}::integer[], ${times}::timestamptz[]) AS watched (pid, seen_at) USING (pid)`;
}

const from = ({ processId, role, seenAt }: Backend): Fragment =>
  sql`FROM pg_stat_activity WHERE pid = ${processId} AND usename = ${role} AND backend_start <= ${seenAt}::timestamptz`;
