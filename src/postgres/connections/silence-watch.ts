/**
 * Finds connections that are dead and do not say so: a firewall has forgotten them, a host is gone, a packet was lost for
 * good. Nothing breaks then, and a request would wait for its whole time. The server knows better: a backend that is gone,
 * or that waits for us while we wait for it, will never answer (docs/decisions/0027).
 */
import type pg from 'pg';
import { ConnectionLost } from '../errors.js';
import type { ServerAddress } from '../server.js';
import type { Backend } from './watchdog.js';
import type { Session } from '../wire/session.js';

/** A connection is looked at so often, and the server is asked about it once it was silent for two looks. */
const LOOK_MS = 500;
const SILENT_LOOKS = 2;

/** Waiting for longer than an answer may be on its way. */
const LOOK = {
  text: `SELECT pid, state LIKE 'idle%' AND state_change < now() - interval '1 s' AS waits
    FROM pg_stat_activity JOIN unnest($1::integer[], $2::timestamptz[]) AS watched (pid, seen_at) USING (pid)
    WHERE backend_start IS NULL OR backend_start <= seen_at`,
  query_timeout: 1_000,
};

interface Watched {
  readonly session: Session;
  readonly backend: Backend;
  bytes: number;
  /** Looks in a row at which an answer was due and nothing had come. */
  silent: number;
}

export class SilenceWatch {
  private readonly watched = new Set<Watched>();
  private readonly timer: NodeJS.Timeout | null;
  private asking = false;

  /**
   * @param address a server on this machine cannot become silent, and is not watched
   * @param pool of the service's own role; where a question finds that silent too, it drops its idle connections
   */
  constructor(
    address: ServerAddress,
    private readonly pool: pg.Pool,
  ) {
    this.timer = address.host.startsWith('/') ? null : setInterval(() => this.look(), LOOK_MS).unref();
  }

  /** Until the session is closed. */
  watch(session: Session, backend: Backend): void {
    if (this.timer !== null) this.watched.add({ session, backend, bytes: 0, silent: 0 });
  }

  close(): void {
    if (this.timer !== null) clearInterval(this.timer);
  }

  private look(): void {
    for (const one of this.watched) {
      const { session } = one;
      if (session.closed) this.watched.delete(one);
      one.silent = session.isAwaiting && session.bytesRead === one.bytes ? one.silent + 1 : 0;
      one.bytes = session.bytesRead;
    }
    const silent = [...this.watched].filter((one) => one.silent >= SILENT_LOOKS);
    if (silent.length === 0 || this.asking) return;
    this.asking = true;
    // Where the server cannot be asked, the next look comes soon.
    void this.endDead(silent)
      .catch(() => {})
      .finally(() => (this.asking = false));
  }

  private async endDead(silent: readonly Watched[]): Promise<void> {
    const backends = silent.map(({ backend }) => backend);
    const values = [backends.map(({ processId }) => processId), backends.map(({ seenAt }) => seenAt)];
    const { rows } = await this.pool.query<{ pid: number; waits: boolean | null }>({ ...LOOK, values });
    /** Of those that are still there, whether they wait for us; null where that may not be seen. */
    const waits = new Map(rows.map((row) => [row.pid, row.waits]));
    for (const { session, backend, bytes } of silent) {
      const isGone = !waits.has(backend.processId);
      if (!isGone && waits.get(backend.processId) !== true) continue;
      // An answer that came in the meantime is one.
      if (!session.isAwaiting || session.bytesRead !== bytes) continue;
      session.destroy(new ConnectionLost('The connection to Postgres has gone silent'));
    }
  }
}
