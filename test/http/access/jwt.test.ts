/** JWTs of the operator's own identity provider (contract C3.12, C3.13), with a real JWKS server on loopback. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { exportJWK, exportSPKI, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startService } from '../../../src/service.js';
import { BY_ITSELF } from '../../../src/contract/audit.js';
import { entriesOf } from '../../support/audit.js';
import { call, expectFailure, startTestService, type TestProject, type TestService } from '../../support/service.js';

type KeyPair = Awaited<ReturnType<typeof generateKeyPair>>;

const ISSUER = 'https://identity.example/';
const AUDIENCE = 'cdp';

let provider: Server;
/** The keys that the provider publishes now, or the status that it fails with. */
let published: object[] | number;
let fetches = 0;
let service: TestService;
let project: TestProject;
let key: KeyPair;

async function jwk(pair: KeyPair, kid: string, alg: string): Promise<object> {
  return { ...(await exportJWK(pair.publicKey)), kid, alg, use: 'sig' };
}

async function startWithProvider(): Promise<TestService> {
  return startTestService({
    'jwt-issuer': ISSUER,
    'jwt-audience': AUDIENCE,
    'jwt-jwks-url': `http://127.0.0.1:${(provider.address() as AddressInfo).port}/jwks.json`,
  });
}

beforeAll(async () => {
  provider = createServer((_request, response) => {
    fetches++;
    if (typeof published === 'number') return void response.writeHead(published).end('away');
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ keys: published }));
  });
  await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve));
  key = await generateKeyPair('RS256', { extractable: true });
  published = [await jwk(key, 'first', 'RS256')];
  service = await startWithProvider();
  project = await service.project();
});
afterAll(async () => {
  await service.close();
  provider.close();
});
beforeEach(async () => {
  published = [await jwk(key, 'first', 'RS256')];
});

interface Signing {
  key?: KeyPair['privateKey'] | Uint8Array;
  header?: { alg: string; kid?: string };
}

/** A good token, but for what the test says; a claim that is undefined is left out. */
function sign(
  claims: JWTPayload = {},
  { key: other, header = { alg: 'RS256', kid: 'first' } }: Signing = {},
): Promise<string> {
  const now = Math.floor(Date.now() / 1000);
  const payload = {
    iss: ISSUER,
    aud: AUDIENCE,
    sub: 'somebody',
    iat: now,
    exp: now + 300,
    project: project.name,
    scope: 'schema:read sql:read',
    ...claims,
  };
  return new SignJWT(JSON.parse(JSON.stringify(payload)) as JWTPayload)
    .setProtectedHeader(header)
    .sign(other ?? key.privateKey);
}

const schema = (token: string, by = service) => by.call('GET', '/api/cdp/schema', { token });

describe('a JWT is accepted', () => {
  it('with issuer, audience, expiry, project and scope', async () => {
    expect((await schema(await sign())).status).toBe(200);
  });

  it('and named by its subject in the audit log, without control characters', async () => {
    for (const [sub, kept] of [
      ['somebody', 'jwt:somebody'],
      ['\u001b[2J\u0000x', 'jwt:\uFFFD[2J\uFFFDx'],
      ['y'.repeat(5_000), `jwt:${'y'.repeat(196)}`],
    ] as const) {
      const id = randomUUID();
      const headers = { 'x-request-id': id };
      expect((await service.call('GET', '/api/cdp/schema', { token: await sign({ sub }), headers })).status).toBe(200);
      expect(await entriesOf(service, id)).toMatchObject([{ actor: 'jwt', actor_id: kept, actor_name: null }]);
    }
  });

  it.each<[string, JWTPayload]>([
    ['one of several audiences', { aud: ['other', AUDIENCE] }],
    ['its scopes as a list', { scope: ['schema:read'] as never }],
    ['scopes that are not ours beside one that is', { scope: 'openid profile schema:read' }],
    ['a start that has passed', { nbf: Math.floor(Date.now() / 1000) - 10 }],
    ['claims that nobody knows', { 'https://example/claim': { a: 1 } }],
  ])('with %s', async (_what, claims) => {
    expect((await schema(await sign(claims))).status).toBe(200);
  });

  it('and acts as the role of its project that it names, or is refused if there is none', async () => {
    const created = await project.call('POST', '/api/cdp/schema/role', { body: { name: 'analyst' } });
    const { postgres_name: analyst } = created.body.role as { postgres_name: string };
    const asRole = async (role: unknown) =>
      service.call('POST', '/api/cdp/sql', {
        token: await sign({ role, scope: 'sql:read' }),
        body: { sql: 'SELECT current_user AS who' },
      });
    expect((await asRole('analyst')).body.rows).toEqual([{ who: analyst }]);
    for (const role of ['nobody', 'writer', 'authenticated', '"; x', '', 7, ['analyst']])
      expectFailure(await asRole(role), 401, 'unauthorized');
    await project.call('DELETE', '/api/cdp/schema/role/analyst');
    await expect.poll(async () => (await asRole('analyst')).status).toBe(401);
  });

  it.each(['ES256', 'PS256', 'EdDSA'])('signed by %s', async (alg) => {
    const pair = await generateKeyPair(alg, { extractable: true });
    published = [await jwk(pair, alg, alg)];
    const own = await startWithProvider();
    try {
      const { name } = await own.project();
      const token = await sign({ project: name }, { key: pair.privateKey, header: { alg, kid: alg } });
      expect((await schema(token, own)).status).toBe(200);
    } finally {
      await own.close();
    }
  });

  it('and says what it is and when it expires', async () => {
    const exp = Math.floor(Date.now() / 1000) + 60;
    const describe = async (token: string) => (await service.call('GET', '/api/cdp/token', { token })).body;
    expect(await describe(await sign({ exp }))).toMatchObject({
      project: { name: project.name },
      token: { id: 'jwt:somebody', name: null, admin: false, expires_at: new Date(exp * 1000).toISOString() },
    });
    expect(await describe(await sign({ exp: 1e200 }))).toMatchObject({ token: { expires_at: null } });
  });

  it('for its own project, within its scopes', async () => {
    const other = await service.project();
    await other.table('theirs', { a: 'TEXT' });
    const token = await sign({ scope: 'schema:read sql:read' });
    expect((await schema(token)).body.tables).toEqual([]);
    const read = { sql: 'SELECT 1 AS one' };
    expect((await service.call('POST', '/api/cdp/sql', { token, body: read })).status).toBe(200);
    const write = { sql: 'CREATE TABLE x (a text)' };
    expectFailure(await service.call('POST', '/api/cdp/sql', { token, body: write }), 403, 'permission_denied');
    const body = { table_name: 'x', columns: [{ name: 'a', type: 'TEXT' }] };
    const refused = await service.call('POST', '/api/cdp/schema/table', { token, body });
    expect(expectFailure(refused, 403, 'insufficient_scope').message).toContain('schema:write');
  });

  it('without fetching the keys again for each request', async () => {
    await schema(await sign());
    const before = fetches;
    for (let i = 0; i < 20; i++) await schema(await sign({ jti: String(i) }));
    expect(fetches).toBe(before);
  });

  it('with data:append alone for batches and streams, which tell only what was sent', async () => {
    const own = await service.project();
    await own.rows('CREATE TABLE visits (n int8 PRIMARY KEY)');
    const token = await sign({ project: own.name, scope: 'data:append', sub: 'page' });
    const post = (body: unknown, type = 'application/json', by = token) => {
      const headers = { 'content-type': type, 'idempotency-key': 'visit' };
      return own.call('POST', '/api/cdp/data/visits', { token: by, body, headers });
    };
    expect((await post([{ n: 1 }, { n: 1 }])).body).toMatchObject({ accepted_rows: 2 });
    const stream = await post('{"n":1}\n{"n":2}\n', 'application/x-ndjson');
    expect([stream.status, stream.body]).toMatchObject([202, { accepted_rows: 2, bytes: 16 }]);
    expect(await own.rows('SELECT n FROM visits ORDER BY n')).toEqual([{ n: 1 }, { n: 2 }]);
    // The keys of another subject are others.
    const other = await sign({ project: own.name, scope: 'data:append', sub: 'other page' });
    expect((await post('{"n":3}\n', 'application/x-ndjson', other)).status).toBe(202);
    expect((await post([{ n: 4 }], 'application/json', other)).status).toBe(202);
    expectFailure(await own.call('GET', '/api/cdp/receipts/visit', { token }), 403, 'insufficient_scope');
  });

  it('until its project is deactivated', async () => {
    const own = await service.project();
    const token = await sign({ project: own.name });
    expect((await schema(token)).status).toBe(200);
    await service.engine.projects.setActive(own.name, false, BY_ITSELF);
    await sleep(1_000);
    expectFailure(await schema(token), 403, 'cdp_inactive');
  });
});

describe('a JWT is refused with 401', () => {
  const refused = async (token: string, code = 'unauthorized'): Promise<void> => {
    const response = await schema(token);
    const error = expectFailure(response, 401, code);
    expect(response.headers.get('www-authenticate')).toMatch(/^Bearer .*error="invalid_token"/);
    expect(JSON.stringify(error)).not.toContain(ISSUER);
  };
  const now = () => Math.floor(Date.now() / 1000);

  it.each<[string, () => JWTPayload]>([
    ['another issuer', () => ({ iss: 'https://other.example/' })],
    ['the issuer without its slash', () => ({ iss: ISSUER.slice(0, -1) })],
    ['no issuer', () => ({ iss: undefined as never })],
    ['another audience', () => ({ aud: 'other' })],
    ['no audience', () => ({ aud: undefined as never })],
    ['no expiry', () => ({ exp: undefined as never })],
    ['a start in the future', () => ({ nbf: now() + 300 })],
    ['no project', () => ({ project: undefined })],
    ['a project that is a number', () => ({ project: 1 })],
    ['a project that is not there', () => ({ project: 'nobody' })],
    ['a project with U+0000 in its name', () => ({ project: 'a\u0000' })],
    ['a subject that is an object', () => ({ sub: { name: 'x' } as never })],
    ['an expiry that is text', () => ({ exp: 'never' as never })],
  ])('for %s', async (_what, claims) => {
    await refused(await sign(claims()));
  });

  it('for an expiry in the past, with a message that says so', async () => {
    await refused(await sign({ exp: now() - 60 }), 'token_expired');
  });

  it('if it is signed with another key of the same name', async () => {
    const other = await generateKeyPair('RS256');
    await refused(await sign({}, { key: other.privateKey }));
  });

  it('if it is signed with a key that is not published', async () => {
    const other = await generateKeyPair('RS256');
    await refused(await sign({}, { key: other.privateKey, header: { alg: 'RS256', kid: 'unknown' } }));
  });

  it('if it has no signature', async () => {
    const claims = { project: project.name, scope: 'schema:read', sub: 'x' };
    const token = new UnsecuredJWT(claims).setIssuer(ISSUER).setAudience(AUDIENCE).setExpirationTime('5m').encode();
    await refused(token);
    await refused(`${token}x`);
    const [, payload] = (await sign()).split('.');
    const none = Buffer.from('{"alg":"none"}').toString('base64url');
    for (const signature of ['', 'x', 'AAAA']) await refused(`${none}.${payload}.${signature}`);
  });

  it('if the public key was used as a shared secret', async () => {
    const pem = new TextEncoder().encode(await exportSPKI(key.publicKey));
    for (const alg of ['HS256', 'HS512']) {
      await refused(await sign({}, { key: pem, header: { alg, kid: 'first' } }));
    }
  });

  it('if one character was changed', async () => {
    const [header = '', payload = '', signature = ''] = (await sign()).split('.');
    const other = Buffer.from(payload, 'base64url').toString().replace('schema:read', 'schema:write');
    await refused(`${header}.${Buffer.from(other).toString('base64url')}.${signature}`);
    await refused(`${header}.${payload}.${signature.slice(0, -4)}AAAA`);
    await refused(`${header}.${payload.slice(1)}.${signature}`);
    await refused(`x.y.z`);
  });

  it('if it brings its own key', async () => {
    const own = await generateKeyPair('RS256', { extractable: true });
    const header = { alg: 'RS256', kid: 'mine', jwk: await exportJWK(own.publicKey), jku: 'http://127.0.0.1:1/' };
    await refused(await sign({}, { key: own.privateKey, header }));
  });

  it('if no provider is configured', async () => {
    const plain = await startTestService();
    try {
      expectFailure(await schema(await sign(), plain), 401, 'unauthorized');
    } finally {
      await plain.close();
    }
  });
});

describe('scopes of a JWT', () => {
  it.each<[string, JWTPayload]>([
    ['none', { scope: undefined }],
    ['an empty text', { scope: '' }],
    ['others', { scope: 'openid schema:write data:write' }],
    ['a beginning', { scope: 'schema:re' }],
    ['another case', { scope: 'SCHEMA:READ' }],
    ['a number', { scope: 1 }],
  ])('%s: 403 insufficient_scope', async (_what, claims) => {
    expect(expectFailure(await schema(await sign(claims)), 403, 'insufficient_scope').message).toContain('schema:read');
  });

  it('never grant administration', async () => {
    for (const claims of [{ scope: 'admin' }, { project: null }, { admin: true, scope: 'schema:read' }]) {
      const token = await sign(claims);
      const response = await service.call('GET', '/api/cdp/admin/projects', { token });
      expect([401, 403]).toContain(response.status);
      expectFailure(response, response.status, response.status === 401 ? 'unauthorized' : 'insufficient_scope');
    }
  });
});

describe('the keys of the provider', () => {
  it('can change: tokens of a new key are accepted within seconds, and those of the old key are not', async () => {
    expect((await schema(await sign())).status).toBe(200);
    const next = await generateKeyPair('ES256', { extractable: true });
    published = [await jwk(next, 'second', 'ES256')];
    const token = await sign({}, { key: next.privateKey, header: { alg: 'ES256', kid: 'second' } });
    let status = 0;
    for (const end = Date.now() + 6_000; Date.now() < end && status !== 200; await sleep(250)) {
      ({ status } = await schema(token));
    }
    expect(status).toBe(200);
    expectFailure(await schema(await sign()), 401, 'unauthorized');
    // And back, for the tests that follow.
    published = [await jwk(key, 'first', 'RS256')];
    for (const end = Date.now() + 6_000; Date.now() < end && (await schema(await sign())).status !== 200;)
      await sleep(250);
  });

  it('are not fetched for every token with an unknown key', async () => {
    const other = await generateKeyPair('RS256');
    const before = fetches;
    const tokens = await Promise.all(
      Array.from({ length: 40 }, (_, i) => sign({}, { key: other.privateKey, header: { alg: 'RS256', kid: `k${i}` } })),
    );
    for (const token of tokens) expectFailure(await schema(token), 401, 'unauthorized');
    expect(fetches - before).toBeLessThan(5);
  });

  it.each([500, 404])(
    'cause 503 if they cannot be fetched, and not an error about the token: status %d',
    async (status) => {
      published = status;
      const own = await startWithProvider();
      try {
        const { name } = await own.project();
        const token = await sign({ project: name });
        const response = await schema(token, own);
        expectFailure(response, 503, 'database_unavailable');
        expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
        // A token of our own does not need the provider.
        expect((await schema((await own.project()).token, own)).status).toBe(200);
        published = [await jwk(key, 'first', 'RS256')];
        let later = 0;
        for (const end = Date.now() + 6_000; Date.now() < end && later !== 200; await sleep(250)) {
          later = (await schema(token, own)).status;
        }
        expect(later).toBe(200);
      } finally {
        await own.close();
      }
    },
  );

  it('cause 503 too if nobody serves them, and are reported to the operator once', async () => {
    const closed = createServer().listen(0, '127.0.0.1');
    await once(closed, 'listening');
    const { port } = closed.address() as AddressInfo;
    closed.close();
    const own = await startTestService({
      'jwt-issuer': ISSUER,
      'jwt-audience': AUDIENCE,
      'jwt-jwks-url': `http://127.0.0.1:${port}/jwks.json`,
    });
    const warnings: Record<string, unknown>[] = [];
    const logger = pino(
      { level: 'warn' },
      { write: (line) => warnings.push(JSON.parse(line) as Record<string, unknown>) },
    );
    const watched = await startService(own.config, logger);
    try {
      for (let i = 0; i < 3; i++) {
        const response = await call(watched.url, 'GET', '/api/cdp/schema', { token: await sign() });
        expectFailure(response, 503, 'database_unavailable');
      }
      expect(warnings).toMatchObject([{ msg: 'identity provider unavailable' }]);
      expect(warnings[0]?.cause).toContain('ECONNREFUSED');
    } finally {
      await watched.close();
      await own.close();
    }
  });
});

describe('limits', () => {
  const settings = () => ({
    'jwt-issuer': ISSUER,
    'jwt-audience': AUDIENCE,
    'jwt-jwks-url': `http://127.0.0.1:${(provider.address() as AddressInfo).port}/jwks.json`,
  });

  it('hold for a subject in a project, whichever token it uses', async () => {
    const own = await startTestService({ ...settings(), 'rate-limit': '2/1h' });
    try {
      const { name } = await own.project();
      const other = await own.project();
      const token = (claims: JWTPayload) => sign({ project: name, jti: String(Math.random()), ...claims });
      for (let i = 0; i < 2; i++) expect((await schema(await token({}), own)).status).toBe(200);
      expectFailure(await schema(await token({}), own), 429, 'rate_limited');
      expect((await schema(await token({ sub: 'somebody else' }), own)).status).toBe(200);
      expect((await schema(await token({ project: other.name }), own)).status).toBe(200);
    } finally {
      await own.close();
    }
  });

  it('of wrong tokens count JWTs too, and do not affect good ones', async () => {
    const own = await startTestService({ ...settings(), 'wrong-tokens': '3' });
    try {
      const { name } = await own.project();
      const stranger = await generateKeyPair('RS256');
      const forged = () => sign({ project: name, jti: String(Math.random()) }, { key: stranger.privateKey });
      for (let i = 0; i < 3; i++) expectFailure(await schema(await forged(), own), 401, 'unauthorized');
      expectFailure(await schema(await forged(), own), 429, 'rate_limited');
      expect((await schema(await sign({ project: name }), own)).status).toBe(200);
      expectFailure(await schema(await sign({ project: name, exp: 1 }), own), 401, 'token_expired');
    } finally {
      await own.close();
    }
  });
});
