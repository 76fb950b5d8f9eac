/** Projects and tokens over the admin API (contract C3, C16): everything it does, and how soon it takes effect. */
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { DEFAULT_SCOPES } from '../../../src/contract/names.js';
import { type Service, startService } from '../../../src/service.js';
import { BY_ITSELF } from '../../../src/contract/audit.js';
import {
  call,
  expectFailure,
  onServer,
  startTestService,
  type TestResponse,
  type TestService,
} from '../../support/service.js';

const PROJECTS = '/api/cdp/admin/projects';
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

interface Project {
  id: string;
  name: string;
  status: string;
  created_at: string;
}

interface Token {
  id: string;
  name: string;
  scopes: string[];
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
}

let service: TestService;
/** A second instance on the same control database. */
let second: Service;
let admin: string;
let counter = 0;
beforeAll(async () => {
  service = await startTestService();
  second = await startService(service.config, pino({ level: 'silent' }));
  admin = (await service.engine.tokens.create(null)).token;
});
afterAll(async () => {
  await second.close();
  await service.close();
});

const send = (method: string, path: string, body?: unknown): Promise<TestResponse> =>
  service.call(method, PROJECTS + path, { token: admin, body });

async function newProject(): Promise<Project> {
  const response = await send('POST', '', { name: `made-${++counter}` });
  if (response.status !== 201) throw new Error(response.text);
  return response.body.project as Project;
}

async function newToken(project: string, body: object = {}): Promise<{ token: string; details: Token }> {
  const response = await send('POST', `/${project}/tokens`, body);
  if (response.status !== 201) throw new Error(response.text);
  return response.body as unknown as { token: string; details: Token };
}

const list = async (): Promise<Project[]> => (await send('GET', '')).body.projects as Project[];

/** What a call with the token is answered on each instance. */
async function codes(token: string): Promise<unknown[]> {
  const responses = await Promise.all(
    [service.url, second.url].map((url) => call(url, 'GET', '/api/cdp/schema', { token })),
  );
  return responses.map(({ status, body }) => body.error ?? status);
}

/** Within one second both instances answer so, and go on answering so. */
async function withinOneSecond(token: string, expected: unknown): Promise<void> {
  await sleep(1_000);
  expect(await codes(token)).toEqual([expected, expected]);
  await sleep(200);
  expect(await codes(token)).toEqual([expected, expected]);
}

describe('projects', () => {
  it('are created, listed, deactivated, activated and deleted', async () => {
    const created = await send('POST', '', { name: 'shop' });
    expect(created.status).toBe(201);
    const project = created.body.project as Project;
    expect(created.body).toEqual({ success: true, message: 'project created', project });
    expect(project).toEqual({
      id: expect.stringMatching(UUID) as string,
      name: 'shop',
      status: 'active',
      quota: 'default',
      own_schemas: true,
      server: 'default',
      created_at: expect.stringMatching(ISO) as string,
    });
    expect(await list()).toContainEqual({ ...project, size_bytes: expect.any(Number) as number });

    for (const [action, status] of [
      ['deactivate', 'inactive'],
      ['deactivate', 'inactive'],
      ['activate', 'active'],
      ['activate', 'active'],
    ] as const) {
      const response = await send('POST', `/shop/${action}`);
      expect(response.status).toBe(200);
      expect(response.body.project).toEqual({ ...project, status });
      expect(await list()).toContainEqual({ ...project, status, size_bytes: expect.any(Number) as number });
    }

    const deleted = await send('DELETE', '/shop?confirm=shop');
    expect(deleted.status).toBe(200);
    expect(deleted.body).toMatchObject({ success: true, project: { id: project.id, name: 'shop' } });
    expect((await list()).map(({ name }) => name)).not.toContain('shop');
    for (const path of ['/shop/activate', '/shop/deactivate', '/shop/tokens']) {
      expectFailure(await send(path.endsWith('tokens') ? 'GET' : 'POST', path), 404, 'not_found');
    }
    expectFailure(await send('DELETE', '/shop?confirm=shop'), 404, 'not_found');
  });

  it('can be renamed: token, data and running requests stay, and the old name becomes free', async () => {
    const project = await newProject();
    const { name, id } = project;
    const { token, details } = await newToken(name);
    const sql = (text: string) => service.call('POST', '/api/cdp/sql', { token, body: { sql: text } });
    expect((await sql('CREATE TABLE kept AS SELECT 1 AS n')).status).toBe(200);
    const running = sql('SELECT pg_sleep(0.5)');
    const renamed = await send('PUT', `/${name}/name`, { name: `${name}-new` });
    expect(renamed.body).toEqual({
      success: true,
      message: 'project renamed',
      project: { ...project, name: `${name}-new` },
    });
    expect((await running).status).toBe(200);
    expect((await sql('SELECT n FROM kept')).body.rows).toEqual([{ n: 1 }]);
    expectFailure(await send('GET', `/${name}/tokens`), 404, 'not_found');
    expect((await send('GET', `/${name}-new/tokens`)).body.tokens).toMatchObject([{ id: details.id }]);
    await sleep(1_000);
    for (const url of [service.url, second.url]) {
      expect((await call(url, 'GET', '/api/cdp/token', { token })).body.project).toEqual({ id, name: `${name}-new` });
    }
    // To the name that it has already, which a retry may do.
    expect((await send('PUT', `/${name}-new/name`, { name: `${name}-new` })).status).toBe(200);
    expect((await send('POST', '', { name })).status).toBe(201);
    expectFailure(await send('PUT', `/${name}-new/name`, { name }), 409, 'unique_violation');
    expectFailure(await send('PUT', `/${name}-new/name`, { name: 'No Name' }), 400, 'invalid_name');
    expectFailure(await send('PUT', '/nobody/name', { name: 'somebody' }), 404, 'not_found');
    expect((await list()).filter((one) => one.id === id)).toMatchObject([{ name: `${name}-new` }]);
  });

  it('start empty under the name of a deleted one: nothing of the old project is left, not even its tokens', async () => {
    const { name } = await newProject();
    const old = await newToken(name);
    await service.call('POST', '/api/cdp/sql', { token: old.token, body: { sql: 'CREATE TABLE left_over (a text)' } });
    await send('DELETE', `/${name}?confirm=${name}`);
    expect((await send('POST', '', { name })).status).toBe(201);
    const fresh = await newToken(name);
    const { body } = await service.call('GET', '/api/cdp/schema', { token: fresh.token });
    expect(body.tables).toEqual([]);
    await withinOneSecond(old.token, 'unauthorized');
  });

  it('have their own database, which is dropped with them and their roles', async () => {
    const { name } = await newProject();
    const placement = (await service.engine.control.projects.find('name', name))?.placement;
    const there = () =>
      onServer(service.server, async (client) => {
        const { rows } = await client.query<{ count: string }>(
          `SELECT (SELECT count(*) FROM pg_database WHERE datname = $1) +
            (SELECT count(*) FROM pg_roles WHERE rolname IN ($2, $3)) AS count`,
          [placement?.database, placement?.writer, placement?.reader],
        );
        return Number(rows[0]?.count);
      });
    expect(await there()).toBe(3);
    await send('DELETE', `/${name}?confirm=${name}`);
    expect(await there()).toBe(0);
  });

  it('do not reveal the name of a database, schema or role', async () => {
    const { name } = await newProject();
    const placement = (await service.engine.control.projects.find('name', name))?.placement;
    const texts = [(await send('GET', '')).text, (await send('POST', `/${name}/deactivate`)).text];
    for (const text of texts) {
      for (const inner of [placement?.database, placement?.writer, placement?.reader])
        expect(text).not.toContain(inner);
    }
  });

  it.each(['', 'A', 'Shop', '1shop', '-shop', 'shop_1', 'shöp', 'a b', 'a/b', "a'b", 'a\u0000', 'a\n', 'x'.repeat(64)])(
    'cannot be called %j',
    async (name) => {
      // Sizes change by themselves.
      const names = async () => (await list()).map((project) => project.name);
      const before = await names();
      const response = await send('POST', '', { name });
      expectFailure(response, 400, 'invalid_name');
      expect(await names()).toEqual(before);
    },
  );

  it('can have a name of 63 characters, and only one project has it', async () => {
    const name = `x${'-9'.repeat(31)}`;
    expect((await send('POST', '', { name })).status).toBe(201);
    const before = await list();
    const again = await send('POST', '', { name });
    expect(again.status).toBe(409);
    expectFailure(again, 409, again.body.error as string);
    expect(await list()).toEqual(before);
  });

  it('of the same name are created once, even by many requests at once on two instances', async () => {
    const asking = Array.from({ length: 6 }, (_, i) =>
      call(i % 2 === 0 ? service.url : second.url, 'POST', PROJECTS, { token: admin, body: { name: 'contested' } }),
    );
    const responses = await Promise.all(asking);
    expect(responses.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409, 409, 409]);
    expect((await list()).filter(({ name }) => name === 'contested')).toHaveLength(1);
    expect((await newToken('contested')).token).toMatch(/^cdp_/);
  });

  it.each(['', '?confirm=', '?confirm=other', '?confirm=MADE', '?Confirm=x', '?confirm=a&confirm=b'])(
    'are not deleted by "%s"',
    async (query) => {
      const { name } = await newProject();
      expectFailure(await send('DELETE', `/${name}${query}`), 400, 'invalid_request');
      expect((await list()).map((project) => project.name)).toContain(name);
    },
  );

  it.each(['nobody', '%00', '%27', "x'--", 'UPPER', '..%2f', 'x'.repeat(300), '%F0%9F%8E%89'])(
    'that do not exist get 404: %s',
    async (name) => {
      expectFailure(await send('POST', `/${name}/activate`), 404, 'not_found');
      expectFailure(await send('POST', `/${name}/deactivate`), 404, 'not_found');
      expectFailure(await send('GET', `/${name}/tokens`), 404, 'not_found');
      expectFailure(await send('POST', `/${name}/tokens`, {}), 404, 'not_found');
      expectFailure(await send('DELETE', `/${name}/tokens/${crypto.randomUUID()}`), 404, 'not_found');
      expectFailure(await send('DELETE', `/${name}?confirm=${name}`), 404, 'not_found');
    },
  );
});

describe('deactivating', () => {
  it('takes effect within a second on every instance, and so does activating', async () => {
    const { name } = await newProject();
    const { token } = await newToken(name);
    expect(await codes(token)).toEqual([200, 200]);
    await send('POST', `/${name}/deactivate`);
    await withinOneSecond(token, 'cdp_inactive');
    await send('POST', `/${name}/activate`);
    await withinOneSecond(token, 200);
  });

  it('does not affect other projects', async () => {
    const [one, two] = [await newProject(), await newProject()];
    const { token } = await newToken(two.name);
    await send('POST', `/${one.name}/deactivate`);
    await withinOneSecond(token, 200);
  });
});

describe('tokens', () => {
  it('have a prefix and a checksum, and are all different', async () => {
    const { name } = await newProject();
    const tokens = new Set<string>();
    for (let i = 0; i < 20; i++) {
      const { token } = await newToken(name);
      const [, random = '', checksum] = /^cdp_([0-9A-Za-z]{43})([0-9A-Za-z]{6})$/.exec(token) ?? [];
      tokens.add(random);
      expect(checksum).toBe(base62(crc32(random)));
    }
    expect(tokens.size).toBe(20);
  });

  it('are stored only as SHA-256', async () => {
    const { name } = await newProject();
    const { token, details } = await newToken(name, { name: 'importer' });
    await onServer(
      service.server,
      async (client) => {
        const { rows } = await client.query<{ row: string; sha256: Buffer }>(
          'SELECT t::text AS row, sha256 FROM cdp.tokens t WHERE id = $1',
          [details.id],
        );
        expect(rows[0]?.sha256.toString('hex')).toBe(createHash('sha256').update(token).digest('hex'));
        const dump = await client.query<{ all: string }>(
          `SELECT string_agg(t::text, ' ') || (SELECT string_agg(p::text, ' ') FROM cdp.projects p) AS all FROM cdp.tokens t`,
        );
        expect(dump.rows[0]?.all).toContain('importer');
        expect(dump.rows[0]?.all).not.toContain(token.slice(4, 47));
        expect(dump.rows[0]?.all).not.toContain(token.slice(0, 12));
      },
      service.database,
    );
  });

  it('are shown once: the list shows everything but the token and its hash', async () => {
    const { name } = await newProject();
    const { token, details } = await newToken(name, {
      name: 'importer',
      scopes: ['data:write', 'sql:read'],
      expires_at: '2099-01-02T03:04:05Z',
    });
    expect(details).toEqual({
      id: expect.stringMatching(UUID) as string,
      name: 'importer',
      scopes: ['data:write', 'sql:read'],
      role: null,
      limits: null,
      created_at: expect.stringMatching(ISO) as string,
      created_by: expect.stringMatching(/^admin /) as string,
      expires_at: '2099-01-02T03:04:05.000Z',
      revoked_at: null,
      last_used_at: null,
    });
    const response = await send('GET', `/${name}/tokens`);
    expect(response.status).toBe(200);
    expect(response.body).toMatchObject({ success: true, message: '1 token' });
    expect((response.body.tokens as Token[])[0]).toMatchObject({
      id: details.id,
      name: 'importer',
      last_used_at: null,
    });
    expect(response.text).not.toContain(token.slice(4, 47));
    expect(response.text).not.toContain(createHash('sha256').update(token).digest('hex'));
  });

  it('have all scopes and no expiry by default', async () => {
    const { name } = await newProject();
    for (const body of [{}, { expires_at: null }]) {
      expect((await newToken(name, body)).details).toMatchObject({ scopes: DEFAULT_SCOPES, expires_at: null });
    }
  });

  it('record when they were last used', async () => {
    const { name } = await newProject();
    const { token, details } = await newToken(name);
    const before = Date.now() - 5_000;
    await codes(token);
    const used = async () =>
      ((await send('GET', `/${name}/tokens`)).body.tokens as Token[]).find(({ id }) => id === details.id)?.last_used_at;
    for (let i = 0; i < 40 && (await used()) == null; i++) await sleep(50);
    expect(Date.parse((await used()) ?? '')).toBeGreaterThan(before);
  });

  it('are revoked within a second on every instance, permanently', async () => {
    const { name } = await newProject();
    const { token, details } = await newToken(name);
    const other = await newToken(name);
    expect(await codes(token)).toEqual([200, 200]);
    const response = await send('DELETE', `/${name}/tokens/${details.id}`);
    expect(response.status).toBe(200);
    expect(response.body.details).toMatchObject({ id: details.id, revoked_at: expect.stringMatching(ISO) as string });
    await withinOneSecond(token, 'unauthorized');
    expect(await codes(other.token)).toEqual([200, 200]);
    const again = await send('DELETE', `/${name}/tokens/${details.id}`);
    expect(again.status).toBe(200);
    expect((again.body.details as Token).revoked_at).toBe((response.body.details as Token).revoked_at);
  });

  it('expire on their own, also on an instance that has cached them', async () => {
    const { name } = await newProject();
    const { token } = await newToken(name, { expires_at: new Date(Date.now() + 1_500).toISOString() });
    expect(await codes(token)).toEqual([200, 200]);
    await sleep(1_500);
    await withinOneSecond(token, 'token_expired');
  });

  it('give access to their own project only', async () => {
    const [one, two] = [await newProject(), await newProject()];
    const [a, b] = [await newToken(one.name), await newToken(two.name)];
    const sql = 'CREATE TABLE mine (a text)';
    expect((await service.call('POST', '/api/cdp/sql', { token: a.token, body: { sql } })).status).toBe(200);
    expect((await service.call('GET', '/api/cdp/schema', { token: b.token })).body.tables).toEqual([]);
    expectFailure(await send('DELETE', `/${two.name}/tokens/${a.details.id}`), 404, 'not_found');
    await withinOneSecond(a.token, 200);
  });

  it.each<[string, unknown]>([
    ['an empty name', { name: '' }],
    ['a name of 201 characters', { name: 'x'.repeat(201) }],
    ['U+0000 in the name', { name: 'a\u0000b' }],
    ['a name that is a number', { name: 1 }],
    ['no scope', { scopes: [] }],
    ['an unknown scope', { scopes: ['sql:read', 'admin'] }],
    ['scopes as text', { scopes: 'sql:read' }],
    ['an unknown field', { expires: '2099-01-01T00:00:00Z' }],
    ['a date alone', { expires_at: '2099-01-01' }],
    ['a time that is none', { expires_at: '2099-02-30T00:00:00Z' }],
    ['a number as time', { expires_at: 4_102_444_800 }],
    ['words as time', { expires_at: 'tomorrow' }],
  ])('are not created with %s', async (_what, body) => {
    const { name } = await newProject();
    expectFailure(await send('POST', `/${name}/tokens`, body), 400, 'invalid_request');
    expect((await send('GET', `/${name}/tokens`)).body.tokens).toEqual([]);
  });

  it.each([
    '2099-12-31T23:59:60Z',
    '2099-12-31t23:59:59z',
    '2099-12-31T23:59:59.123456789Z',
    '2099-12-31T23:59:59+23:59',
  ])('are created or refused with the time %s', async (expires) => {
    const { name } = await newProject();
    const response = await send('POST', `/${name}/tokens`, { expires_at: expires });
    if (response.status !== 201) expectFailure(response, 400, 'invalid_request');
  });

  it.each(['x', '%00', '00000000-0000-0000-0000-000000000000', "' OR 1=1 --"])(
    'that do not exist get 404: %s',
    async (id) => {
      const { name } = await newProject();
      expectFailure(
        await send('DELETE', `/${name}/tokens/${encodeURIComponent(decodeURIComponent(id))}`),
        404,
        'not_found',
      );
    },
  );
});

describe('an admin token', () => {
  it('is described as an admin token', async () => {
    const expiresAt = new Date(Date.now() + 60_000);
    const { token, details } = await service.engine.tokens.create(null, { name: 'ops', expiresAt });
    expect((await service.call('GET', '/api/cdp/token', { token })).body).toEqual({
      success: true,
      message: 'token found',
      project: null,
      token: {
        id: details.id,
        name: 'ops',
        admin: true,
        scopes: [],
        role: null,
        limits: null,
        expires_at: expiresAt.toISOString(),
      },
    });
  });

  it('cannot be listed or revoked as a token of a project', async () => {
    const { name } = await newProject();
    const [{ id } = { id: '' }] = await service.engine.tokens.list(null);
    expectFailure(await send('DELETE', `/${name}/tokens/${id}`), 404, 'not_found');
    expect((await send('GET', `/${name}/tokens`)).body.tokens).toEqual([]);
    expect((await send('GET', '')).status).toBe(200);
  });

  it('stops working within a second of being revoked', async () => {
    const { token, details } = await service.engine.tokens.create(null);
    expect((await service.call('GET', PROJECTS, { token })).status).toBe(200);
    expect((await call(second.url, 'GET', PROJECTS, { token })).status).toBe(200);
    await service.engine.tokens.revoke(details.id, {}, BY_ITSELF);
    await sleep(1_000);
    for (const url of [service.url, second.url]) {
      expectFailure(await call(url, 'GET', PROJECTS, { token }), 401, 'unauthorized');
    }
  });

  it('also stops working if the clock is set back meanwhile', async () => {
    const { token, details } = await service.engine.tokens.create(null);
    expect((await service.call('GET', PROJECTS, { token })).status).toBe(200);
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 3_600_000 });
    try {
      expect((await service.call('GET', PROJECTS, { token })).status).toBe(200);
      await service.engine.tokens.revoke(details.id, {}, BY_ITSELF);
      await sleep(1_000);
      expectFailure(await service.call('GET', PROJECTS, { token }), 401, 'unauthorized');
    } finally {
      vi.useRealTimers();
    }
  });
});

function base62(number: number): string {
  const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
  let text = '';
  for (let rest = number; rest > 0; rest = Math.floor(rest / 62)) text = (alphabet[rest % 62] ?? '') + text;
  return text.padStart(6, '0');
}
