/**
 * The setting of a fault test: the program as a process, on its embedded Postgres or on a server that the test can
 * break.
 */
import { chmod, rm } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { makeFolder } from '../../support/folder.js';
import { type ThrowawayServer, startThrowaway } from '../../support/throwaway-postgres.js';
import {
  firstToken,
  freePort,
  preparedDataDir,
  runProgram,
  type RunningService,
  startServe,
  superuserOfProject,
} from '../../support/program.js';
import { call } from '../../support/service.js';
import type { Cluster } from './cluster.js';
import { Ledger, LEDGER_TABLE, type Verdict } from './ledger.js';

/** A project with the ledger's table in it. */
export interface Scene {
  readonly token: string;
  readonly ledger: Ledger;
  compare(): Promise<Verdict>;
}

/** One data folder with its service, always at the same port. */
export interface EmbeddedStage extends Scene {
  readonly dataDir: string;
  readonly url: string;
  /** Starts the service. @returns it, and how long it took until it listened */
  start(): Promise<{ service: RunningService; ms: number }>;
}

/** @returns the stage with its service running */
export const embeddedStage = async (...args: string[]) => embeddedStageOn(await preparedDataDir(), ...args);

/** The same on a data folder of the test's choice. */
export async function embeddedStageOn(
  dataDir: string,
  ...args: string[]
): Promise<EmbeddedStage & { readonly first: RunningService }> {
  const port = String(await freePort());
  const start = async () => {
    const before = performance.now();
    const service = await startServe(['--port', port, '--data-dir', dataDir, ...args]);
    return { service, ms: performance.now() - before };
  };
  const { service } = await start();
  const token = await firstToken(dataDir);
  await createLedger(service.url, token);
  const ledger = new Ledger();
  const url = `http://127.0.0.1:${port}`;
  // The project's server runs while a service does, and was just asked for.
  const compare = async () => {
    const responses = await call(url, 'POST', '/api/cdp/sql', { token, body: { sql: 'SELECT 1' } }).catch(() => null);
    const own = responses === null ? (await start()).service : null;
    if (own !== null) await call(url, 'POST', '/api/cdp/sql', { token, body: { sql: 'SELECT 1' } });
    try {
      return await onDatabase(await superuserOfProject(dataDir), (client) => ledger.compare(client));
    } finally {
      await own?.end();
    }
  };
  return { dataDir, url, token, ledger, compare, start, first: service };
}

/** A Postgres of the test's own, and services that are given its `DATABASE_URL`. */
export interface ServerStage extends Scene {
  /**
   * Another instance. @param via where it finds Postgres, instead of the server's own socket; more arguments behind it
   */
  start(via?: string, ...args: string[]): Promise<RunningService>;
  cdp(...args: string[]): Promise<string>;
  readonly environment: (via?: string) => Record<string, string>;
  /** The server now; it is another one after `restart`. */
  readonly server: () => ThrowawayServer;
  /** Starts the server again after it was killed. */
  restart(): Promise<void>;
  query<Row extends pg.QueryResultRow>(text: string, values?: unknown[], database?: string): Promise<Row[]>;
  close(): Promise<void>;
}

const SECRET = 's'.repeat(32);

/** @param cluster what `DATABASE_URL` names instead of a server of the stage's own */
export async function serverStage(cluster: Cluster | null = null): Promise<ServerStage> {
  const folder = makeFolder('cdp-fault-');
  await chmod(folder, 0o711);
  const launch = () => startThrowaway(join(folder, 'server'));
  let own = cluster === null ? await launch() : null;
  const server = () => cluster?.primary() ?? (own as ThrowawayServer);
  const at = (database: string) => ({ ...server().connection, database });
  const query = <Row extends pg.QueryResultRow>(text: string, values: unknown[] = [], database = 'cdp') =>
    onDatabase(at(database), async (client) => (await client.query<Row>(text, values)).rows);
  await query('CREATE DATABASE cdp', [], 'postgres');
  const environment = (via = cluster?.hosts) => {
    const { user, password, host, port } = server().connection;
    const place = via === undefined ? `/cdp?host=${encodeURIComponent(host)}&port=${port}` : `${via}/cdp`;
    return { DATABASE_URL: `postgres://${user}:${password}@${place}`, CDP_SECRET: SECRET };
  };
  const cdp = async (...args: string[]) => {
    const { code, stdout, stderr } = await runProgram(args, { env: environment() });
    if (code !== 0) throw new Error(stderr);
    return stdout.trim();
  };
  const start = (via?: string, ...args: string[]) => startServe(args, { env: environment(via) });
  await cdp('project', 'create', 'shop');
  const token = (JSON.parse(await cdp('token', 'create', '--project', 'shop', '--json')) as { token: string }).token;
  const ledger = new Ledger();
  return {
    token,
    ledger,
    start,
    cdp,
    environment,
    query,
    server,
    restart: async () => void (own = await launch()),
    compare: async () => {
      const database = await onDatabase(at('cdp'), databaseOf('shop'));
      return onDatabase(at(database), (client) => ledger.compare(client));
    },
    close: async () => {
      await own?.stop();
      await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
    },
  };
}

export async function createLedger(url: string, token: string): Promise<void> {
  const response = await call(url, 'POST', '/api/cdp/schema/table', { token, body: LEDGER_TABLE });
  if (response.status !== 201) throw new Error(response.text);
}

export const databaseOf = (project: string) => async (client: pg.Client) => {
  const { rows } = await client.query<{ name: string }>(
    'SELECT database_name AS name FROM cdp.projects WHERE name = $1',
    [project],
  );
  return rows[0]?.name ?? '';
};

/** For rows of `pg_stat_activity`: the connections for requests of a project. */
export const OF_REQUESTS = `application_name ~ '^cdp (write|read|sql)'`;

/** A connection of its own, past the service, for one task. */
export async function onDatabase<T>(settings: pg.ClientConfig, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(settings);
  client.on('error', () => undefined);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
