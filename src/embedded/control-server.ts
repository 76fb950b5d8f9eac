/**
 * The server of the control database. An advisory lock in it marks the process that owns the data folder, and ends with
 * that process. A server that a killed service has left running is adopted.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { ConnectionLost, PostgresError, Session, sql } from '../pg/index.js';
import type { Binaries } from './binaries.js';
import { CONTROL_SIZE, PORT, serverConfig, SUPERUSER } from './postgres-config.js';
import type { ServerFolder } from './server-folder.js';
import { findPostmaster } from './lock-file.js';
import { OtherPostmaster, startPostmaster } from './postmaster.js';
import { stopPostmaster } from './processes.js';
import type { Log } from '../log.js';

/** The database that initdb creates. */
const DATABASE = 'postgres';

/** The owner of the data folder holds it while it runs (Postgres manual, Advisory Locks). */
const OWNER_LOCK = 4_014_252_904;

/** The name of an owner that runs until it is stopped. */
export const SERVICE = 'cdp serve';

/**
 * How long to wait for the owner to end: Postgres takes a moment to detect that a killed owner is gone, and commands
 * are short.
 */
const OWNER_WAIT_MS = { forService: 3_000, forCommand: 10_000 };

/** How long to retry while another process starts or stops the server. */
const RETRY_MS = 10_000;
const ATTEMPT_PAUSE_MS = 100;

/** MiB of private memory per process. The server runs only the service's own statements. */
const BACKEND_MIB = 1_024;

/** Another process owns the data folder. */
export class DataFolderInUse extends Error {
  /** @param other for example `cdp backup (process 4711)`; null: it has just started or ended */
  constructor(asking: string, other: string | null) {
    super(
      isService(asking) && isService(other)
        ? 'Another service is running on this data folder; stop it first, or choose another folder with --data-dir'
        : `${other ?? 'Another process'} is using this data folder. Wait for it to end, or choose another folder with --data-dir`,
    );
  }
}

const isService = (owner: string | null): boolean => owner?.startsWith(SERVICE) === true;

interface Owned {
  readonly pid: number;
  /** The session that holds the lock. */
  readonly session: Session;
}

export class ControlServer {
  private closing = false;
  private restarting: Promise<void> = Promise.resolve();

  private constructor(
    private readonly folder: ServerFolder,
    private readonly binaries: Binaries,
    private readonly durable: boolean,
    private readonly log: Log,
    private readonly owner: string,
    private owned: Owned,
  ) {
    this.watch();
  }

  /**
   * Starts the server of an existing data directory, or adopts it, and takes ownership of the data folder.
   * @throws DataFolderInUse
   */
  static async open(
    folder: ServerFolder,
    binaries: Binaries,
    durable: boolean,
    log: Log,
    owner: string,
  ): Promise<ControlServer> {
    return new ControlServer(folder, binaries, durable, log, owner, await own(folder, binaries, durable, owner));
  }

  get pid(): number {
    return this.owned.pid;
  }

  get socket() {
    return { host: this.folder.socketDir, port: PORT, user: SUPERUSER, database: DATABASE };
  }

  async close(): Promise<void> {
    this.closing = true;
    await this.restarting;
    await stopPostmaster(this.owned.pid, this.folder.data);
    await this.owned.session.close();
  }

  private watch(): void {
    const { session } = this.owned;
    const restart = () => {
      if (!this.closing) this.restarting = this.restart();
    };
    if (session.closed) restart();
    else session.onClose(restart);
  }

  private async restart(): Promise<void> {
    this.log.error({}, 'the Postgres server of the control database has ended unexpectedly and is being restarted');
    let failure = '';
    while (!this.closing) {
      try {
        this.owned = await own(this.folder, this.binaries, this.durable, this.owner);
        if (failure !== '') this.log.info({}, 'the Postgres server of the control database runs again');
        return this.watch();
      } catch (error) {
        if (failure !== String(error))
          this.log.error({ error: String(error) }, 'the Postgres server of the control database could not be started');
        failure = String(error);
        await sleep(1_000);
      }
    }
  }
}

async function own(folder: ServerFolder, binaries: Binaries, durable: boolean, owner: string): Promise<Owned> {
  const config = serverConfig(folder, { ...CONTROL_SIZE, durable }, binaries.major);
  for (const until = performance.now() + RETRY_MS; ; await sleep(ATTEMPT_PAUSE_MS)) {
    try {
      const options = { config, backendMib: BACKEND_MIB, isFirstVictim: false, exclusive: false };
      const pid = (await findPostmaster(folder)) ?? (await startPostmaster(folder, binaries, options)).pid;
      return { pid, session: await lockedSession(folder, binaries, pid, owner) };
    } catch (error) {
      if (error instanceof DataFolderInUse || performance.now() > until) throw error;
      const isOtherVersion = error instanceof OtherVersion || error instanceof OtherPostmaster;
      const isWorthwhile = isOtherVersion || isConnectionError(error) || (await findPostmaster(folder));
      if (!isWorthwhile) throw error;
    }
  }
}

class OtherVersion extends Error {}

/** The server is starting or stopping, or has just ended. */
const isConnectionError = (error: unknown): boolean =>
  error instanceof ConnectionLost || (error instanceof PostgresError && error.sqlstate.startsWith('57P'));

async function lockedSession(folder: ServerFolder, binaries: Binaries, pid: number, owner: string): Promise<Session> {
  const session = await Session.connect({
    host: folder.socketDir,
    port: PORT,
    user: SUPERUSER,
    password: '',
    database: DATABASE,
    application_name: `${owner} (process ${process.pid})`,
    connectionTimeoutMillis: 5_000,
  });
  try {
    await takeLock(session, owner);
    const [release] = await session.row(sql`SELECT current_setting('server_version')`);
    if (release === binaries.release) return session;
    await stopPostmaster(pid, folder.data);
    throw new OtherVersion('A Postgres of another version was running');
  } catch (error) {
    await session.close();
    throw error;
  }
}

/**
 * A service waits for the owner to end. A command does not wait: its caller asks the owner to do the work.
 * @throws DataFolderInUse
 */
async function takeLock(session: Session, owner: string): Promise<void> {
  for (const started = performance.now(); ; await sleep(100)) {
    const [isHeld] = await session.row(sql`SELECT pg_try_advisory_lock(${OWNER_LOCK})`);
    if (isHeld === 't') return;
    const other = await ownerNow(session);
    const wait = isService(other) ? OWNER_WAIT_MS.forService : OWNER_WAIT_MS.forCommand;
    if (!isService(owner) || performance.now() - started > wait) throw new DataFolderInUse(owner, other);
  }
}

/** pg_locks shows the lock's number in two halves (Postgres manual, pg_locks). */
async function ownerNow(session: Session): Promise<string | null> {
  const [name] = await session.row(
    sql`SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE locktype = 'advisory' AND granted AND (classid::bigint << 32) | objid::bigint = ${OWNER_LOCK}`,
  );
  return name ?? null;
}
