/** Keys that may be public (contract C3.13, C3.14): they insert, learn nothing about what is stored, and keep to their limits. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { pino } from 'pino';
import { BY_ITSELF } from '../../../src/contract/audit.js';
import type { NewTokenLimits } from '../../../src/contract/wire/token-limits.js';
import { CdpClient } from '../../../src/client/index.js';
import { limitsOf } from '../../../src/engine/access/append-keys.js';
import { login, refusedLogin } from '../../postgres-port/connect.js';
import { testServers } from '../../support/postgres.js';
import { startService } from '../../../src/service.js';
import {
  call as callAt,
  type Call,
  expectFailure,
  onServer,
  startTestService,
  type TestProject,
  type TestResponse,
  type TestService,
} from '../../support/service.js';

const SHOP = 'https://shop.example.com';
const OTHER = 'https://evil.example';

describe.each(testServers())('on Postgres $major', (server) => {
  let service: TestService;
  let project: TestProject;
  let key: string;
  beforeAll(async () => {
    service = await startTestService({ 'pg-port': '0' }, server);
    project = await service.project();
    await project.rows(`CREATE TABLE clicks (url text NOT NULL, n int8);
      CREATE TABLE people (email text PRIMARY KEY, age int CHECK (age < 150), boss text REFERENCES people, code int2);
      CREATE TABLE watched (a text);
      CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF EXISTS (SELECT FROM people WHERE email = NEW.a) THEN RAISE EXCEPTION '% is known', NEW.a; END IF; RETURN NULL; END $$;
      CREATE TRIGGER watch BEFORE INSERT ON watched FOR EACH ROW EXECUTE FUNCTION watch();
      INSERT INTO people VALUES ('ada', 36)`);
    key = await keyWith();
  });
  afterAll(() => service.close());

  /** A token with `data:append` alone. */
  const keyWith = async (limits?: NewTokenLimits, role?: string): Promise<string> => {
    const narrowed = { limits: limitsOf(['data:append'], limits), role };
    return (await service.engine.tokens.create(project.id, { scopes: ['data:append'], ...narrowed })).token;
  };
  const append = (table: string, body: unknown, call: Call & { query?: string } = {}): Promise<TestResponse> =>
    project.call('POST', `/api/cdp/data/${table}${call.query ?? ''}`, { token: key, body, ...call });
  const count = async (table: string): Promise<number> =>
    Number((await project.rows(`SELECT count(*) AS n FROM ${table}`))[0]?.n);
  const quarantined = async (table: string): Promise<string[]> => {
    const { body } = await project.call('GET', `/api/cdp/quarantine?table=${table}`);
    return (body.records as { record: string }[]).map(({ record }) => record);
  };
  /** What a caller sees of a response, without what differs between any two. */
  const seen = ({ status, text, headers }: TestResponse): unknown[] => [
    status,
    text,
    [...headers.keys()].filter((name) => name !== 'date').sort(),
  ];

  describe('works', () => {
    it('inserts, and answers only how many records were accepted', async () => {
      const before = await count('clicks');
      const response = await append('clicks', [{ url: '/a, "b" [1]' }, { url: '\\', n: 1 }]);
      expect(response.status).toBe(202);
      expect(response.body).toEqual({ success: true, accepted_rows: 2, message: '2 records accepted' });
      expect(await count('clicks')).toBe(before + 2);
    });

    it('stores once what is repeated with the same Idempotency-Key', async () => {
      const before = await count('clicks');
      const headers = { 'idempotency-key': randomUUID() };
      const first = await append('clicks', [{ url: '/once' }], { headers });
      const second = await append('clicks', [{ url: '/once' }], { headers });
      expect(second.body).toEqual(first.body);
      expect(second.headers.get('idempotency-replayed')).toBe('true');
      expect(await count('clicks')).toBe(before + 1);
      const receipt = await project.call('GET', `/api/cdp/receipts/${headers['idempotency-key']}`);
      expect(receipt.body).toMatchObject({ status: 'stored', table: 'clicks', operation: 'insert', rows: 1 });
    });

    it('inserts through the client, which counts what was accepted', async () => {
      const before = await count('clicks');
      const client = new CdpClient({ url: service.url, token: key });
      const records = Array.from({ length: 300 }, (_, n) => ({ url: '/client', n }));
      expect(await client.insert('clicks', records)).toMatchObject({ inserted: 300, batches: 2 });
      expect(await client.insertBatch('clicks', [{ url: '/client' }])).toMatchObject({ inserted: 1 });
      expect(await count('clicks')).toBe(before + 301);
    });

    it('describes itself with its limits, as do lists of tokens', async () => {
      const token = await keyWith({ tables: ['clicks'], origins: [SHOP], rows_per_day: 1_000 });
      const limits = {
        tables: ['clicks'],
        origins: [SHOP],
        requests_per_second: null,
        requests_per_day: null,
        rows_per_second: null,
        rows_per_day: 1_000,
        users: 'off',
      };
      const own = await service.call('GET', '/api/cdp/token', { token });
      expect(own.body.token).toMatchObject({ scopes: ['data:append'], limits });
      const { token: admin } = await service.engine.tokens.create(null);
      const path = `/api/cdp/admin/projects/${project.name}/tokens`;
      const { body } = await service.call('GET', path, { token: admin });
      expect(body.tokens).toContainEqual(expect.objectContaining({ limits }));
    });

    it('is created over HTTP, and inserts what data:write inserts', async () => {
      const { token: admin } = await service.engine.tokens.create(null);
      const path = `/api/cdp/admin/projects/${project.name}/tokens`;
      const body = { scopes: ['data:append'], limits: { tables: ['clicks'], requests_per_second: 5 } };
      const created = await service.call('POST', path, { token: admin, body });
      expect(created.status).toBe(201);
      expect(created.body.details).toMatchObject({ limits: { tables: ['clicks'], origins: null } });
      expect((await append('clicks', [{ url: '/c' }], { token: created.body.token as string })).status).toBe(202);
      const both = await project.tokenWith('data:append', 'data:write');
      expect((await append('clicks', [{ url: '/c' }], { token: both })).body.inserted_rows).toBe(1);
    });
  });

  describe('refuses', () => {
    it.each(['return=ids', 'on_conflict=email', 'dry_run=true', 'on_conflict=email&resolution=ignore'])(
      '%s',
      async (query) => {
        const before = await count('people');
        const response = await append('people', [{ email: 'new' }], { query: `?${query}` });
        expect(expectFailure(response, 403, 'insufficient_scope').message).toContain('data:write');
        expect(await count('people')).toBe(before);
      },
    );

    it('what the service itself finds wrong, naming every place, and stores nothing', async () => {
      const before = await count('clicks');
      const response = await append('clicks', [{ url: '/a', n: 'x' }, { url: '/b' }, { urll: '/c', n: 1.5 }]);
      const { errors } = expectFailure(response, 400, 'invalid_value');
      expect(errors?.map(({ record, column }) => [record, column])).toEqual([
        [0, 'n'],
        [2, 'urll'],
        [2, 'n'],
      ]);
      expect(response.text).not.toContain('"url"');
      expect(await count('clicks')).toBe(before);
      expect(await quarantined('clicks')).toEqual([]);
      expectFailure(await append('clicks', '[{"url":'), 400, 'invalid_json');
      expectFailure(await append('clicks', []), 400, 'empty_batch');
    });

    it('limits of a token that may do more, or that no browser would ever meet', async () => {
      const { token: admin } = await service.engine.tokens.create(null);
      const path = `/api/cdp/admin/projects/${project.name}/tokens`;
      const create = (body: object) => service.call('POST', path, { token: admin, body });
      const list = async () => (await service.call('GET', path, { token: admin })).body.tokens as unknown[];
      const before = (await list()).length;
      const limits = { origins: [SHOP] };
      for (const scopes of [undefined, ['data:write'], ['data:append', 'sql:read']]) {
        const { message } = expectFailure(await create({ scopes, limits }), 400, 'invalid_request');
        expect(message).toContain('only scope is data:append');
      }
      const scopes = ['data:append'];
      const origins = ['https://Shop.example.com', `${SHOP}:443`, SHOP];
      const { errors } = expectFailure(await create({ scopes, limits: { origins } }), 400, 'invalid_request');
      expect(errors?.map(({ message }) => message)).toEqual([
        `body.limits.origins.0 must be as browsers send it: ${SHOP}`,
        `body.limits.origins.1 must be as browsers send it: ${SHOP}`,
      ]);
      for (const wrong of [
        { origins: ['*'] },
        { origins: [`${SHOP}/`] },
        { origins: ['null'] },
        { origins: [] },
        { tables: ['a b'] },
        { tables: [] },
        { rows_per_day: 0 },
        { rows_per_day: 1.5 },
        { rows_per_second: '5' },
        { users: 1 },
      ]) {
        expectFailure(await create({ scopes, limits: wrong }), 400, 'invalid_request');
      }
      expect(await list()).toHaveLength(before);
    });
  });

  describe('protects', () => {
    it('what is stored: a record that it refuses is answered as one that it accepts', async () => {
      const cases: [table: string, refused: object, accepted: object][] = [
        ['people', { email: 'ada' }, { email: 'bob' }],
        ['people', { email: 'carl', boss: 'nobody' }, { email: 'carl', boss: 'ada' }],
        ['people', { email: 'dora', age: 200 }, { email: 'dora', age: 20 }],
        ['watched', { a: 'ada' }, { a: 'eve' }],
      ];
      for (const [table, refused, accepted] of cases) {
        for (const query of ['', '?on_error=quarantine']) {
          for (const isKeyed of [false, true]) {
            const call = () => ({ query, headers: isKeyed ? { 'idempotency-key': randomUUID() } : {} });
            const before = await quarantined(table);
            const bad = await append(table, [refused], call());
            expect(bad.status).toBe(202);
            expect(await quarantined(table)).toEqual([...before, JSON.stringify(refused)]);
            const good = await append(table, [accepted], call());
            expect(seen(bad)).toEqual(seen(good));
            await project.rows(`DELETE FROM people WHERE email <> 'ada'`);
          }
        }
      }
      expect(await project.rows('SELECT email FROM people')).toEqual([{ email: 'ada' }]);
    });

    it('other records of the batch: they are stored', async () => {
      const response = await append('people', [{ email: 'ada' }, { email: 'fay' }]);
      expect(response.body).toMatchObject({ accepted_rows: 2 });
      expect(await project.rows(`SELECT email FROM people ORDER BY 1`)).toEqual([{ email: 'ada' }, { email: 'fay' }]);
      await project.rows(`DELETE FROM people WHERE email = 'fay'`);
    });

    it('the Idempotency-Keys of others', async () => {
      const headers = { 'idempotency-key': randomUUID() };
      const theirs = await project.call('POST', '/api/cdp/data/clicks', { body: [{ url: '/theirs' }], headers });
      expect(theirs.status).toBe(201);
      const before = await count('clicks');
      for (const body of [[{ url: '/theirs' }], [{ url: '/mine' }]]) {
        const response = await append('clicks', body, { headers, token: await keyWith() });
        expect(response.status).toBe(202);
        expect(response.headers.get('idempotency-replayed')).toBeNull();
      }
      expect(await count('clicks')).toBe(before + 2);
    });

    it('everything else: other operations, agents and the Postgres port', async () => {
      for (const [method, path, body] of [
        ['GET', '/api/cdp/schema', undefined],
        ['POST', '/api/cdp/schema/table', { table_name: 'x', columns: [] }],
        ['DELETE', '/api/cdp/data/people?by=email', [{ email: 'ada' }]],
        ['POST', '/api/cdp/sql', { sql: 'SELECT 1' }],
        ['GET', '/api/cdp/quarantine', undefined],
        ['DELETE', '/api/cdp/quarantine?all=true', undefined],
        ['GET', '/api/cdp/receipts/k', undefined],
        ['POST', '/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/list' }],
      ] as const) {
        const response = await project.call(method, path, { token: key, ...(body && { body }) });
        expectFailure(response, 403, 'insufficient_scope');
      }
      for (const user of ['reader', 'writer'] as const) {
        expect(await refusedLogin(login(service, project, user, key))).toBe('28000');
      }
      expect(await project.rows('SELECT email FROM people')).toEqual([{ email: 'ada' }]);
    });

    it('what a role may not do: a token that acts as one inserts with its rights', async () => {
      const made = await project.call('POST', '/api/cdp/schema/role', { body: { name: 'intern' } });
      expect(made.status).toBe(201);
      const { postgres_name: intern } = made.body.role as { postgres_name: string };
      await project.rows(`GRANT INSERT ON clicks TO ${intern}`);
      const token = await keyWith(undefined, 'intern');
      expect((await append('clicks', [{ url: '/role' }], { token })).body).toMatchObject({ accepted_rows: 1 });
      expectFailure(await append('people', [{ email: 'x' }], { token }), 403, 'permission_denied');
    });
  });

  describe('limits', () => {
    it('inserts only into its tables, whatever the body', async () => {
      const token = await keyWith({ tables: ['clicks'] });
      expect((await append('clicks', [{ url: '/t' }], { token })).status).toBe(202);
      for (const table of ['people', 'Clicks', 'none']) {
        const { message } = expectFailure(await append(table, '{', { token }), 403, 'insufficient_scope');
        expect(message).toBe(`The token may not insert into "${table}", only into "clicks"`);
      }
    });

    it('answers pages of its origins, with their preflights, and refuses those of others', async () => {
      const token = await keyWith({ origins: [SHOP] });
      const preflight = (origin: string, path = '/api/cdp/data/clicks') =>
        service.call('OPTIONS', path, {
          headers: {
            origin,
            'access-control-request-method': 'POST',
            'access-control-request-headers': 'authorization,content-type,x-retry-count',
          },
        });
      const allowed = await preflight(SHOP);
      expect(allowed.status).toBe(204);
      expect(allowed.headers.get('access-control-allow-origin')).toBe(SHOP);
      expect(allowed.headers.get('access-control-allow-headers')?.toLowerCase()).toMatch(
        /authorization.*content-type.*x-retry-count/,
      );
      for (const other of [await preflight(OTHER), await preflight('null'), await preflight(SHOP, '/api/cdp/sql')]) {
        expect(other.headers.get('access-control-allow-origin')).toBeNull();
        expect(other.status).toBe(405);
      }

      const good = await append('clicks', [{ url: '/page' }], { token, headers: { origin: SHOP } });
      expect(good.status).toBe(202);
      expect(good.headers.get('access-control-allow-origin')).toBe(SHOP);
      expect(good.headers.get('access-control-expose-headers')).toContain('Retry-After');
      expect(good.headers.get('vary')).toBe('Origin');
      const bad = await append('clicks', [{ urll: '/page' }], { token, headers: { origin: SHOP } });
      expect(bad.status).toBe(400);
      expect(bad.headers.get('access-control-allow-origin')).toBe(SHOP);

      const before = await count('clicks');
      for (const origin of [OTHER, 'null', `${SHOP}.evil.example`, 'http://shop.example.com']) {
        const response = await append('clicks', [{ url: '/page' }], { token, headers: { origin } });
        expectFailure(response, 403, 'origin_not_allowed');
        expect(response.headers.get('access-control-allow-origin')).toBeNull();
      }
      expect(await count('clicks')).toBe(before);
      expect((await append('clicks', [{ url: '/server' }], { token })).status).toBe(202);
    });

    it('forgets the origin of a revoked key', async () => {
      const origin = 'https://gone.example.com';
      const { token, details } = await service.engine.tokens.create(project.id, {
        scopes: ['data:append'],
        limits: limitsOf(['data:append'], { origins: [origin] }),
      });
      const preflight = () =>
        service.call('OPTIONS', '/api/cdp/data/clicks', {
          headers: { origin, 'access-control-request-method': 'POST' },
        });
      await expect.poll(async () => (await preflight()).status).toBe(204);
      expect((await append('clicks', [{ url: '/x' }], { token, headers: { origin } })).status).toBe(202);
      await service.engine.tokens.revoke(details.id, {}, BY_ITSELF);
      await expect.poll(async () => (await preflight()).status, { timeout: 10_000 }).toBe(405);
    });

    it('counts requests of a day, on all instances and across restarts', async () => {
      const token = await keyWith({ requests_per_day: 3 });
      const second = await startTestServiceOn(service);
      try {
        expect((await append('clicks', [{ url: '/1' }], { token })).status).toBe(202);
        const there = (body: unknown) => second.call('POST', '/api/cdp/data/clicks', { token, body });
        expect((await there([{ url: '/2' }])).status).toBe(202);
        expect((await append('clicks', [{ urll: '/3' }], { token })).status).toBe(400);
        for (const response of [await append('clicks', [{ url: '/4' }], { token }), await there([{ url: '/4' }])]) {
          expect(expectFailure(response, 429, 'rate_limited').message).toBe('The token may send 3 requests a day');
          const seconds = Number(response.headers.get('retry-after'));
          expect(seconds).toBeGreaterThan(0);
          expect(seconds).toBeLessThanOrEqual(86_400);
        }
      } finally {
        await second.close();
      }
    });

    it('counts rows of a day before they are stored, and begins again with the next', async () => {
      const { token, details } = await service.engine.tokens.create(project.id, {
        scopes: ['data:append'],
        limits: limitsOf(['data:append'], { rows_per_day: 250 }),
      });
      const rows = (n: number) => Array.from({ length: n }, (_, i) => ({ url: `/${i}`, n: i }));
      const before = await count('clicks');
      expect((await append('clicks', rows(200), { token })).status).toBe(202);
      expectFailure(await append('clicks', rows(51), { token }), 429, 'rate_limited');
      expect((await append('clicks', rows(50), { token })).status).toBe(202);
      expectFailure(await append('clicks', rows(1), { token }), 429, 'rate_limited');
      expect(await count('clicks')).toBe(before + 250);
      // Another instance, on the next day.
      await onServer(
        service.server,
        (client) => client.query('UPDATE cdp.token_use SET day = day - 1 WHERE token_id = $1', [details.id]),
        service.database,
      );
      const second = await startTestServiceOn(service);
      try {
        const response = await second.call('POST', '/api/cdp/data/clicks', { token, body: rows(250) });
        expect(response.status).toBe(202);
      } finally {
        await second.close();
      }
    });

    it('counts requests and rows of a second, and says when to go on', async () => {
      const token = await keyWith({ requests_per_second: 1 });
      const send = () => append('clicks', [{ url: '/s' }], { token });
      const burst = async () => (await Promise.all(Array.from({ length: 20 }, send))).map(({ status }) => status);
      await expect.poll(burst).toContain(429);
      await expect.poll(async () => (await send()).status, { interval: 1_000, timeout: 30_000 }).toBe(202);

      // More than a second's worth is stored, and the next ones wait for it.
      const slow = await keyWith({ rows_per_second: 1 });
      const body = Array.from({ length: 250 }, () => ({ url: '/r' }));
      expect((await append('clicks', body, { token: slow })).status).toBe(202);
      const late = await append('clicks', [{ url: '/r' }], { token: slow });
      expectFailure(late, 429, 'rate_limited');
      expect(Number(late.headers.get('retry-after'))).toBeGreaterThan(200);
    });
  });
});

/** A second instance on the same control database. */
async function startTestServiceOn(first: TestService): Promise<{
  call: (method: string, path: string, call: Call) => Promise<TestResponse>;
  close: () => Promise<void>;
}> {
  const service = await startService(first.config, pino({ level: 'silent' }));
  return {
    call: (method, path, given) => callAt(service.url, method, path, given),
    close: async () => {
      const closed = service.close();
      service.breakOff();
      await closed;
    },
  };
}
