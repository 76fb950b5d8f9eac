/**
 * The real service for tests: its own control database on a server of the run, or an embedded server for each project;
 * a free port on loopback, real HTTP. `close()` removes everything that it created.
 */
import { chmod, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type pg from 'pg';
import { pino } from 'pino';
import { loadConfig } from '../../src/cli/load-config.js';
import type { Settings } from '../../src/settings.js';
import type { Scope } from '../../src/contract/names.js';
import type { ErrorBody } from '../../src/contract/wire/failure.js';
import { PORT, SUPERUSER } from '../../src/embedded/postgres-config.js';
import type { Engine } from '../../src/engine/engine.js';
import { startService } from '../../src/service.js';
import type { Placement } from '../../src/tenancy/placement.js';
import { makeFolder } from './folder.js';
import { clearAway, connected, dropDatabase, embeddedServer, type TestServer } from './postgres.js';
import { copyPreparedDataDir } from './prepared-data-dir.js';

export const SECRET = 'a secret for tests, of more than 32 characters';

export interface TestResponse<Body = Record<string, unknown>> {
  status: number;
  headers: Headers;
  /** The body as it came. */
  text: string;
  /** The body as JSON; undefined where it is none. */
  body: Body;
}

export interface Call {
  /** An object is sent as JSON; a string or bytes as they are. */
  body?: unknown;
  headers?: Record<string, string>;
  /** Default: the project's token. null: no Authorization header. */
  token?: string | null;
  signal?: AbortSignal;
}

/** One project with a token of all scopes. */
export interface TestProject {
  readonly id: string;
  readonly name: string;
  readonly token: string;
  call(method: string, path: string, call?: Call): Promise<TestResponse>;
  /** Rows of a statement that must succeed. */
  rows(sql: string, params?: unknown[]): Promise<Record<string, unknown>[]>;
  /** Creates a table that must succeed: `{ email: 'TEXT' }`. */
  table(name: string, columns: Record<string, string>): Promise<void>;
  tokenWith(...scopes: Scope[]): Promise<string>;
  /** A token that acts as a role that the project has made. */
  tokenAs(role: string, ...scopes: Scope[]): Promise<string>;
  /** The same with a token that nobody knows yet: what was just changed about the project holds for it at once. */
  seenAnew(): Promise<TestProject>;
}

export interface TestService {
  readonly url: string;
  /** Of the setting `pg-port`; null: there is none. */
  readonly postgresPort: number | null;
  readonly engine: Engine;
  /** The server of its control database. */
  readonly server: TestServer;
  /** The name of its control database. */
  readonly database: string;
  /** What a second instance on the same control database would be given. */
  readonly config: Settings;
  call(method: string, path: string, call?: Call): Promise<TestResponse>;
  /** @param server the name of one that was added; default: the service chooses */
  project(name?: string, server?: string): Promise<TestProject>;
  /** One that is there already, with a token of its own. */
  found(name: string): Promise<TestProject>;
  close(): Promise<void>;
}

let counter = 0;

const PRESET = {
  port: '0',
  'log-level': 'silent',
  // All tests come from one address, and many send wrong tokens.
  'wrong-tokens': '0',
};

/** All projects on a server by address. @param settings by flag name, as on the command line: `{ 'wait-ms': '200' }` */
export async function startTestService(
  settings: Record<string, string> = {},
  server: TestServer = embeddedServer(),
): Promise<TestService> {
  const database = `control_${process.pid}_${++counter}_${Date.now()}`;
  await onServer(server, (client) => client.query(`CREATE DATABASE ${database} ENCODING 'UTF8' TEMPLATE template0`));
  const { host, port, user, password } = server.connection;
  const url = `postgres://${user}:${encodeURIComponent(password)}@/${database}?host=${encodeURIComponent(host)}&port=${port}`;
  const preset = { ...PRESET, 'database-url': url, secret: SECRET, 'max-connections': '24' };
  return start({ ...preset, ...settings }, server, database, async (placements, instanceId) => {
    await onServer(server, async (client) => {
      for (const { database: own, writer, reader } of placements) {
        await clearAway(client, dropDatabase(own), `DROP ROLE IF EXISTS ${writer}, ${reader}`);
        await dropMadeRoles(client, writer);
      }
      await clearAway(client, dropDatabase(`cdp_template_${instanceId}`), dropDatabase(database));
    });
  });
}

async function dropMadeRoles(client: pg.Client, writer: string): Promise<void> {
  const { rows } = await client.query<{ rolname: string }>(
    'SELECT rolname FROM pg_roles WHERE starts_with(rolname::text, $1)',
    [`p_${writer.slice(2)}_`],
  );
  for (const { rolname } of rows) await client.query(`DROP ROLE ${rolname}`);
}

/** A server for each project, in a data folder of its own. @param settings by flag name */
export async function startOwnService(settings: Record<string, string> = {}): Promise<TestService> {
  // A short path, so that the sockets fit; passable, so that an unprivileged server reaches its folder in it.
  const folder = makeFolder('cdp-own-');
  await chmod(folder, 0o711);
  const dataDir = join(folder, 'data');
  await copyPreparedDataDir(dataDir);
  const connection = {
    ...{ host: join(dataDir, 'postgres/control/socket'), port: PORT, user: SUPERUSER, password: '' },
    database: 'postgres',
  };
  return start({ ...PRESET, 'data-dir': dataDir, ...settings }, { major: 18, connection }, connection.database, () =>
    rm(folder, { recursive: true, force: true, maxRetries: 8 }),
  );
}

/** @param clear takes away what is left once the service has ended */
async function start(
  settings: Record<string, string>,
  server: TestServer,
  database: string,
  clear: (placements: readonly Placement[], instanceId: string) => Promise<void>,
): Promise<TestService> {
  const { config } = loadConfig(settings, {}, null);
  const service = await startService(config, pino({ level: config.logLevel }));
  const { engine } = service;

  const withToken = async (id: string, name: string): Promise<TestProject> => {
    const { token } = await engine.tokens.create(id);
    const callIt = (method: string, path: string, given: Call = {}) =>
      call(service.url, method, path, { token, ...given });
    return {
      id,
      name,
      token,
      call: callIt,
      rows: async (sql, params) => {
        const response = await callIt('POST', '/api/cdp/sql', {
          body: { sql, ...(params === undefined ? {} : { params }) },
        });
        if (response.status !== 200) throw new Error(`${sql}: ${response.text}`);
        return response.body.rows as Record<string, unknown>[];
      },
      table: async (table, columns) => {
        const list = Object.entries(columns).map(([column, type]) => ({ name: column, type }));
        const response = await callIt('POST', '/api/cdp/schema/table', { body: { table_name: table, columns: list } });
        if (response.status !== 201) throw new Error(`${table}: ${response.text}`);
      },
      tokenWith: async (...scopes) => (await engine.tokens.create(id, { scopes })).token,
      tokenAs: async (role, ...scopes) => (await engine.tokens.create(id, { role, scopes })).token,
      seenAnew: () => withToken(id, name),
    };
  };
  const project = async (name = `project-${++counter}`, server?: string): Promise<TestProject> => {
    const { id } = await engine.projects.create(name, undefined, server === undefined ? {} : { server });
    return withToken(id, name);
  };

  return {
    url: service.url,
    postgresPort: service.postgresPort,
    engine,
    server,
    database,
    config,
    call: (method, path, given) => call(service.url, method, path, given),
    project,
    found: async (name) => withToken((await engine.projects.get(name)).id, name),
    close: async () => {
      const placements = (await engine.projects.list()).map(({ placement }) => placement);
      const closed = service.close();
      // It would wait a second for requests on the connections that `fetch` keeps.
      service.breakOff();
      await closed;
      await clear(placements, engine.control.instanceId);
    },
  };
}

export async function call(url: string, method: string, path: string, given: Call = {}): Promise<TestResponse> {
  const { body, headers = {}, token, signal } = given;
  const isBytes = typeof body === 'string' || body instanceof Uint8Array;
  const response = await fetch(url + path, {
    method,
    headers: {
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(token == null ? {} : { authorization: `Bearer ${token}` }),
      ...headers,
    },
    ...(body === undefined
      ? {}
      : { body: (isBytes ? body : JSON.stringify(body)) as string | Uint8Array<ArrayBuffer> }),
    ...(signal === undefined ? {} : { signal }),
  });
  const text = await response.text();
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    parsed = undefined;
  }
  return { status: response.status, headers: response.headers, text, body: parsed as Record<string, unknown> };
}

/** The one assertion for the shape of failures: throws unless the response is exactly such a failure. */
export function expectFailure(response: TestResponse, status: number, code: string): ErrorBody {
  const body = response.body as unknown as ErrorBody;
  const right =
    response.status === status &&
    body?.success === false &&
    body.error === code &&
    body.status === status &&
    typeof body.message === 'string' &&
    body.message.length > 0 &&
    body.request_id === response.headers.get('x-request-id');
  if (!right) throw new Error(`Expected ${status} ${code}, got ${response.status} ${response.text.slice(0, 2_000)}`);
  return body;
}

/** True where no request holds a place in Postgres or waits for one. */
export const isIdle = ({ engine }: TestService): boolean =>
  Object.values(engine.load.requests).every(({ running, waiting }) => running + waiting === 0);

/** Requests that hold a place in Postgres. */
export function runningRequests({ engine }: TestService): number {
  const { typed, sql } = engine.load.requests;
  return typed.running + sql.running;
}

/** Connections to projects' databases, on all servers. */
export const openConnections = ({ engine }: TestService): number =>
  engine.load.connections.reduce((sum, { open }) => sum + open, 0);

/** As the server's superuser, not through the service. */
export const onServer = <T>(
  server: TestServer,
  work: (client: pg.Client) => Promise<T>,
  database?: string,
): Promise<T> => connected({ ...server.connection, ...(database === undefined ? {} : { database }) }, work);

/** As the superuser, in a project's database, on whichever server it lives. That runs, if the project has been used. */
export const inProject = <T>(
  { engine }: TestService,
  placement: Placement,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> => connected({ ...engine.servers.serverOf(placement).address, database: placement.database }, work);
