/** The running server: adopts the one that is there, or starts one that outlives us, and stops it. */
import { rmdir } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Binaries } from './binaries.js';
import { RESERVED_CONNECTIONS, PORT, SUPERUSER } from './config.js';
import { hasCode } from '../../files.js';
import type { Home, Log } from './home.js';
import { findPostmaster } from './lock-file.js';
import { type Postmaster, hasEnded, isGone, isReady, openLog, startPostmaster, wasKilled } from './postmaster.js';
import { serves, stopPostmaster } from './processes.js';
import { INVALID_PASSWORD } from '../sqlstate.js';

/** How to reach the server as its superuser; `host` is the folder of its socket. */
export interface Connection {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  readonly database: 'postgres';
}

export interface Server {
  /** The process id of the postmaster. */
  readonly pid: number;
  readonly connection: Connection;
  /** As the server reports it: `18.4`. */
  readonly version: string;
  /** Connections to projects' databases that it has room for. */
  readonly connections: number;
  /** False where a server was running already, left by a service that was killed. */
  readonly startedHere: boolean;
  /** Resolves when the server ends without {@link stop} having been asked for; else never. */
  readonly died: Promise<void>;
  /** Ends the server, adopted or not: transactions are rolled back, connections closed. */
  stop(): Promise<void>;
}

interface RunOptions {
  readonly password: string;
  readonly log: Log;
  readonly durable: boolean;
  // What a server is started with; an adopted one keeps its own.
  /** MiB that each process may take beside the shared memory. */
  readonly backendMib: number;
  /** Connections to projects' databases that there is room for. */
  readonly connections: number;
  /** Called once a server is on its way. */
  readonly starting: () => void;
}

/** An operator's `local.conf` may leave little room; the service then tries. */
const MIN_CONNECTIONS = 2;

/** How often a start may lose against another starter whose server then ends again, or its server be killed at once. */
const ATTEMPTS = 5;

/** A server on the cluster: adopted where one runs, else started. The cluster exists. */
export async function runServer(home: Home, binaries: Binaries, options: RunOptions): Promise<Server> {
  const { password, log } = options;
  const connection = { host: home.socketDir, port: PORT, user: SUPERUSER, password, database: 'postgres' } as const;
  const handle = (postmaster: Postmaster, greeting: Greeting) => handleOf(home, connection, postmaster, greeting, log);

  for (let attempt = 1; ; attempt++) {
    const running = await findPostmaster(home);
    if (running !== undefined) {
      options.starting();
      const greeting = await isGood(home, running, connection, binaries, log);
      if (greeting !== undefined) return handle({ pid: running }, greeting);
      continue;
    }
    const { postmaster, failure } = await startPostmaster(home, binaries, options);
    options.starting();
    if (await isReady(home, postmaster, log)) {
      try {
        return handle(postmaster, await greet(home, postmaster, connection));
      } catch (error) {
        if (attempt < ATTEMPTS && (await isGone(home, postmaster))) continue;
        await stopPostmaster(postmaster.pid, home.data); // nobody could stop it later
        throw error;
      }
    }
    // Postgres's own lock decides between two starters; whoever loses adopts the other's server.
    const isWorthwhile = wasKilled(postmaster) || (await findPostmaster(home)) !== undefined;
    if (attempt === ATTEMPTS || !isWorthwhile) throw await failure();
  }
}

/** What a server says of itself. */
type Greeting = Pick<Server, 'version' | 'connections'>;

/** @returns what the running server says, or undefined when it has ended or was no good and has been stopped. */
async function isGood(
  home: Home,
  pid: number,
  connection: Connection,
  binaries: Binaries,
  log: Log,
): Promise<Greeting | undefined> {
  if (!(await isReady(home, { pid }, log))) return undefined;
  try {
    const greeting = await greet(home, { pid }, connection);
    const { version } = greeting;
    if (version === binaries.version) return greeting;
    log('a Postgres of another version is running and is replaced', { running: version, installed: binaries.version });
  } catch (error) {
    if (error instanceof WrongPassword) throw error;
    log('a Postgres is running that does not answer, and is replaced', { reason: String(error) });
  }
  await stopPostmaster(pid, home.data);
  return undefined;
}

class WrongPassword extends Error {}

/**
 * Logs in and asks. Tries for 5 s, since a server that was left alone may be short of connections; one that was killed in
 * the meantime will not answer any more.
 */
async function greet(home: Home, postmaster: Postmaster, connection: Connection): Promise<Greeting> {
  const deadline = Date.now() + 5_000;
  for (;;) {
    const client = new pg.Client({ ...connection, connectionTimeoutMillis: 5_000 });
    client.on('error', () => undefined); // the query below fails as well
    try {
      await client.connect();
      const { rows } = await client.query<{ version: string; most: number }>(
        `SELECT current_setting('server_version') AS version, current_setting('max_connections')::integer AS most`,
      );
      const { version = '', most = 0 } = rows[0] ?? {};
      return { version, connections: Math.max(MIN_CONNECTIONS, most - RESERVED_CONNECTIONS) };
    } catch (error) {
      if (hasCode(error, INVALID_PASSWORD)) {
        throw new WrongPassword(
          `The database in the data folder was made with another instance secret: ${connection.user} cannot log in.`,
        );
      }
      if (Date.now() > deadline || (await isGone(home, postmaster))) throw error;
      await sleep(50);
    } finally {
      await client.end();
    }
  }
}

function handleOf(
  home: Home,
  connection: Connection,
  { pid, child }: Postmaster,
  greeting: Greeting,
  log: Log,
): Server {
  let stopped: Promise<void> | undefined;
  const timers: NodeJS.Timeout[] = [];
  const every = (ms: number, act: () => Promise<void>): void => {
    const failed = (error: unknown): void => log('watching Postgres failed', { reason: String(error) });
    timers.push(setInterval(() => void act().catch(failed), ms).unref());
  };

  const died = new Promise<void>((resolve) => {
    const ended = (): void => {
      if (stopped === undefined) resolve();
    };
    if (child !== undefined && !hasEnded(child)) child.once('exit', ended);
    else every(500, async () => ((await serves(pid, home.data)) ? undefined : ended()));
  });
  every(3_600_000, async () => (await openLog(home)).close());

  const stop = async (): Promise<void> => {
    timers.forEach(clearInterval);
    await stopPostmaster(pid, home.data);
    // In /tmp nothing is left behind; where another starter is using the folder already, it is not empty.
    if (!home.socketDir.startsWith(home.root)) await rmdir(home.socketDir).catch(() => undefined);
  };
  return { pid, connection, ...greeting, startedHere: child !== undefined, died, stop: () => (stopped ??= stop()) };
}
