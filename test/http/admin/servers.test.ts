/**
 * Postgres servers over the admin API: added, checked, changed, filled and removed, next to either kind of default
 * server.
 */
import { randomUUID } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { tryWithProjectLock } from '../../../src/tenancy/control/project-lock.js';
import { BY_ITSELF } from '../../../src/contract/audit.js';
import { type AddedServer, startAddedServer, variableWith } from '../../support/added-server.js';
import { entriesOf } from '../../support/audit.js';
import { makeFolder } from '../../support/folder.js';
import { connected } from '../../support/postgres.js';
import { PASSWORD } from '../../support/throwaway-postgres.js';
import { eventually } from '../../support/program.js';
import {
  expectFailure,
  onServer,
  startOwnService,
  startTestService,
  type TestResponse,
  type TestService,
} from '../../support/service.js';

const SERVERS = '/api/cdp/admin/servers';
const PROJECTS = '/api/cdp/admin/projects';

let other: AddedServer;
let variable: string;
beforeAll(async () => {
  other = await startAddedServer();
  variable = variableWith(other.url);
});
afterAll(() => other.close());

const HOMES = { 'a server by address': startTestService, 'servers of their own': startOwnService };

describe.each(Object.entries(HOMES))('added next to %s', (_name, start) => {
  let service: TestService;
  let admin: string;
  beforeAll(async () => {
    service = await start();
    admin = (await service.engine.tokens.create(null)).token;
  });
  afterAll(() => service.close());
  afterEach(async () => {
    for (const { name } of await service.engine.projects.list()) await service.engine.projects.delete(name, BY_ITSELF);
    for (const { name } of await service.engine.control.servers.list()) await send('DELETE', `/${name}`);
    await send('PUT', '/default', { status: 'active', labels: {}, weight: 1, max_projects: null, max_bytes: null });
  });

  const send = (method: string, path: string, body?: unknown): Promise<TestResponse> =>
    service.call(method, SERVERS + path, { token: admin, body });

  const add = async (name: string, more: object = {}): Promise<void> => {
    const response = await send('POST', '', { name, url_reference: `env:${variable}`, ...more });
    if (response.status !== 201) throw new Error(response.text);
  };

  const create = (name: string, wish: object = {}): Promise<TestResponse> =>
    service.call('POST', PROJECTS, { token: admin, body: { name, ...wish } });

  /** The server of a project that could be created. */
  const placed = async (name: string, wish: object = {}): Promise<unknown> => {
    const response = await create(name, wish);
    if (response.status !== 201) throw new Error(response.text);
    return (response.body.project as { server: string }).server;
  };

  it('a server that was added as Citus, and is plain Postgres now, says so to a check and to a new project', async () => {
    await add('eu-1');
    // The service may have asked the server in the meantime: another time makes it a server that it has not met.
    const became = `UPDATE cdp.servers SET engine = 'citus', tenancy = 'dedicated', created_at = created_at + interval '1 s'
      WHERE name = 'eu-1'`;
    await onServer(service.server, (client) => client.query(became), service.database);
    const refused = expectFailure(await create('anywhere', { server: 'eu-1' }), 400, 'invalid_request');
    expect(refused.message).toBe(
      'The Citus cluster is not ready for a project: the extension citus is not installed in this database',
    );
    expect(refused.hint).toContain('docs/citus.md');
    const checked = await send('POST', '/eu-1/check');
    expect(checked.body.findings).toContainEqual({
      subject: 'Citus',
      health: 'problem',
      found: 'the database cdp does not have the extension citus',
      advice: 'CREATE EXTENSION citus in the database cdp of the coordinator.',
    });
  });

  it('a server is added, listed, read, checked, changed and removed, each with an entry in the audit log', async () => {
    const body = { name: 'eu-1', url_reference: `env:${variable}`, labels: { region: 'eu' }, max_bytes: 2 ** 30 };
    const added = await send('POST', '', body);
    expect(added.status, added.text).toBe(201);
    const server = {
      ...body,
      ...{ engine: 'postgres', tenancy: 'shared', weight: 1, max_projects: null, max_connections: null },
      ...{ status: 'active', projects: 0 },
    };
    expect(added.body).toMatchObject({ success: true, message: 'server added', server });
    const { facts } = added.body.server as { facts: Record<string, unknown> };
    expect(facts).toMatchObject({ version: expect.stringMatching(`^${other.major}\\.`) as string, bytes: 0 });
    expect(added.text).not.toContain(PASSWORD);
    expect((await send('GET', '')).body.servers).toMatchObject([{ name: 'default', url_reference: null }, server]);
    expect((await send('GET', '/eu-1')).body.server).toEqual(added.body.server);
    const checked = await send('POST', '/eu-1/check');
    expect(checked.body.findings).toContainEqual({
      ...{ subject: 'rights', health: 'ok', advice: null },
      found: "the service's role may create databases and roles",
    });
    const change = { status: 'closed', weight: 2.5, labels: { tier: 'a' }, max_projects: 3, max_bytes: null };
    expect((await send('PUT', '/eu-1', change)).body.server).toMatchObject({ ...server, ...change });
    const removed = await send('DELETE', '/eu-1');
    expect(removed.status).toBe(200);
    expectFailure(await send('GET', '/eu-1'), 404, 'not_found');
    for (const [response, operation] of [
      [added, 'server.add'],
      [checked, 'server.check'],
      [removed, 'server.remove'],
    ] as const) {
      const entries = await entriesOf(service, response.headers.get('x-request-id') ?? '');
      expect(entries).toMatchObject([
        { operation, object: 'eu-1', outcome: 'ok', status: response.status, project: null },
      ]);
    }
  });

  it('projects go to the least loaded server, to one by name, or to one with labels', async () => {
    await add('eu-1', { labels: { region: 'eu', tier: 'a' }, weight: 2 });
    await send('PUT', '/default', { labels: { region: 'us' } });
    const servers = [];
    for (const name of ['a', 'b', 'c']) servers.push(await placed(name));
    expect(servers.sort()).toEqual(['default', 'eu-1', 'eu-1']);
    expect(await placed('d', { server: 'default' })).toBe('default');
    expect(await placed('e', { labels: { region: 'eu' } })).toBe('eu-1');
    const { message } = expectFailure(await create('f', { labels: { region: 'asia' } }), 400, 'invalid_request');
    expect(message).toBe('No server with region=asia accepts another project');
    expectFailure(await create('f', { server: 'nowhere' }), 404, 'not_found');
    expectFailure(await create('f', { server: 'no\0where' }), 404, 'not_found');
    expectFailure(await create('f', { labels: { region: 'no\0where' } }), 400, 'invalid_request');
    expect((await send('GET', '/eu-1')).body.server).toMatchObject({ projects: 3 });
  });

  it('finds and removes what the control database no longer knows, and nothing else', async () => {
    await add('eu-1');
    for (const name of ['a', 'b']) await create(name, { server: 'eu-1' });
    const { placement } = await service.engine.projects.get('a');
    const { database, writer, reader } = placement;
    await onServer(
      service.server,
      (client) => client.query("DELETE FROM cdp.projects WHERE name = 'a'"),
      service.database,
    );
    const foreign = 'd_0123456789abcdef0123';
    await connected(other.connection, async (client) => {
      await client.query(`CREATE DATABASE ${foreign}`);
      await client.query(`COMMENT ON DATABASE ${foreign} IS 'cdp_template_0123456789abcdef'`);
    });
    const kept = await service.engine.projects.get('b');
    const asService = { ...other.connection, user: 'cdp', password: PASSWORD, database: kept.placement.database };
    await connected(asService, (client) => client.query('CREATE PUBLICATION cdp_move'));
    const finding = async () => {
      const { findings } = (await send('POST', '/eu-1/check')).body as { findings: { subject: string }[] };
      return findings.find(({ subject }) => subject === 'left behind');
    };
    const roles = [reader, writer].map((role) => `role ${role}`);
    const publication = `publication cdp_move in ${kept.placement.database}`;
    expect(await finding()).toEqual({
      subject: 'left behind',
      health: 'warning',
      found: `no project has ${[`database ${database}`, ...roles, publication].join(', ')}`,
      advice: 'Remove it: cdp server check eu-1 --clear',
    });
    await connected({ ...other.connection, database }, async () => {
      const { body } = await send('POST', '/eu-1/clear');
      const [first] = body.kept as object[];
      expect(first).toEqual({ what: `database ${database}`, reason: 'it is in use: 1 session' });
    });
    await eventually('everything is removed', async () => {
      const { body } = await send('POST', '/eu-1/clear');
      return (body.kept as object[]).length === 0;
    });
    expect(await finding()).toMatchObject({ health: 'ok' });
    await connected(other.connection, async (client) => {
      const three = [database, kept.placement.database, foreign];
      const { rows } = await client.query('SELECT datname FROM pg_database WHERE datname = ANY ($1)', [three]);
      expect(rows.map(({ datname }) => datname as string).sort()).toEqual(three.slice(1).sort());
      const left = await client.query('SELECT FROM pg_roles WHERE rolname = ANY ($1)', [[writer, reader]]);
      expect(left.rowCount).toBe(0);
      await client.query(`DROP DATABASE ${foreign}`);
    });
  });

  it('a server gets another address, by another reference or in the same file, and its projects continue', async () => {
    const folder = makeFolder('cdp-servers-');
    const file = join(folder, 'url');
    await writeFile(file, other.url);
    const proxy = await other.disguised({});
    const home = service.config.databaseUrl;
    service.engine.serverWatch.startWatching();
    try {
      expect((await send('POST', '', { name: 'eu-1', url_reference: `file:${file}` })).status).toBe(201);
      await create('a', { server: 'eu-1' });
      const project = await service.engine.projects.get('a');
      const { token } = await service.engine.tokens.create(project.id);
      const hostOf = async () => {
        const response = await service.call('POST', '/api/cdp/sql', { token, body: { sql: 'SELECT 1 AS one' } });
        expect(response.body.rows, response.text).toEqual([{ one: 1 }]);
        return service.engine.servers.serverOf((await service.engine.projects.get('a')).placement).address.host;
      };
      expect(await hostOf()).toBe(other.connection.host);
      const wrong = [
        [`env:${variableWith(other.url.replace(PASSWORD, 'wrong'))}`, 'password authentication failed'],
        ['env:CDP_TEST_NOWHERE', 'no variable CDP_TEST_NOWHERE'],
        ...(home === null ? [] : [[`env:${variableWith(home)}`, 'it does not have the databases of a'] as const]),
      ] as const;
      for (const [reference, message] of wrong) {
        const response = await send('PUT', '/eu-1', { url_reference: reference, weight: 9 });
        expect(expectFailure(response, 400, 'invalid_request').message).toContain(message);
      }
      expectFailure(await send('PUT', '/default', { url_reference: `file:${file}` }), 400, 'invalid_request');
      expect((await send('GET', '/eu-1')).body.server).toMatchObject({ url_reference: `file:${file}`, weight: 1 });

      const reference = `env:${variableWith(proxy.url)}`;
      const changed = await send('PUT', '/eu-1', { url_reference: reference });
      expect(changed.body.server).toMatchObject({ url_reference: reference });
      await eventually('it is asked at the new address', async () => (await hostOf()) === '127.0.0.1');
      await send('PUT', '/eu-1', { url_reference: `file:${file}` });
      await eventually('it is asked at the old one', async () => (await hostOf()) === other.connection.host);
      await writeFile(file, proxy.url);
      await eventually('the file is read again', async () => (await hostOf()) === '127.0.0.1');
      // Half written.
      await writeFile(file, '');
      expect((await send('GET', '/eu-1')).status).toBe(200);
      expect(await hostOf()).toBe('127.0.0.1');
      await writeFile(file, other.url);
      await eventually('it is read once more', async () => (await hostOf()) === other.connection.host);
    } finally {
      proxy.close();
      await rm(folder, { recursive: true, force: true });
    }
  });

  it('a server that is draining, closed, dedicated or full accepts no more projects', async () => {
    await add('eu-1', { tenancy: 'dedicated' });
    const full = async (name: string) => expectFailure(await create(name, { server: 'eu-1' }), 400, 'invalid_request');
    expect(await placed('a', { server: 'eu-1' })).toBe('eu-1');
    expect((await full('b')).message).toBe('The server "eu-1" accepts no more projects');
    await service.engine.projects.delete('a', BY_ITSELF);
    for (const status of ['draining', 'closed']) {
      await send('PUT', '/eu-1', { status });
      await full('b');
    }
    await send('DELETE', '/eu-1');
    await add('eu-1', { max_projects: 1 });
    expect(await placed('a', { server: 'eu-1' })).toBe('eu-1');
    await full('b');
    await send('PUT', '/eu-1', { max_projects: null, max_bytes: 1024 });
    await full('b');
    expect(await placed('b')).toBe('default');
    await send('PUT', '/eu-1', { max_bytes: 2 ** 40 });
    expect(await placed('c', { server: 'eu-1' })).toBe('eu-1');
    const { facts } = (await send('POST', '/eu-1/check')).body.server as { facts: { bytes: number } };
    expect(facts.bytes).toBeGreaterThan(2 ** 20);
  });

  it('a server with projects is not removed, and the default server never', async () => {
    await add('eu-1');
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f', 'g']) await placed(name, { server: 'eu-1' });
    const { message } = expectFailure(await send('DELETE', '/eu-1'), 409, 'dependent_objects');
    expect(message).toBe('Projects live on the server "eu-1": a, b, c, d, e, and 2 more');
    expectFailure(await send('DELETE', '/default'), 400, 'invalid_request');
    expectFailure(await send('DELETE', '/nowhere'), 404, 'not_found');
    expect((await send('GET', '')).body.servers).toMatchObject([{ name: 'default' }, { name: 'eu-1', projects: 7 }]);
  });

  it('a lost server is removed with its projects and moves, and one that responds is not', async () => {
    const disguise = await other.disguised({});
    expect((await send('POST', '', { name: 'eu-1', url_reference: `env:${variableWith(disguise.url)}` })).status).toBe(
      201,
    );
    const lost = await service.project('lost', 'eu-1');
    const leaving = await service.project('leaving', 'default');
    const { engine } = service;
    const { placement } = await engine.projects.get('lost');
    const source = (await engine.projects.get('leaving')).placement;
    const target = await engine.servers.tenancyOf(placement).newPlacement();
    // A move there, whose process has ended.
    await tryWithProjectLock(engine.control.address, leaving.id, async () => {
      const move = { id: randomUUID(), projectId: leaving.id, source, target, mode: 'copy' as const };
      expect(await engine.moves.rows.insert(move)).toBeNull();
      expect(await engine.moves.rows.fence(move.id)).toBe(true);
    });
    expectFailure(await send('DELETE', '/eu-1?lost=eu-2'), 400, 'invalid_request');
    expect(expectFailure(await send('DELETE', '/eu-1?lost=eu-1'), 400, 'invalid_request').message).toContain('answers');
    disguise.close();
    // A recovery holds the project's lock while it tries to reach the server.
    let released: Promise<unknown> | undefined;
    await new Promise<void>((locked) => {
      released = tryWithProjectLock(
        engine.control.address,
        leaving.id,
        async () => {
          locked();
          await sleep(2_000);
        },
        60_000,
      );
    });
    const removed = await send('DELETE', '/eu-1?lost=eu-1');
    await released;
    expect(removed.body, removed.text).toMatchObject({ server: { name: 'eu-1' }, deleted_projects: ['lost'] });
    expect((await lost.call('GET', '/api/cdp/schema')).status).toBe(401);
    expect((await engine.projects.get('leaving')).isFenced).toBe(false);
    expect((await engine.moves.list('leaving'))[0]).toMatchObject({ state: 'undone', to: 'eu-1', from: 'default' });
    expectFailure(await send('DELETE', '/default?lost=default'), 400, 'invalid_request');
  });

  it('one Postgres cannot be added under two names', async () => {
    await add('eu-1');
    expectFailure(await send('POST', '', { name: 'eu-1', url_reference: `env:${variable}` }), 409, 'unique_violation');
    const again = await send('POST', '', { name: 'eu-2', url_reference: `env:${variable}` });
    expect(expectFailure(again, 400, 'invalid_request').message).toContain('it is the server "eu-1"');
    const { host, port, user, password, database } = service.server.connection;
    const url = `postgres://${user}:${password}@/${database}?host=${encodeURIComponent(host)}&port=${port}`;
    const home = await send('POST', '', { name: 'eu-2', url_reference: `env:${variableWith(url)}` });
    expect(expectFailure(home, 400, 'invalid_request').message).toContain('it is the server "default"');
  });
});

describe('refuses', () => {
  let service: TestService;
  let admin: string;
  let folder: string;
  beforeAll(async () => {
    service = await startTestService();
    admin = (await service.engine.tokens.create(null)).token;
    folder = makeFolder('cdp-urls-');
  });
  afterAll(async () => {
    await service.close();
    await rm(folder, { recursive: true });
  });

  const send = (method: string, path: string, body?: unknown): Promise<TestResponse> =>
    service.call(method, SERVERS + path, { token: admin, body });

  /** What is said of a server by that URL, which must not become one. */
  const refusalOf = async (url: string, more: object = {}): Promise<string> => {
    const response = await send('POST', '', { name: 'eu-1', url_reference: `env:${variableWith(url)}`, ...more });
    const { message, hint = '' } = expectFailure(response, 400, 'invalid_request');
    expect((await service.engine.control.servers.list()).map(({ name }) => name)).toEqual(['default']);
    expect(response.text).not.toContain(PASSWORD);
    return `${message}\n${hint}`;
  };

  const behind = async (changes: Parameters<AddedServer['disguised']>[0]): Promise<string> => {
    const disguise = await other.disguised(changes);
    return refusalOf(disguise.url).finally(() => disguise.close());
  };

  it('what only resembles Postgres, and names it', async () => {
    const version = `PostgreSQL ${other.major}.`;
    expect(await behind({ back: [version, 'CockroachDB v '] })).toContain(
      'the server is CockroachDB: its advisory locks',
    );
    expect(await behind({ back: [' on x86', '-YB-x86'] })).toContain('the server is YugabyteDB');
  });

  it('a server whose advisory locks do not exclude each other', async () => {
    const stub = 'true OR 0000000000 =(';
    expect(await behind({ there: ['pg_try_advisory_lock(', stub] })).toContain(
      'two sessions got the same advisory lock',
    );
  });

  it('a role that may not create databases and roles', async () => {
    await connected(other.connection, async (client) => {
      await client.query(`CREATE ROLE weak LOGIN CREATEDB PASSWORD '${PASSWORD}'`);
      await client.query('GRANT CONNECT ON DATABASE cdp TO weak');
    });
    expect(await refusalOf(other.url.replace('//cdp:', '//weak:'))).toContain(
      "the service's role may not create databases and roles\nALTER ROLE … CREATEDB CREATEROLE",
    );
  });

  it('a wrong password, and a server that cannot be reached', async () => {
    expect(await refusalOf(other.url.replace(PASSWORD, 'wrong'))).toContain('password authentication failed');
    expect(await refusalOf('postgres://cdp@127.0.0.1:1/cdp')).toContain('ECONNREFUSED');
  });

  it('Citus added as Postgres, and the other way round', async () => {
    expect(await refusalOf(other.url, { engine: 'citus' })).toContain('does not have the extension citus');
  });

  it('a URL reference that this instance cannot read', async () => {
    const add = async (reference: string) => {
      const response = await send('POST', '', { name: 'eu-1', url_reference: reference });
      const { message, hint = '' } = expectFailure(response, 400, 'invalid_request');
      return `${message}\n${hint}`;
    };
    expect(await add('env:CDP_TEST_NOT_SET')).toMatch(
      /the environment of the service has no variable CDP_TEST_NOT_SET\nEvery instance of the service needs the variable when it starts/,
    );
    expect(await add('file:/nowhere/url')).toContain('no such file');
    expect(await add('file:/dev/zero')).toContain('is not a file with a URL');
    expect(await add(`file:${folder}`)).toContain('is not a file with a URL');
    const file = join(folder, 'url');
    await writeFile(file, 'not-a-url-but-a-secret');
    const said = await add(`file:${file}`);
    expect(said).toContain('must name a host, a user and a database');
    expect(said).not.toContain('not-a-url-but-a-secret');
    for (const reference of ['env:', 'env:A B', 'file:relative', 'postgres://a:b@c/d', '']) {
      expectFailure(await send('POST', '', { name: 'eu-1', url_reference: reference }), 400, 'invalid_request');
    }
  });

  it('an invalid name, limit or change, and says what is wrong', async () => {
    const reference = `env:${variable}`;
    for (const name of ['', 'Eu', 'a b', `a${'b'.repeat(63)}`, 'a\0']) {
      expectFailure(await send('POST', '', { name, url_reference: reference }), 400, 'invalid_name');
    }
    for (const wrong of [
      { weight: 0 },
      { weight: 1e300 },
      { max_projects: 0 },
      { max_projects: 2 ** 31 },
      { max_bytes: 1.5 },
      { max_connections: -1 },
      { labels: { 'a b': 'c' } },
      { labels: { a: '' } },
      { labels: { a: 'x'.repeat(64) } },
      { labels: ['a'] },
      { status: 'gone' },
      { tenancy: 'dedicated' },
      { url_reference: reference },
      {},
    ]) {
      expectFailure(await send('PUT', '/default', wrong), 400, 'invalid_request');
    }
    expectFailure(await send('PUT', '/default', { max_connections: 5 }), 400, 'invalid_request');
    expectFailure(await send('PUT', '/nowhere', { weight: 2 }), 404, 'not_found');
    expectFailure(await send('POST', '/nowhere/check'), 404, 'not_found');
    expect((await send('GET', '/default')).body.server).toMatchObject({ weight: 1, labels: {}, status: 'active' });
  });

  it('nothing from a server that disappears: its check says so', async () => {
    const disguise = await other.disguised({});
    const name = variableWith(disguise.url);
    expect((await send('POST', '', { name: 'eu-1', url_reference: `env:${name}` })).status).toBe(201);
    disguise.close();
    const away = await send('POST', '/eu-1/check');
    expect(away.body.findings).toMatchObject([{ subject: 'Postgres', health: 'problem' }]);
    expect((away.body.server as { facts: object }).facts).toMatchObject({ bytes: 0 });
    const body = { name: 'shop', server: 'eu-1' };
    // From the next health check on.
    await expect
      .poll(async () => (await service.call('POST', PROJECTS, { token: admin, body })).body, { timeout: 30_000 })
      .toMatchObject({ error: 'database_unavailable', message: 'The server eu-1 does not respond at the moment' });
    delete process.env[name];
    const missing = await send('POST', '/eu-1/check');
    expect(missing.text).toContain(`has no variable ${name}`);
    expect((await send('DELETE', '/eu-1')).status).toBe(200);
  });
});
