/** Checks at intervals whether added servers and replicas answer, while they belong to the installation. */
import { messageOf } from '../../contract/errors.js';
import { runPeriodically } from '../../tasks.js';
import type { Log } from '../../log.js';
import type { Pool } from '../../pg/index.js';
import { serverRefOf, type ServerRow, type ServerRows } from '../control/server-rows.js';
import { replicaName } from '../replicas.js';
import type { Servers } from '../servers.js';
import type { PostgresServer } from '../postgres-server.js';
import { HealthCheck } from './health-check.js';

/** Other instances and commands also add and remove servers. */
const REFRESH_EVERY_MS = 5_000;

interface ServerState {
  readonly server: string;
  readonly isUp: boolean;
  /** A pool for queries; null: the server does not answer. */
  readonly pool: Pool | null;
}

interface WatchedServer {
  readonly server: PostgresServer;
  readonly check: HealthCheck;
}

export class ServerWatch {
  /** By name. null: this instance does not have the server's URL. */
  private readonly watched = new Map<string, WatchedServer | null>();
  private stopWatching = () => {};
  private isClosed = false;

  constructor(
    private readonly rows: ServerRows,
    private readonly servers: Servers,
    private readonly log: Log,
    /** Called with the names of the added servers and their replicas. */
    private readonly retain: (names: readonly string[]) => void,
  ) {}

  startWatching(): void {
    this.stopWatching = runPeriodically(REFRESH_EVERY_MS, 'watch_servers', () => this.refresh(), this.log, {
      isFirstNow: true,
    });
  }

  /** The states of the added servers. */
  get states(): ServerState[] {
    return Array.from(this.watched, ([server, watched]) => {
      const isUp = watched?.server.breaker.failure === null;
      return { server, isUp, pool: isUp ? watched.server.pool : null };
    });
  }

  close(): void {
    this.isClosed = true;
    this.stopWatching();
    for (const name of this.watched.keys()) this.forget(name);
  }

  private async refresh(): Promise<void> {
    const rows = await this.rows.list();
    if (this.isClosed) return;
    for (const name of this.watched.keys()) {
      if (!rows.some((row) => row.name === name)) this.forget(name);
    }
    this.servers.retain(rows.map(serverRefOf));
    for (const row of rows) if (row.urlReference !== null) this.watch(row);
    const replicas = rows.flatMap((row) => row.replicas);
    this.servers.replicas.retain(replicas, this.report);
    this.retain([...rows.map(({ name }) => name), ...replicas.map(replicaName)]);
  }

  private watch(row: ServerRow): void {
    const { name } = row;
    const server = this.serverOf(row);
    const watched = this.watched.get(name);
    // Its URL may have changed, or another server may have taken the name.
    if (watched !== undefined && watched?.server === server) return;
    this.forget(name);
    const check = server && new HealthCheck(name, server, (failure) => this.report(name, failure));
    this.watched.set(name, check && { server, check });
  }

  private readonly report = (server: string, failure: Error | null): void => {
    if (failure === null) this.log.info({ server }, 'a Postgres server answers again');
    else this.log.warn({ server, cause: messageOf(failure) }, 'a Postgres server does not answer');
  };

  private forget(name: string): void {
    this.watched.get(name)?.check.close();
    this.watched.delete(name);
  }

  private serverOf(row: ServerRow): PostgresServer | null {
    try {
      return this.servers.serverOf(serverRefOf(row));
    } catch {
      return null;
    }
  }
}
