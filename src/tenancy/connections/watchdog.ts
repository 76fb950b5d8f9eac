/**
 * Stops a statement from outside its connection, so that nothing the statement does can prevent it: first a cancel
 * request, then the end of its backend.
 */
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import type { Niceness } from '../../embedded/niceness.js';
import type { ServerAddress } from '../../postgres/server.js';
import { cancelRequest } from '../../postgres/wire/messages.js';

/** A backend, told apart from a later one that was given the same pid. */
export interface Backend {
  processId: number;
  secretKey: number;
  role: string;
  /** A moment of its life, by the server's clock (timestamptz in ISO): who has its pid and began later is another. */
  seenAt: string;
}

/** How long a cancelled statement may take to end before its backend is terminated (contract section 7). */
export const GRACE_MS = 500;

/** Between two looks whether a backend has gone that did not go at once. */
const LOOK_MS = 1_000;

export class Watchdog {
  constructor(
    private readonly address: ServerAddress,
    private readonly pool: pg.Pool,
    /** Lowers the priority of greedy backends; null if the server is not our own. */
    readonly niceness: Niceness | null = null,
  ) {}
  /**
   * Asks Postgres to cancel whatever the backend runs. Needs no right and no free connection slot (Postgres manual
   * 54.2.8). It may arrive after the statement has ended, so a connection that was cancelled is not used again.
   */
  cancel({ processId, secretKey }: Backend): Promise<void> {
    return new Promise((resolve) => {
      const { host, port } = this.address;
      const socket = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host);
      socket.setTimeout(GRACE_MS, () => socket.destroy());
      socket.on('connect', () => socket.end(cancelRequest(processId, secretKey)));
      // Whether it worked shows at the statement itself; if not, the backend is terminated next.
      socket.on('error', () => {});
      socket.on('close', () => resolve());
      socket.resume();
    });
  }

  /**
   * Ends the backend, also when its statement catches its cancellation, and waits a second at most until it is gone.
   * @returns false where it is still there: Postgres has functions that do not look whether they are to end (strpos)
   */
  async terminate(backend: Backend): Promise<boolean> {
    const { rows } = await this.pool.query<{ gone: boolean }>(
      `SELECT pg_terminate_backend(pid, 1000) AS gone ${THIS_BACKEND}`,
      identity(backend),
    );
    return rows[0]?.gone ?? true;
  }

  /** Waits until a backend has gone that was told to, and lowers its priority meanwhile. @throws where Postgres does not answer */
  async gone(backend: Backend): Promise<void> {
    const look = this.niceness?.watch(backend);
    for (;;) {
      await look?.().catch(() => {});
      await sleep(LOOK_MS, undefined, { ref: false });
      const { rowCount } = await this.pool.query(`SELECT ${THIS_BACKEND}`, identity(backend));
      if (rowCount === 0) return;
    }
  }
}

const THIS_BACKEND = 'FROM pg_stat_activity WHERE pid = $1 AND usename = $2 AND backend_start <= $3::timestamptz';

const identity = ({ processId, role, seenAt }: Backend) => [processId, role, seenAt];
