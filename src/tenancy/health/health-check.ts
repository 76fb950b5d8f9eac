/** Checks by regular logins whether a Postgres server answers. Two failures in a row mean that it does not. */
import { setTimeout as sleep } from 'node:timers/promises';
import { PostgresError, SQLSTATE } from '../../pg/index.js';
import { ServerUnreachable } from '../postgres-errors.js';
import { tryLogin } from '../service-pool.js';
import type { PostgresServer } from '../postgres-server.js';

const EVERY_MS = 2_000;
/** The interval while the server does not answer. */
const AGAIN_MS = 100;

/** The time limit of a login, for each host. */
const RESPONSE_MS = 1_500;

export class HealthCheck {
  private readonly end = new AbortController();

  /** @param onChange called with the reason when the server stops answering, and with null when it answers again */
  constructor(
    private readonly name: string,
    private readonly server: Pick<PostgresServer, 'address' | 'breaker'>,
    private readonly onChange: (failure: Error | null) => void,
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
      // If this machine was paused for a moment, one response is late, but not the next.
      const failure = (await this.failure()) === null ? null : await this.failure();
      if (signal.aborted) return;
      const isChange = (failure === null) !== (breaker.failure === null);
      breaker.note(failure);
      if (isChange) this.onChange(failure);
      // Aborted: the loop ends.
      await sleep(failure === null ? EVERY_MS : AGAIN_MS, undefined, { ref: false, signal }).catch(() => {});
    }
  }

  /** null: the server answers, if only with the error that it has no connection left. */
  private async failure(): Promise<Error | null> {
    const { address } = this.server;
    const hosts = address.hosts?.list.length ?? 1;
    try {
      await tryLogin(address, hosts * RESPONSE_MS, this.end.signal);
      return null;
    } catch (error) {
      if (error instanceof PostgresError && error.sqlstate !== SQLSTATE.CANNOT_CONNECT_NOW) return null;
      return new ServerUnreachable(this.name, error as Error);
    }
  }
}
