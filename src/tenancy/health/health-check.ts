/**
 * Whether a Postgres server answers: the service logs in there now and then. Two failures in a row mean that it does
 * not.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { ConnectionLost, PostgresError, SQLSTATE } from '../../pg/index.js';
import { tryLogin } from '../service-pool.js';
import type { Server } from '../tenancy.js';

const EVERY_MS = 2_000;
/** While the server does not answer. */
const AGAIN_MS = 100;

/** Of each host, for a login. */
const ANSWER_MS = 1_500;

export class HealthCheck {
  private readonly end = new AbortController();

  /** @param onChange told when the server stops answering, with the reason, and when it answers again, with null */
  constructor(
    private readonly server: Pick<Server, 'address' | 'breaker'>,
    private readonly onChange: (away: Error | null) => void,
  ) {
    void this.keepChecking();
  }

  close(): void {
    this.end.abort();
  }

  private async keepChecking(): Promise<void> {
    const { breaker } = this.server;
    const { signal } = this.end;
    while (!signal.aborted) {
      // A machine that stood still for a moment makes one answer late, not the next.
      const away = (await this.failure()) === null ? null : await this.failure();
      if (signal.aborted) return;
      const isChange = (away === null) !== (breaker.failure === null);
      breaker.note(away);
      if (isChange) this.onChange(away);
      await sleep(away === null ? EVERY_MS : AGAIN_MS, undefined, { ref: false, signal }).catch(() => {});
    }
  }

  /** null: the server answers, if only to say that it has no connection left. */
  private async failure(): Promise<Error | null> {
    const { address } = this.server;
    const hosts = address.hosts?.list.length ?? 1;
    try {
      await tryLogin(address, hosts * ANSWER_MS, this.end.signal);
      return null;
    } catch (error) {
      if (error instanceof PostgresError && error.sqlstate !== SQLSTATE.CANNOT_CONNECT_NOW) return null;
      // Even if it answers: the outcome of the commits that are under way is unknown.
      return new ConnectionLost(`The server does not answer: ${(error as Error).message}`, { cause: error });
    }
  }
}
