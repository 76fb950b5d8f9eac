/** The routes of the admin socket: they need no token, refuse in the usual shape, and exist only there. */
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ACCOUNT_HEADER } from '../../../src/contract/wire/admin-socket.js';
import type { Finding } from '../../../src/contract/wire/findings.js';
import { adminSocketListener } from '../../../src/http/admin-socket-listener.js';
import { OPERATIONS } from '../../../src/http/api/operations.js';
import { ADMIN_SOCKET_ROUTES, type AdminSocketRoute } from '../../../src/http/api/admin-socket-routes.js';
import { addressOfUrl } from '../../../src/pg/index.js';
import { VERSION } from '../../../src/version.js';
import { checkResponse, pathOf } from '../../support/routes.js';
import {
  type Call,
  call,
  expectFailure,
  startTestService,
  type TestResponse,
  type TestService,
} from '../../support/service.js';

let service: TestService;
let app: FastifyInstance;
let url: string;
let admin: string;

beforeAll(async () => {
  service = await startTestService({ audit: 'all' });
  const { config, engine } = service;
  const operated = {
    address: addressOfUrl(config.databaseUrl ?? ''),
    connections: 8,
    embedded: null,
    engine: () => Promise.resolve(engine),
  };
  app = adminSocketListener(operated, config, pino({ level: 'silent' }));
  // Over TCP for these tests alone, which fetch can reach.
  url = await app.listen({ host: '127.0.0.1', port: 0 });
  admin = (await engine.tokens.create(null)).token;
});
afterAll(async () => {
  await app.close();
  await service.close();
});

const titled = (routes: readonly AdminSocketRoute[]): [string, AdminSocketRoute][] =>
  routes.map((route) => [`${route.method} ${route.url}`, route]);

const isAdminRoute = ({ method, url }: AdminSocketRoute): boolean =>
  OPERATIONS.some((operation) => operation.method === method && operation.url === url);

const local = (method: string, path: string, given?: Call): Promise<TestResponse> => call(url, method, path, given);

const send = (route: AdminSocketRoute, given: Call = {}): Promise<TestResponse> =>
  local(route.method, pathOf(route), given);

async function examined(version: string): Promise<Finding[]> {
  const { text } = await local('POST', '/api/cdp/local/doctor', { body: { version } });
  const lines = text.trimEnd().split('\n');
  return lines.map((line) => JSON.parse(line) as { finding?: Finding }).flatMap(({ finding }) => finding ?? []);
}

describe.each(titled(ADMIN_SOCKET_ROUTES))('%s', (_title, route) => {
  it('needs no token', async () => {
    const response = await send(route, route.body === undefined ? {} : { body: '{"' });
    checkResponse(response);
    expect([401, 403]).not.toContain(response.status);
  });

  it('refuses other methods and lists the allowed ones', async () => {
    const methods = ADMIN_SOCKET_ROUTES.filter(({ url }) => url === route.url).map(({ method }) => method as string);
    if (methods.includes('GET')) methods.push('HEAD');
    for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'].filter((m) => !methods.includes(m))) {
      const response = await local(method, pathOf(route));
      expectFailure(response, 405, 'method_not_allowed');
      expect(response.headers.get('allow')?.split(/, ?/).sort()).toEqual([...methods].sort());
    }
  });
});

describe.each(titled(ADMIN_SOCKET_ROUTES.filter(({ body }) => body !== undefined)))(
  'the body of %s',
  (_title, route) => {
    it('must be JSON of the right shape, and the response says so', async () => {
      const text = JSON.stringify(route.example);
      const plain = { 'content-type': 'text/plain' };
      expectFailure(await send(route, { body: text, headers: plain }), 415, 'unsupported_media_type');
      for (const body of ['', '{"a":', '{"name":"x","name":"x"}']) {
        expectFailure(await send(route, { body }), 400, 'invalid_json');
      }
      for (const body of ['[]', 'null', `${text.slice(0, -1)},"unknown_field":1}`]) {
        expectFailure(await send(route, { body }), 400, 'invalid_request');
      }
      expectFailure(await send(route, { body: ' '.repeat(10 * 1024 * 1024 + 1) }), 413, 'payload_too_large');
    });
  },
);

describe('over TCP', () => {
  it.each(titled(ADMIN_SOCKET_ROUTES.filter((route) => !isAdminRoute(route))))(
    'there is no %s',
    async (_title, route) => {
      for (const token of [null, admin]) {
        const body = route.example === undefined ? {} : { body: route.example };
        const headers = { [ACCOUNT_HEADER]: 'root' };
        expectFailure(await service.call(route.method, pathOf(route), { token, headers, ...body }), 404, 'not_found');
      }
    },
  );

  it('a header with an account does not make its sender an operator', async () => {
    const headers = { [ACCOUNT_HEADER]: 'root' };
    const body = { name: 'by-token' };
    expectFailure(await service.call('POST', '/api/cdp/admin/projects', { headers, body }), 401, 'unauthorized');
    const made = await service.call('POST', '/api/cdp/admin/projects', { token: admin, headers, body });
    expect(made.status).toBe(201);
    expect(await entriesOf('by-token')).toEqual([['project.create', 'admin', null, '127.0.0.1']]);
  });
});

async function entriesOf(project: string): Promise<unknown[]> {
  const entries = await service.engine.audit.read({ project, limit: 10 });
  // The id of an admin token is its own.
  return entries.map(({ operation, actor, actor_id, address }) => [
    operation,
    actor,
    actor === 'admin' ? null : actor_id,
    address,
  ]);
}

describe('works:', () => {
  it('records a change in the audit log as made on the command line, by the account in the header', async () => {
    const headers = { [ACCOUNT_HEADER]: encodeURIComponent('jürgen') };
    const made = await local('POST', '/api/cdp/admin/projects', { body: { name: 'mine' }, headers });
    expect([made.status, made.body.success]).toEqual([201, true]);
    expect(await entriesOf('mine')).toEqual([['project.create', 'command_line', 'jürgen', null]]);
    await local('POST', '/api/cdp/admin/projects/mine/deactivate');
    expect(await entriesOf('mine')).toContainEqual(['project.deactivate', 'command_line', null, null]);
  });

  it('records no entry for a read', async () => {
    const before = await service.engine.audit.read({ limit: 1 });
    expect((await local('GET', '/api/cdp/admin/projects')).status).toBe(200);
    expect((await local('GET', '/api/cdp/admin/audit')).status).toBe(200);
    await service.engine.audit.flush();
    expect(await service.engine.audit.read({ limit: 1 })).toEqual(before);
  });

  it('creates, lists and revokes admin tokens, which have no scopes', async () => {
    const made = await local('POST', '/api/cdp/local/tokens', { body: { name: 'ops' } });
    const { token, details } = made.body as { token: string; details: { id: string } };
    expect((await local('GET', '/api/cdp/local/tokens')).body.tokens).toContainEqual(
      expect.objectContaining({ id: details.id, name: 'ops', scopes: [] }),
    );
    expect((await service.call('GET', '/api/cdp/admin/projects', { token })).status).toBe(200);
    expect((await local('DELETE', `/api/cdp/local/tokens/${details.id}`)).status).toBe(200);
    await expect.poll(async () => (await service.call('GET', '/api/cdp/admin/projects', { token })).status).toBe(401);
    const scoped = await local('POST', '/api/cdp/local/tokens', { body: { scopes: ['sql:read'] } });
    expectFailure(scoped, 400, 'invalid_request');
  });

  it('lets the doctor check and try everything', async () => {
    const findings = await examined(VERSION);
    expect(findings.at(-1)).toMatchObject({ subject: 'trial', health: 'ok' });
    expect(findings.map(({ subject }) => subject)).not.toContain('running service');
  });

  it('lets the doctor of another build know which one runs', async () => {
    const [first] = await examined('0.1.0 (96bb838e, 2026-11-29)');
    expect(first).toEqual({
      subject: 'running service',
      health: 'warning',
      found: VERSION,
      advice: 'This command is 0.1.0 (96bb838e, 2026-11-29): restart the service if it should be, too.',
    });
  });
});

describe('refuses:', () => {
  const lastLine = ({ text }: TestResponse) => JSON.parse(text.trimEnd().split('\n').at(-1) ?? '') as object;

  it('a backup without programs, in the last line of the response, with everything known', async () => {
    const file = join(tmpdir(), `cdp-none-${process.pid}`);
    const body = { file, project: null, format: null, postgres_bin: '/nowhere', path: '' };
    const response = await local('POST', '/api/cdp/local/backup', { body });
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/x-ndjson']);
    expect(lastLine(response)).toMatchObject({
      error: { error: 'internal', message: expect.stringContaining('found in /nowhere: none') as string },
    });
  });

  it('to restore a file that does not exist', async () => {
    const body = { file: '/nowhere/x.cdp', project: null, as: null, at: null, postgres_bin: null, path: '' };
    const response = await local('POST', '/api/cdp/local/restore', { body });
    expect(lastLine(response)).toMatchObject({ error: { message: expect.stringContaining('ENOENT') as string } });
  });

  it('a relative path: the process that writes the file may have another working directory', async () => {
    const body = { file: 'x.cdp', project: null, format: null, postgres_bin: null, path: '' };
    expectFailure(await local('POST', '/api/cdp/local/backup', { body }), 400, 'invalid_request');
  });
});
