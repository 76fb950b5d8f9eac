/**
 * Logins at a Postgres that takes none: nobody listens, or it starts, recovers, stops, or is a standby. Then one login is
 * tried every tenth of a second, and the others get its error: each try costs a recovering server a process, and a try by
 * every request keeps it from getting up.
 */
import { CANNOT_CONNECT_NOW, ConnectionLost, NoPrimary, PostgresError } from '../pg/index.js';

const OPEN_MS = 100;

export class CircuitBreaker {
  private last: { readonly error: unknown; readonly until: number } | null = null;

  /** @throws what `login` throws, or threw the last time, less than {@link OPEN_MS} ago */
  async run<T>(login: () => Promise<T>): Promise<T> {
    if (this.last !== null && performance.now() < this.last.until) throw this.last.error;
    try {
      return await login();
    } catch (error) {
      if (isAway(error)) this.last = { error, until: performance.now() + OPEN_MS };
      throw error;
    }
  }
}

/** Postgres takes no logins, nobody is at the address, or only standbys are. */
const isAway = (error: unknown): boolean =>
  error instanceof PostgresError
    ? error.sqlstate === CANNOT_CONNECT_NOW
    : error instanceof NoPrimary ||
      (error instanceof ConnectionLost && (error.code === 'ECONNREFUSED' || error.code === 'ENOENT'));
