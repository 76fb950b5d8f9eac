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

/** Postgres may need a moment to see that a killed service is gone. */
const OWNER_WAIT_MS = 3_000;

/** Attempts that may find the server starting or stopping. */
const ATTEMPTS = 20;
const ATTEMPT_PAUSE_MS = 100;

/** MiB of private memory for one process: the control database runs only the service's own statements. */
const BACKEND_MIB = 1_024;

/** Another process owns the data folder. */
export class AnotherOwner extends Error {
  constructor() {
    super('Another service is running on this data folder; stop it first, or use --data-dir');
  }
}

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
    private owned: Owned,
  ) {
    this.watch();
  }

  /** Starts the server, or adopts it, and takes the data folder. The data directory exists. @throws AnotherOwner */
  static async open(home: Home, binaries: Binaries, durable: boolean, log: Log): Promise<ControlServer> {
    return new ControlServer(home, binaries, durable, log, await own(home, binaries, durable));
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
        this.owned = await own(this.home, this.binaries, this.durable);
        return this.watch();
      } catch (error) {
        this.log('the Postgres server of the control database could not be started', { error: String(error) });
        await sleep(1_000);
      }
    }
  }
}

async function own(home: Home, binaries: Binaries, durable: boolean): Promise<Owned> {
  const config = serverConfig(home, { ...CONTROL_SIZE, durable });
  for (let attempt = 1; ; attempt++) {
    try {
      const pid =
        (await findPostmaster(home)) ??
        (await startPostmaster(home, binaries, { config, backendMib: BACKEND_MIB, exclusive: false })).pid;
      return { pid, session: await lockedSession(home, binaries, pid) };
    } catch (error) {
      if (error instanceof AnotherOwner || attempt === ATTEMPTS) throw error;
      const isWorthwhile = error instanceof OtherVersion || isOfConnection(error) || (await findPostmaster(home));
      if (!isWorthwhile) throw error;
      await sleep(ATTEMPT_PAUSE_MS);
    }
  }
}

class OtherVersion extends Error {}

/** It starts, stops, or has just gone. */
const isOfConnection = (error: unknown): boolean => {
  const { code } = error as { code?: string };
  return code === 'ENOENT' || code === 'ECONNREFUSED' || code === 'ECONNRESET' || code?.startsWith('57P') === true;
};

async function lockedSession(home: Home, binaries: Binaries, pid: number): Promise<pg.Client> {
  const session = new pg.Client({
    host: home.socketDir,
    port: PORT,
    user: SUPERUSER,
    database: DATABASE,
    application_name: 'cdp owner',
    connectionTimeoutMillis: 5_000,
  });
  session.on('error', () => {});
  try {
    await session.connect();
    await takeLock(session);
    const { rows } = await session.query<{ version: string }>(`SELECT current_setting('server_version') AS version`);
    if (rows[0]?.version === binaries.version) return session;
    await stopPostmaster(pid, home.data);
    throw new OtherVersion('A Postgres of another version was running');
  } catch (error) {
    await session.end().catch(() => {});
    throw error;
  }
}

/** @throws AnotherOwner */
async function takeLock(session: pg.Client): Promise<void> {
  for (const until = Date.now() + OWNER_WAIT_MS; ; await sleep(100)) {
    const { rows } = await session.query<{ held: boolean }>('SELECT pg_try_advisory_lock($1) AS held', [OWNER_LOCK]);
    if (rows[0]?.held) return;
    if (Date.now() > until) throw new AnotherOwner();
  }
}
