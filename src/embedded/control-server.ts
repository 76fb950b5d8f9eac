/**
 * The server of the control database, and the lock of the process that owns the data folder: an advisory lock, which ends
 * with that process. A server that a killed service left behind is adopted.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Binaries } from './binaries.js';
import { CONTROL_SIZE, PORT, serverConfig, SUPERUSER } from './config.js';
import type { Home } from './home.js';
import { findPostmaster } from './lock-file.js';
import { startPostmaster } from './postmaster.js';
import { stopPostmaster } from './processes.js';
import type { Log } from './root.js';

/** The database that initdb makes. */
const DATABASE = 'postgres';

/** Held by the owner of the data folder, as long as that runs (Postgres manual 13.3.5). */
const OWNER_LOCK = 4_014_252_904;

/** The owner that runs until it is stopped. */
export const SERVICE = 'cdp serve';

/** How long a service waits: Postgres may need a moment to see that a killed one is gone, and a command ends soon. */
const OWNER_WAIT_MS = { forService: 3_000, forCommand: 10_000 };

/** How long attempts may go on meeting owners who are just starting or stopping the server. */
const PATIENCE_MS = 10_000;
const ATTEMPT_PAUSE_MS = 100;

/** MiB of private memory for one process: the control database runs only the service's own statements. */
const BACKEND_MIB = 1_024;

/** Another process owns the data folder. */
export class AnotherOwner extends Error {
  /** @param other such as `cdp backup (process 4711)`; null: it has just begun or ended */
  constructor(asking: string, other: string | null) {
    super(
      isService(asking) && isService(other)
        ? 'Another service is running on this data folder; stop it first, or use --data-dir'
        : `${other ?? 'Another process'} is using this data folder. Wait until it has started or ended, or use --data-dir`,
    );
  }
}

const isService = (owner: string | null): boolean => owner?.startsWith(SERVICE) === true;

interface Owned {
  readonly pid: number;
  /** The session that holds the lock. */
  readonly session: pg.Client;
}

export class ControlServer {
  private closing = false;
  private restarting: Promise<void> = Promise.resolve();

  private constructor(
    private readonly home: Home,
    private readonly binaries: Binaries,
    private readonly durable: boolean,
    private readonly log: Log,
    private readonly owner: string,
    private owned: Owned,
  ) {
    this.watch();
  }

  /** Starts the server, or adopts it, and takes the data folder. The data directory exists. @throws AnotherOwner */
  static async open(home: Home, binaries: Binaries, durable: boolean, log: Log, owner: string): Promise<ControlServer> {
    return new ControlServer(home, binaries, durable, log, owner, await own(home, binaries, durable, owner));
  }

  get pid(): number {
    return this.owned.pid;
  }

  get socket() {
    return { host: this.home.socketDir, port: PORT, user: SUPERUSER, database: DATABASE };
  }

  async close(): Promise<void> {
    this.closing = true;
    await this.restarting;
    await stopPostmaster(this.owned.pid, this.home.data);
    await this.owned.session.end().catch(() => {});
  }

  private watch(): void {
    this.owned.session.once('end', () => {
      if (!this.closing) this.restarting = this.restart();
    });
  }

  private async restart(): Promise<void> {
    this.log('the Postgres server of the control database has ended unexpectedly and is being restarted', {});
    while (!this.closing) {
      try {
        this.owned = await own(this.home, this.binaries, this.durable, this.owner);
        return this.watch();
      } catch (error) {
        this.log('the Postgres server of the control database could not be started', { error: String(error) });
        await sleep(1_000);
      }
    }
  }
}

async function own(home: Home, binaries: Binaries, durable: boolean, owner: string): Promise<Owned> {
  const config = serverConfig(home, { ...CONTROL_SIZE, durable });
  for (const until = Date.now() + PATIENCE_MS; ; await sleep(ATTEMPT_PAUSE_MS)) {
    try {
      const pid =
        (await findPostmaster(home)) ??
        (await startPostmaster(home, binaries, { config, backendMib: BACKEND_MIB, exclusive: false })).pid;
      return { pid, session: await lockedSession(home, binaries, pid, owner) };
    } catch (error) {
      if (error instanceof AnotherOwner || Date.now() > until) throw error;
      const isWorthwhile = error instanceof OtherVersion || isOfConnection(error) || (await findPostmaster(home));
      if (!isWorthwhile) throw error;
    }
  }
}

class OtherVersion extends Error {}

/** What the driver says without a code of a connection that broke while it was waiting, or of none in time. */
const BROKEN = /^(Connection terminated|Client has encountered a connection error|timeout expired)/;

/** It starts, stops, or has just gone. */
const isOfConnection = (error: unknown): boolean => {
  const { code, message } = error as { code?: string; message: string };
  if (code === undefined) return BROKEN.test(message);
  return ['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE'].includes(code) || code.startsWith('57P');
};

async function lockedSession(home: Home, binaries: Binaries, pid: number, owner: string): Promise<pg.Client> {
  const session = new pg.Client({
    host: home.socketDir,
    port: PORT,
    user: SUPERUSER,
    database: DATABASE,
    application_name: `${owner} (process ${process.pid})`,
    connectionTimeoutMillis: 5_000,
  });
  session.on('error', () => {});
  try {
    await session.connect();
    await takeLock(session, owner);
    const { rows } = await session.query<{ version: string }>(`SELECT current_setting('server_version') AS version`);
    if (rows[0]?.version === binaries.version) return session;
    await stopPostmaster(pid, home.data);
    throw new OtherVersion('A Postgres of another version was running');
  } catch (error) {
    await session.end().catch(() => {});
    throw error;
  }
}

/**
 * A service waits a while for the owner before it. A command does not: its caller asks the owner meanwhile.
 * @throws AnotherOwner
 */
async function takeLock(session: pg.Client, owner: string): Promise<void> {
  for (const started = Date.now(); ; await sleep(100)) {
    const { rows } = await session.query<{ held: boolean }>('SELECT pg_try_advisory_lock($1) AS held', [OWNER_LOCK]);
    if (rows[0]?.held) return;
    const other = await ownerNow(session);
    const wait = isService(other) ? OWNER_WAIT_MS.forService : OWNER_WAIT_MS.forCommand;
    if (!isService(owner) || Date.now() - started > wait) throw new AnotherOwner(owner, other);
  }
}

/** The lock's number is shown in two halves (Postgres manual 53.12, `pg_locks`). */
async function ownerNow(session: pg.Client): Promise<string | null> {
  const { rows } = await session.query<{ name: string }>(
    `SELECT application_name AS name FROM pg_locks JOIN pg_stat_activity USING (pid)
     WHERE locktype = 'advisory' AND granted AND (classid::bigint << 32) | objid::bigint = $1`,
    [OWNER_LOCK],
  );
  return rows[0]?.name ?? null;
}
