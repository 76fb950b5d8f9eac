/**
 * Finds connections that are dead and do not say so: a firewall has forgotten them, a host is gone, a packet was lost for
 * good. Nothing breaks then, and a request would wait for its whole time. The server knows better: a backend that is gone,
 * or that waits for us while we wait for it, will never answer (docs/decisions/0027).
 */
import type pg from 'pg';
import { ConnectionLost } from '../../postgres/errors.js';
import type { ServerAddress } from '../../postgres/server.js';
import type { Backend } from './watchdog.js';
import type { Session } from '../../postgres/wire/session.js';

/** A connection is looked at so often, and the server is asked about it once it was silent for two looks. */
const LOOK_MS = 500;
const SILENT_LOOKS = 2;

/**
 * Idle for longer than an answer may be on its way; or, in the middle of what we send, how much of it has come, by which one
 * whose rest was lost is told from one that a slow network brings it to.
 */
const LOOK = {
  text: `SELECT pid, state LIKE 'idle%' AND state_change < now() - interval '1 s' AS waits,
      CASE WHEN wait_event = 'ClientRead' THEN coalesce(bytes_processed, 0) END AS taken
    FROM pg_stat_activity JOIN unnest($1::integer[], $2::timestamptz[]) AS watched (pid, seen_at) USING (pid)
      LEFT JOIN pg_stat_progress_copy USING (pid)
    WHERE backend_start IS NULL OR backend_start <= seen_at`,
  query_timeout: 1_000,
};

/** What a connection in the middle of a COPY, or of another request, is looked at by; null where that may not be seen. */
interface Seen {
  readonly pid: number;
  readonly waits: boolean | null;
  readonly taken: string | null;
}

/**
 * A backend that has waited from one look to the next so often for the rest of a request will not get it. Looks are
 * counted, not time: while the service is halted, nobody sends anything.
 */
const STALLED_LOOKS = 2;

interface Watched {
  readonly session: Session;
  readonly backend: Backend;
  bytes: number;
  /** Looks in a row at which an answer was due and nothing had come. */
  silent: number;
  /** How much of a request had come to the backend when it was last found waiting for the rest, … */
  taken: string | null;
  /** … and the looks in a row at which it was no more. */
  stalled: number;
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
    if (this.timer !== null) this.watched.add({ session, backend, bytes: 0, silent: 0, taken: null, stalled: 0 });
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
      if (one.silent === 0) one.taken = null;
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
    const { rows } = await this.pool.query<Seen>({ ...LOOK, values });
    const found = new Map(rows.map((row) => [row.pid, row]));
    for (const one of silent) {
      const { session, backend, bytes } = one;
      const seen = found.get(backend.processId);
      if (seen !== undefined && seen.waits !== true && !hasStalled(one, seen)) continue;
      // An answer that came in the meantime is one.
      if (!session.isAwaiting || session.bytesRead !== bytes) continue;
      session.destroy(new ConnectionLost('The connection to Postgres has gone silent'));
    }
  }
}

function hasStalled(one: Watched, { taken }: Seen): boolean {
  one.stalled = taken !== null && taken === one.taken ? one.stalled + 1 : 0;
  one.taken = taken;
  return one.stalled >= STALLED_LOOKS;
}
