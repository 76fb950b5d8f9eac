/**
 * The Postgres that a process works with: the operator's own by its URL, or the embedded one of the data folder, which
 * is started where it does not run.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Logger } from 'pino';
import type { Config } from './config.js';
import { instanceSecret } from './instance-secret.js';
import { Credentials } from './postgres/credentials.js';
import { type EmbeddedPostgres, startEmbedded } from './postgres/embedded.js';
import { addressOfUrl, type ServerAddress, withServiceClient } from './postgres/server.js';

export interface Database {
  readonly address: ServerAddress;
  readonly secret: string;
  readonly embedded: boolean;
  /** Gives the database back: an embedded server is stopped unless a service goes on using it. */
  close(): Promise<void>;
}

const CONTROL_DATABASE = 'cdp_control';

/** Held by the service of a data folder, and by whoever stops its server. */
const OWNER_LOCK = 4_014_252_904;

/** A command that ends may hold the lock for a moment. */
const OWNER_PATIENCE_MS = 3_000;

/**
 * @param role a `service` owns the embedded server: a second one is refused. A `command` borrows it.
 * @throws Error that an operator can act on
 */
export async function openDatabase(config: Config, role: 'service' | 'command', logger: Logger): Promise<Database> {
  if (config.databaseUrl !== null) {
    // loadConfig has seen to it that the secret is there.
    return {
      address: addressOfUrl(config.databaseUrl),
      secret: config.secret ?? '',
      embedded: false,
      close: async () => {},
    };
  }
  const secret = config.secret ?? (await instanceSecret(config.dataDir));
  const password = new Credentials(secret).password('superuser');
  const log = (message: string, fields: object = {}) => logger.info(fields, message);
  const start = () => startEmbedded({ dataDir: config.dataDir, password, log });
  return role === 'service' ? ownedDatabase(start, secret, logger) : borrowedDatabase(start, secret);
}

async function ownedDatabase(
  start: () => Promise<EmbeddedPostgres>,
  secret: string,
  logger: Logger,
): Promise<Database> {
  let server = await start();
  const address = addressOf(server);
  await ensureControlDatabase(address);
  let lock = await takeOwnerLock(address, OWNER_PATIENCE_MS);
  if (lock === null)
    throw new Error('Another service is running on this data folder; stop it first, or use --data-dir');

  let closing = false;
  const watch = () =>
    void server.died.then(async () => {
      while (!closing) {
        logger.error('the embedded Postgres ended unexpectedly; it is started again');
        try {
          server = await start();
          lock = await takeOwnerLock(address, OWNER_PATIENCE_MS);
          return watch();
        } catch (error) {
          logger.error({ error: String(error) }, 'the embedded Postgres could not be started');
          await sleep(1_000);
        }
      }
    });
  watch();

  return {
    address,
    secret,
    embedded: true,
    close: async () => {
      closing = true;
      await server.stop();
      await lock?.end().catch(() => {});
    },
  };
}

async function borrowedDatabase(start: () => Promise<EmbeddedPostgres>, secret: string): Promise<Database> {
  const server = await start();
  const address = addressOf(server);
  await ensureControlDatabase(address);
  return {
    address,
    secret,
    embedded: true,
    close: async () => {
      if (!server.startedHere) return;
      // A service may have been started in the meantime, and uses the server now.
      const lock = await takeOwnerLock(address, 0);
      if (lock === null) return;
      await server.stop();
      await lock.end().catch(() => {});
    },
  };
}

const addressOf = ({ connection }: EmbeddedPostgres): ServerAddress => ({
  ...connection,
  database: CONTROL_DATABASE,
  connectionTimeoutMillis: 5_000,
});

async function ensureControlDatabase(address: ServerAddress): Promise<void> {
  await withServiceClient(address, 'postgres', async (client) => {
    const { rowCount } = await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [CONTROL_DATABASE]);
    if (rowCount === 1) return;
    await client.query(`CREATE DATABASE ${CONTROL_DATABASE}`).catch((error: unknown) => {
      // Another starter was faster.
      if (!(error instanceof pg.DatabaseError && (error.code === '42P04' || error.code === '23505'))) throw error;
    });
    await client.query(`REVOKE ALL ON DATABASE ${CONTROL_DATABASE}, postgres, template1 FROM PUBLIC`);
  });
}

/** A lock that ends with its connection, so that a killed service leaves none behind. */
async function takeOwnerLock(address: ServerAddress, patienceMs: number): Promise<pg.Client | null> {
  const client = new pg.Client({ ...address, application_name: 'cdp owner' });
  client.on('error', () => {});
  await client.connect();
  for (const until = Date.now() + patienceMs; ; await sleep(100)) {
    const { rows } = await client.query<{ held: boolean }>('SELECT pg_try_advisory_lock($1) AS held', [OWNER_LOCK]);
    if (rows[0]?.held) return client;
    if (Date.now() >= until) break;
  }
  await client.end();
  return null;
}
