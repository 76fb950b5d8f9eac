/**
 * Stops a statement from outside its connection, so that nothing the statement does can prevent it: first a cancel
 * request, then the end of its backend.
 */
import { connect } from 'node:net';
import type pg from 'pg';
import type { CpuWatch } from '../embedded/cpu-watch.js';
import type { ServerAddress } from '../server.js';
import { cancelRequest } from '../wire/messages.js';

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

export class Watchdog {
  constructor(
    private readonly address: ServerAddress,
    private readonly pool: pg.Pool,
    /** Lets backends give way; null where the server is not our own, or not on this machine. */
    readonly cpu: CpuWatch | null = null,
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
   */
  async terminate({ processId, role, seenAt }: Backend): Promise<void> {
    await this.pool.query(
      `SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity
       WHERE pid = $1 AND usename = $2 AND backend_start <= $3::timestamptz`,
      [processId, role, seenAt],
    );
  }
}
