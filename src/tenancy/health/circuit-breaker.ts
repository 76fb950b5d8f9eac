/**
 * Limits logins to a Postgres server that accepts none: nobody listens, or it is starting, recovering, stopping or a
 * standby.
 * Then one login is tried every tenth of a second, and the others get its error: each attempt costs a recovering server
 * a process, and attempts by all requests would keep it from starting. While a health check finds that the server does
 * not answer, no request tries.
 *
 * The roles in this folder: only `health-check.ts` decides, by its own logins, that a server does not answer. The
 * circuit breaker stores that and the last refused login, and decides by them who may log in; it contacts no server.
 * `stale-connections.ts` checks open connections: it ends those that the server no longer has, and the silent ones of a
 * server that does not answer.
 */
import { ConnectionLost, NoPrimary, PostgresError, SQLSTATE } from '../../pg/index.js';

const OPEN_MS = 100;

export class CircuitBreaker {
  /** The error of the last login, and when the next one may try. */
  private refused: { readonly error: unknown; readonly until: number } | null = null;
  private lastError: Error | null = null;
  private readonly underWay = new Set<AbortController>();

  /** Why the server does not answer, by the last health check; null: it does, or it is not checked. */
  get failure(): Error | null {
    return this.lastError;
  }

  /** Stores the result of a health check. If the server does not answer, ends the work there. */
  note(failure: Error | null): void {
    this.lastError = failure;
    if (failure === null) this.refused = null;
    else for (const one of this.underWay) one.abort(failure);
  }

  /** @throws what `login` throws, or has thrown within the last {@link OPEN_MS} */
  async runLogin<T>(login: (signal: AbortSignal) => Promise<T>): Promise<T> {
    if (this.refused !== null) {
      const { error, until } = this.refused;
      if (performance.now() < until) throw error;
      this.refuse(error);
    }
    try {
      const result = await this.runWhileUp(login);
      this.refused = null;
      return result;
    } catch (error) {
      if (isUnreachable(error)) this.refuse(error);
      throw error;
    }
  }

  /**
   * Runs work at the server.
   * @param work its signal is aborted when the server is found not to answer
   * @throws the reason, at once, if the server is known not to answer; what `work` throws
   */
  async runWhileUp<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    if (this.lastError !== null) throw this.lastError;
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

/** Postgres accepts no logins, nothing listens at the address, or only standbys do. */
const isUnreachable = (error: unknown): boolean =>
  error instanceof PostgresError
    ? error.sqlstate === SQLSTATE.CANNOT_CONNECT_NOW
    : error instanceof NoPrimary ||
      (error instanceof ConnectionLost && (error.code === 'ECONNREFUSED' || error.code === 'ENOENT'));
