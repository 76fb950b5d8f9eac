/**
 * The Postgres that a process works with: the operator's own by its URL, or the embedded one of the data folder, which
 * is started where it does not run.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Config } from './settings.js';
import { instanceSecret } from './instance-secret.js';
import { Credentials } from './postgres/credentials.js';
import { type EmbeddedPostgres, startEmbedded } from './postgres/embedded.js';
import { ensureControlDatabase } from './postgres/embedded/control-database.js';
import { FolderInUse, Presence, SERVICE } from './postgres/presence.js';
import { addressOfUrl, type ServerAddress } from './postgres/server.js';

export { FolderInUse, SERVICE };

export interface Database {
  readonly address: ServerAddress;
  readonly secret: string;
  readonly embedded: boolean;
  /** The process id of the embedded server's postmaster now; null with a server of the operator's. */
  readonly postmaster: (() => number) | null;
  /** Connections to projects' databases that this process may have. */
  readonly connections: number;
  /** Gives the database back: an embedded server is stopped. */
  close(): Promise<void>;
}

/** What a process may want to know of an embedded server. */
interface DatabaseEvents {
  /** It is on its way, and whoever waits for it has time for other work. */
  readonly starting?: () => void;
  /** It ended by itself and was started again, with this postmaster. */
  readonly restarted?: (postmaster: number) => void;
}

const CONTROL_DATABASE = 'cdp_control';

/** A server of the operator's may have other users, and other instances of the service. */
const CONNECTIONS_ELSEWHERE = 80;

/** How long a start may go on meeting owners who are just stopping the server, … */
const PATIENCE_MS = 10_000;
/** … and how often the server may fail once it is its own. */
const ATTEMPTS = 5;

/**
 * @param owner the command that owns the embedded server from now on, such as {@link SERVICE}
 * @throws FolderInUse where the server has an owner; Error that an operator can act on
 */
export async function openDatabase(
  config: Config,
  owner: string,
  logger: Logger,
  { starting = () => {}, restarted = () => {} }: DatabaseEvents = {},
): Promise<Database> {
  if (config.databaseUrl !== null) {
    // loadConfig has seen to it that the secret is there.
    return {
      address: addressOfUrl(config.databaseUrl),
      secret: config.secret ?? '',
      embedded: false,
      postmaster: null,
      connections: config.maxConnections ?? CONNECTIONS_ELSEWHERE,
      close: async () => {},
    };
  }
  const secret = config.secret ?? (await instanceSecret(config.dataDir));
  const password = new Credentials(secret).password('superuser');
  const log = (message: string, fields: object = {}) => logger.info(fields, message);
  const { dataDir, backendMemoryMib: backendMib, maxConnections } = config;
  const open = () =>
    openEmbedded(
      () => startEmbedded({ dataDir, password, log, backendMib, connections: maxConnections, starting }),
      owner,
    );
  const opened = await open();
  const { address } = opened;
  // A server that was there already may have been started with room for fewer.
  const connections = Math.min(maxConnections ?? Infinity, opened.server.connections);
  return { address, secret, embedded: true, connections, ...keepRunning(opened, open, logger, restarted) };
}

interface OpenServer {
  readonly server: EmbeddedPostgres;
  readonly presence: Presence;
  readonly address: ServerAddress;
}

async function openEmbedded(start: () => Promise<EmbeddedPostgres>, owner: string): Promise<OpenServer> {
  const until = Date.now() + PATIENCE_MS;
  for (let failures = 0; ;) {
    const server = await start();
    const address = { ...server.connection, database: CONTROL_DATABASE, connectionTimeoutMillis: 5_000 };
    let presence: Presence | undefined;
    try {
      presence = await Presence.enter(address, owner);
      await ensureControlDatabase(address);
      return { server, presence, address };
    } catch (error) {
      if (presence !== undefined) {
        failures++;
        await server.stop().catch(() => {});
        await presence.end();
      }
      if (error instanceof FolderInUse || failures === ATTEMPTS || Date.now() > until) throw error;
      await sleep(100);
    }
  }
}

/**
 * Starts the server again whenever it ends by itself.
 * @returns which process it is now, and the end of that: `close` stops the server
 */
function keepRunning(
  first: OpenServer,
  open: () => Promise<OpenServer>,
  logger: Logger,
  restarted: (postmaster: number) => void,
): { postmaster: () => number; close: () => Promise<void> } {
  let current = first;
  let closing = false;
  let restarting = Promise.resolve();
  const watch = () => void current.server.died.then(() => (restarting = restart()));
  const restart = async () => {
    while (!closing) {
      logger.error('the embedded Postgres ended unexpectedly; it is started again');
      try {
        current = await open();
        restarted(current.server.pid);
        return watch();
      } catch (error) {
        logger.error({ error: String(error) }, 'the embedded Postgres could not be started');
        await sleep(1_000);
      }
    }
  };
  watch();
  const close = async () => {
    closing = true;
    await restarting;
    await current.server.stop();
    await current.presence.end();
  };
  return { postmaster: () => current.server.pid, close };
}
