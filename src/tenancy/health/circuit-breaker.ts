/**
 * Logins at a Postgres that takes none: nobody listens, or it starts, recovers, stops, or is a standby. Then one login
 * is tried every tenth of a second, and the others get its error: each try costs a recovering server a process, and a
 * try by every request keeps it from getting up. While a health check finds that the server does not answer, no request
 * tries.
 *
 * Who decides what in this folder: only `health-check.ts` decides that a server does not answer, by logins of its own.
 * The circuit breaker keeps that and the last refused login, and decides by them who may try to log in; it asks no
 * server. `stale-connections.ts` decides about single connections that are open already: it ends one that the server
 * disowns, and the silent ones of a server that does not answer.
 */
import { ConnectionLost, NoPrimary, PostgresError, SQLSTATE } from '../../pg/index.js';

const OPEN_MS = 100;

export class CircuitBreaker {
  /** What the last login was told, and when the next one may try. */
  private refused: { readonly error: unknown; readonly until: number } | null = null;
  private found: Error | null = null;
  private readonly underWay = new Set<AbortController>();

  /** Why the server does not answer, by the last health check; null: it does, or it is not checked. */
  get failure(): Error | null {
    return this.found;
  }

  /** Takes in what a health check has found. What is under way at a server that does not answer ends. */
  note(away: Error | null): void {
    this.found = away;
    if (away === null) this.refused = null;
    else for (const one of this.underWay) one.abort(away);
  }

  /** @throws what `login` throws, or threw the last time, less than {@link OPEN_MS} ago */
  async run<T>(login: (signal: AbortSignal) => Promise<T>): Promise<T> {
    if (this.refused !== null) {
      const { error, until } = this.refused;
      if (performance.now() < until) throw error;
      this.refuse(error);
    }
    try {
      const result = await this.during(login);
      this.refused = null;
      return result;
    } catch (error) {
      if (isAway(error)) this.refuse(error);
      throw error;
    }
  }

  /**
   * Work at the server.
   * @param work its signal is aborted once the server is found not to answer
   * @throws the reason at once if it is known; what `work` throws
   */
  async during<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    if (this.found !== null) throw this.found;
    const ending = new AbortController();
    this.underWay.add(ending);
    try {
      return await work(ending.signal);
    } finally {
      this.underWay.delete(ending);
    }
  }

  private refuse(error: unknown): void {
    this.refused = { error, until: performance.now() + OPEN_MS };
  }
}

/** Postgres takes no logins, nobody is at the address, or only standbys are. */
const isAway = (error: unknown): boolean =>
  error instanceof PostgresError
    ? error.sqlstate === SQLSTATE.CANNOT_CONNECT_NOW
    : error instanceof NoPrimary ||
      (error instanceof ConnectionLost && (error.code === 'ECONNREFUSED' || error.code === 'ENOENT'));
