/**
 * Finds dead connections that raise no error: a firewall has dropped them, a host is gone, or a packet was lost for
 * good. A request would wait for its whole time limit. The server knows better: a backend that is gone, or that waits
 * for the service while the service waits for it, will never answer (docs/decisions/0027).
 */
import { ConnectionLost, type Pool, type Session, sql } from '../../pg/index.js';
import type { CircuitBreaker } from './circuit-breaker.js';
import { activityOf, type Backend } from '../connections/backend-control.js';

/**
 * Each connection is checked at this interval; after SILENT_CHECKS checks without a response, the server is asked about
 * it.
 */
const CHECK_MS = 500;
const SILENT_CHECKS = 2;

/** The query itself must not wait on a dead connection. */
const QUERY_MS = 1_000;

/**
 * A backend that has waited for the rest of a request over this many checks will not get it. Checks are counted instead
 * of time, because a paused service sends nothing.
 */
const STALLED_CHECKS = 2;

/** The server's view of a backend in the middle of a request. */
interface BackendState {
  /** Idle for longer than a response may be in transit; null if the role may not see that. */
  readonly isIdle: boolean | null;
  /**
   * While it waits for the rest of a request, how much has arrived: this distinguishes a lost rest from a slow network.
   */
  readonly received: string | null;
}

interface WatchedSession {
  readonly session: Session;
  readonly backend: Backend;
  bytesRead: number;
  /** Consecutive checks at which a response was due and nothing had arrived. */
  silent: number;
  /** How much of a request had reached the backend when it was last found waiting for the rest. */
  received: string | null;
  /** Consecutive checks at which no more of the request had arrived. */
  stalled: number;
}

export class StaleConnections {
  private readonly watched = new Set<WatchedSession>();
  private readonly timer: NodeJS.Timeout | null;
  private isAsking = false;

  /**
   * @param pool of the service's own role
   * @param isOurs the service has started the server, which is not watched because it cannot become silent
   */
  constructor(
    private readonly pool: Pool,
    private readonly breaker: CircuitBreaker,
    isOurs: boolean,
  ) {
    this.timer = isOurs ? null : setInterval(() => this.check(), CHECK_MS).unref();
  }

  /** Watches a session until it is closed. */
  watch(session: Session, backend: Backend): void {
    if (this.timer === null) return;
    this.watched.add({ session, backend, bytesRead: 0, silent: 0, received: null, stalled: 0 });
  }

  close(): void {
    if (this.timer !== null) clearInterval(this.timer);
  }

  private check(): void {
    for (const one of this.watched) {
      const { session } = one;
      if (session.closed) this.watched.delete(one);
      one.silent = session.isAwaiting && session.bytesRead === one.bytesRead ? one.silent + 1 : 0;
      one.bytesRead = session.bytesRead;
      if (one.silent === 0) one.received = null;
    }
    const silent = [...this.watched].filter((one) => one.silent >= SILENT_CHECKS);
    const { failure } = this.breaker;
    if (failure !== null) for (const { session } of silent) session.destroy(failure);
    if (failure !== null || silent.length === 0 || this.isAsking) return;
    this.isAsking = true;
    // A failure is ignored: the next check comes soon.
    void this.endDead(silent)
      // A server that does not answer is asked again.
      .catch(() => {})
      .finally(() => (this.isAsking = false));
  }

  private async endDead(silent: readonly WatchedSession[]): Promise<void> {
    const backends = await this.ask(silent.map(({ backend }) => backend));
    for (const one of silent) {
      const { session, backend, bytesRead } = one;
      const backendSeen = backends.get(backend.processId);
      if (backendSeen !== undefined && backendSeen.isIdle !== true && !hasStalled(one, backendSeen)) continue;
      // A response may have arrived in the meantime.
      if (!session.isAwaiting || session.bytesRead !== bytesRead) continue;
      session.destroy(new ConnectionLost('Postgres no longer responds on the connection'));
    }
  }

  private async ask(backends: readonly Backend[]): Promise<Map<number, BackendState>> {
    const rows = await this.pool.query(
      sql`SELECT pid, state LIKE 'idle%' AND state_change < now() - interval '1 s',
            CASE WHEN wait_event = 'ClientRead' THEN coalesce(bytes_processed, 0) END
          FROM ${activityOf(backends)}
            LEFT JOIN pg_stat_progress_copy USING (pid)
          WHERE backend_start IS NULL OR backend_start <= seen_at`,
      { timeoutMs: QUERY_MS },
    );
    return new Map(
      rows.map(([pid, isIdle, received]) => [
        Number(pid),
        { isIdle: isIdle == null ? null : isIdle === 't', received: received ?? null },
      ]),
    );
  }
}

function hasStalled(one: WatchedSession, { received }: BackendState): boolean {
  one.stalled = received !== null && received === one.received ? one.stalled + 1 : 0;
  one.received = received;
  return one.stalled >= STALLED_CHECKS;
}
