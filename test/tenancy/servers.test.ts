/** Projects on an added server, next to those on the default server. */
import { afterEach, describe, expect, it } from 'vitest';
import { BY_ITSELF } from '../../src/contract/audit.js';
import { sql } from '../../src/pg/index.js';
import { taskFailures } from '../../src/tasks.js';
import type { NewServer, ServerRows } from '../../src/tenancy/control/server-rows.js';
import { ServerWatch } from '../../src/tenancy/health/server-watch.js';
import type { Servers } from '../../src/tenancy/servers.js';
import {
  clearAway,
  connected,
  createDatabase,
  dropDatabase,
  type TestDatabase,
  testServers,
} from '../support/postgres.js';
import { variableWith } from '../support/added-server.js';
import { startOwnService, startTestService, type TestService } from '../support/service.js';

const HOMES = { 'a server by address': startTestService, 'servers of their own': startOwnService };
const VARIABLE = 'CDP_TEST_ADDED_SERVER';

const NEW: NewServer = {
  name: 'second',
  urlReference: `env:${VARIABLE}`,
  engine: 'postgres',
  tenancy: 'shared',
  labels: { region: 'eu' },
  weight: 1,
  maxProjects: null,
  maxBytes: null,
  maxConnections: null,
};

const urlOf = ({ connection: { host, port, user, password }, name }: TestDatabase): string =>
  `postgres://${user}:${encodeURIComponent(password)}@/${name}?host=${encodeURIComponent(host)}&port=${port}`;

describe.each(Object.entries(HOMES))('added next to %s', (_name, start) => {
  let service: TestService;
  let added: TestDatabase;

  afterEach(async () => {
    await Promise.all(
      (await service.engine.projects.list()).map(({ name }) => service.engine.projects.delete(name, BY_ITSELF)),
    );
    const template = `cdp_template_${service.engine.control.instanceId}`;
    await service.close();
    await connected(added.connection, (client) => clearAway(client, dropDatabase(template)));
    await added.drop();
  });

  it('holds a project that is created, filled, queried and deleted there', async () => {
    service = await start();
    const server = testServers().at(-1);
    added = await createDatabase(server);
    process.env[VARIABLE] = urlOf(added);
    expect(await service.engine.control.servers.add(NEW, null)).toBe(true);
    expect(await service.engine.control.servers.add(NEW, null)).toBe(false);
    const row = await service.engine.projects.create('abroad', BY_ITSELF, { server: 'second' });
    expect(row.placement.server).toBe('second');
    const { token } = await service.engine.tokens.create(row.id);
    const call = (method: string, path: string, body?: unknown) =>
      service.call(method, path, { token, ...(body === undefined ? {} : { body }) });
    const columns = [{ name: 'email', type: 'TEXT' }];
    expect((await call('POST', '/api/cdp/schema/table', { table_name: 'people', columns })).status).toBe(201);
    expect((await call('POST', '/api/cdp/data/people', [{ email: 'ada@example.com' }])).status).toBe(201);
    const sql = 'SELECT email, current_setting($1)::int / 10000 AS major FROM people';
    const asked = await call('POST', '/api/cdp/sql', { sql, params: ['server_version_num'] });
    expect(asked.body.rows).toEqual([{ email: 'ada@example.com', major: server?.major }]);
    const { maxConnections } = service.config;
    expect(service.engine.load.connections).toContainEqual(
      expect.objectContaining({ server: 'second', max: maxConnections ?? 80 }),
    );
  });

  it('does not affect the other server if it hangs', async () => {
    service = await start({ running: '2' });
    const home = await service.project();
    added = await createDatabase();
    process.env[VARIABLE] = urlOf(added);
    await service.engine.control.servers.add({ ...NEW, maxConnections: 3 }, null);
    const { id } = await service.engine.projects.create('abroad', BY_ITSELF, { server: 'second' });
    const { token } = await service.engine.tokens.create(id);
    const body = { sql: 'SELECT pg_sleep(120)' };
    const leave = new AbortController();
    const hanging = Array.from({ length: 6 }, () =>
      service.call('POST', '/api/cdp/sql', { token, body, signal: leave.signal }).catch(() => 'left'),
    );
    const load = () => service.engine.load.requests.sql;
    await expect.poll(load).toEqual({ running: 2, waiting: 4 });
    expect(await home.rows('SELECT 1 AS one')).toEqual([{ one: 1 }]);
    expect(service.engine.load.connections).toContainEqual({ server: 'second', open: 2, max: 3 });
    // They count under a changed limit, too.
    await service.engine.control.servers.set('second', { maxConnections: 4 }, null);
    const { placement } = await service.engine.projects.get('abroad');
    expect(service.engine.databaseAccess.capacities.forPlacement(placement).maxConnections).toBe(4);
    expect(load()).toEqual({ running: 2, waiting: 4 });
    leave.abort();
    expect(await Promise.all(hanging)).toEqual(Array(6).fill('left'));
  });

  it('keeps connections to no server that was removed', async () => {
    service = await start();
    const home = await service.project();
    added = await createDatabase();
    process.env[VARIABLE] = urlOf(added);
    await service.engine.control.servers.add(NEW, null);
    const { name } = await service.engine.projects.create('abroad', BY_ITSELF, { server: 'second' });
    await (await service.found(name)).rows('SELECT 1');
    await home.rows('SELECT 1');
    const known = () => service.engine.load.connections.map(({ server }) => server).sort();
    expect(known()).toEqual(['default', 'second']);
    await service.engine.projects.delete(name, BY_ITSELF);
    expect(await service.engine.control.servers.remove('second', null)).toBe(true);
    await expect.poll(known, { timeout: 20_000 }).toEqual(['default']);
    expect(await home.rows('SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  it('keeps connections to no former URL, even if that changed before the first refresh', async () => {
    service = await start();
    added = await createDatabase();
    const { servers } = service.engine;
    const variable = variableWith(urlOf(added));
    const at = (urlReference: string) => {
      return {
        server: 'second',
        added: { urlReference, addedAt: 0, engine: 'postgres', maxConnections: null },
      } as const;
    };
    const former = at(`env:${variable}`);
    const now = at(`env:${variableWith(urlOf(added))}`);
    const { pool } = servers.serverOf(former);
    // This list may have been read before the server was added.
    servers.retain([]);
    expect(servers.serverOf(former).pool).toBe(pool);
    expect(await pool.query(sql`SELECT 1`)).toEqual([['1']]);
    servers.retain([now]);
    await expect(pool.query(sql`SELECT 1`)).rejects.toThrow();
    expect(servers.runningServers).toBe(servers.defaultTenancy.runningServers);
    const { pool: listed } = servers.serverOf(now);
    servers.retain([now]);
    servers.retain([now]);
    expect(servers.serverOf(now).pool).toBe(listed);
    servers.retain([]);
    await expect(listed.query(sql`SELECT 1`)).rejects.toThrow();
  });
});

it('a list of servers that cannot be read is logged, and counted as a failed task', async () => {
  const rows = { list: () => Promise.reject(new Error('away')) } as unknown as ServerRows;
  const lines: unknown[] = [];
  const log = { info: () => {}, warn: () => {}, error: (fields: object) => void lines.push(fields) };
  const failures = () => taskFailures().get('watch_servers') ?? 0;
  const before = failures();
  const watch = new ServerWatch(rows, {} as Servers, log, () => {});
  watch.startWatching();
  await expect.poll(failures).toBe(before + 1);
  watch.close();
  expect(lines).toEqual([{ error: 'away', task: 'watch_servers' }]);
});
