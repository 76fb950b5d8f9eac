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

  /** Waits until a backend that was terminated has gone, and lowers its priority meanwhile. @throws if Postgres does not answer */
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

const from = ({ processId, role, seenAt }: Backend): Fragment =>
  sql`FROM pg_stat_activity WHERE pid = ${processId} AND usename = ${role} AND backend_start <= ${seenAt}::timestamptz`;
