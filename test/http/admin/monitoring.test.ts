/** What operators and their tools request: health, readiness, metrics and the log (contract C17). */
import { randomBytes } from 'node:crypto';
import { chmod, rm } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { metricsListener } from '../../../src/http/metrics-listener.js';
import { Metrics } from '../../../src/http/observability/metrics.js';
import { httpServer } from '../../../src/http/http-server.js';
import { startService } from '../../../src/service.js';
import { makeFolder } from '../../support/folder.js';
import { exchange, rawResponse } from '../../support/raw.js';
import { startThrowaway } from '../../support/throwaway-postgres.js';
import {
  call,
  expectFailure,
  onServer,
  startTestService,
  type TestProject,
  type TestService,
} from '../../support/service.js';

/** The value of a metric without labels, or with exactly these. */
function metric(text: string, name: string, labels = ''): number | undefined {
  const line = text.split('\n').find((candidate) => candidate.startsWith(`${name}${labels} `));
  return line === undefined ? undefined : Number(line.slice(line.lastIndexOf(' ')));
}

async function eventually(check: () => Promise<boolean>, withinMs: number): Promise<boolean> {
  for (const end = Date.now() + withinMs; Date.now() < end; await sleep(50)) if (await check()) return true;
  return check();
}

describe('a service with its database', () => {
  let service: TestService;
  let project: TestProject;
  let admin: string;
  beforeAll(async () => {
    service = await startTestService();
    project = await service.project();
    admin = (await service.engine.tokens.create(null)).token;
  });
  afterAll(() => service.close());

  it('is alive and ready, and says so to anyone', async () => {
    for (const path of ['/healthz', '/readyz']) {
      const response = await service.call('GET', path);
      expect(response.status).toBe(200);
      expect(response.body).toMatchObject({ success: true });
      expect((await service.call('HEAD', path)).status).toBe(200);
    }
  });

  it('is not ready, and says why in its log, while the control database accepts no connections', async () => {
    const { engine, config, server, database } = service;
    const lines: { msg: string; cause?: string; route?: string; status?: number }[] = [];
    const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line) as (typeof lines)[number]) });
    const { app } = await httpServer(engine, { ...config, separateMetrics: false, showsFirstToken: false }, log);
    const url = await app.listen({ port: 0 });
    const takesConnections = (isAllowed: boolean) =>
      onServer(server, async (client) => {
        await client.query(`ALTER DATABASE ${database} ALLOW_CONNECTIONS ${isAllowed}`);
        await client.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${database}'`);
      });
    const status = async () => (await call(url, 'GET', '/readyz')).status;
    await expect.poll(status).toBe(200);
    expect(await status()).toBe(200);
    await takesConnections(false);
    try {
      await expect
        .poll(async () => [await status(), JSON.stringify(lines)])
        .toEqual([503, expect.stringMatching(/"database unavailable"/)]);
      expect(lines.find(({ msg }) => msg === 'database unavailable')?.cause).toBeTypeOf('string');
    } finally {
      await takesConnections(true);
    }
    await expect.poll(status).toBe(200);
    // Each failure has a line, and the first success after one.
    const statuses = lines.filter(({ route }) => route === '/readyz').map((line) => line.status);
    expect(statuses.join()).toMatch(/^200(,503)+,200$/);
    await app.close();
  });

  it('is degraded while Postgres cannot write files, and says why on loopback', async () => {
    const setLimit = (action: string) =>
      onServer(service.server, async (client) => {
        await client.query(`ALTER DATABASE ${service.database} ${action}`);
        await client.query(
          `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${service.database}'`,
        );
      });
    const ready = async (headers = {}) => (await service.call('GET', '/readyz', { headers })).body;
    await setLimit('SET temp_file_limit = 0');
    try {
      const degraded = { success: true, message: 'degraded' };
      await expect.poll(ready, { timeout: 20_000 }).toEqual({ ...degraded, servers: [], disk: 'full' });
      expect(await ready({ 'x-forwarded-for': '192.0.2.1' })).toEqual(degraded);
      const head = 'GET /readyz HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n';
      expect(await exchange(service.url, head, 10_000)).toContain(JSON.stringify(degraded));
    } finally {
      await setLimit('RESET temp_file_limit');
    }
    await expect.poll(ready, { timeout: 20_000 }).toEqual({ success: true, message: 'ready' });
  });

  it('reports a full disk to the operator without anything the caller has written', async () => {
    const { engine, config } = service;
    const lines: Record<string, unknown>[] = [];
    const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) });
    const { app } = await httpServer(engine, { ...config, separateMetrics: false, showsFirstToken: false }, log);
    const url = await app.listen({ port: 0 });
    const sql = `DO $$BEGIN RAISE EXCEPTION 'private' USING ERRCODE = '53100'; END$$`;
    const { token } = project;
    expectFailure(await call(url, 'POST', '/api/cdp/sql', { token, body: { sql } }), 503, 'disk_full');
    const cause = 'a statement failed with SQLSTATE 53100';
    expect(lines).toContainEqual(expect.objectContaining({ msg: 'database unavailable', cause }));
    expect(JSON.stringify(lines)).not.toContain('private');
    await app.close();
  });

  it('is not ready before the first project exists, whose token the first start shows', async () => {
    const { engine, config } = service;
    const settings = { ...config, separateMetrics: false, showsFirstToken: true };
    const { app } = await httpServer(engine, settings, pino({ level: 'silent' }));
    const url = await app.listen({ port: 0 });
    expectFailure(await call(url, 'GET', '/readyz'), 503, 'overloaded');
    expect((await call(url, 'GET', '/healthz')).status).toBe(200);
    await engine.control.endFirstStart();
    expect((await call(url, 'GET', '/readyz')).status).toBe(200);
    await app.close();
  });

  it('counts requests, their codes and inserted rows, without a name chosen by the caller', async () => {
    await project.table('counted_secretly', { a: 'TEXT' });
    await project.call('POST', '/api/cdp/data/counted_secretly', { body: [{ a: 'x' }, {}] });
    await project.call('POST', '/api/cdp/data/counted_secretly', { body: [{ unknown_secret: 'x' }] });
    await project.call('PUT', '/api/cdp/data/counted_secretly');
    const { status, text, headers } = await service.call('GET', '/metrics');
    expect(status).toBe(200);
    expect(headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/);
    const of = (more: string) => `{route="/api/cdp/data/:table_name",method="POST",${more}}`;
    expect(metric(text, 'cdp_http_requests_total', of('status="201",code=""'))).toBe(1);
    expect(metric(text, 'cdp_http_requests_total', of('status="400",code="unknown_column"'))).toBe(1);
    const refused = '{route="/api/cdp/data/:table_name",method="PUT",status="405",code="method_not_allowed"}';
    expect(metric(text, 'cdp_http_requests_total', refused)).toBe(1);
    expect(metric(text, 'cdp_inserted_rows_total')).toBe(2);
    expect(metric(text, 'cdp_postgres_up')).toBe(1);
    expect(metric(text, 'cdp_commit_duration_seconds', '{server="default"}')).toBeGreaterThan(0);
    // The place of the last request is given back behind its response.
    const idle = async () =>
      metric((await service.call('GET', '/metrics')).text, 'cdp_requests_running{class="sql"}') === 0;
    expect(await eventually(idle, 2_000)).toBe(true);
    expect(metric(text, 'cdp_project_connections', '{server="default"}')).toBeGreaterThan(0);
    expect(metric(text, 'cdp_project_connections_max', '{server="default"}')).toBe(service.config.maxConnections);
    expect(metric(text, 'process_cpu_seconds_total')).toBeGreaterThan(0);
    expect(text).not.toMatch(/secret|customers/);
    expect(text).not.toContain(project.name);
    expect(text).not.toContain(project.id);
    expect(text).not.toMatch(/cdp_project_(?:requests|inserted)/);
    for (const line of text.split('\n').filter((candidate) => candidate !== '')) {
      expect(line).toMatch(/^(?:# (?:HELP|TYPE) .+|[a-zA-Z_:][\w:]*(?:\{.*\})? (?:[-+.\deE]+|NaN|[+-]Inf))$/);
    }
  });

  it('keeps the paths of callers out of its metrics', async () => {
    for (let i = 0; i < 5; i++) await service.call('GET', `/api/cdp/leak-${i}`);
    expect((await service.call('GET', '/metrics')).text).not.toContain('leak');
  });

  it.each<[string, Record<string, string>]>([
    ['X-Forwarded-For', { 'x-forwarded-for': '203.0.113.7' }],
    ['X-Forwarded-For of loopback', { 'x-forwarded-for': '127.0.0.1' }],
    ['Forwarded', { forwarded: 'for=203.0.113.7' }],
  ])('requires the admin token behind a proxy that sends %s', async (_title, headers) => {
    expectFailure(await service.call('GET', '/metrics', { headers }), 401, 'unauthorized');
    expectFailure(await service.call('GET', '/metrics', { headers, token: project.token }), 403, 'insufficient_scope');
    expect((await service.call('GET', '/metrics', { headers, token: admin })).status).toBe(200);
  });

  it('requires the admin token from another machine', async () => {
    const address = Object.values(networkInterfaces())
      .flat()
      .find((found) => found?.family === 'IPv4' && !found.internal)?.address;
    // A machine without a network has nobody to protect the metrics from.
    if (address === undefined) return;
    const open = await startService({ ...service.config, host: '0.0.0.0' }, pino({ level: 'silent' }));
    try {
      const url = `http://${address}:${new URL(open.url).port}`;
      expect((await call(url, 'GET', '/healthz')).status).toBe(200);
      expectFailure(await call(url, 'GET', '/metrics'), 401, 'unauthorized');
      expect((await call(url, 'GET', '/metrics', { token: admin })).status).toBe(200);
    } finally {
      await open.close();
    }
  });

  it('refuses metrics and details to a page whose name DNS points to loopback', async () => {
    const asked = async (host: string, path = '/metrics', more = '', url = service.url) => {
      const head = `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${more}Connection: close\r\n\r\n`;
      return exchange(url, head, 10_000);
    };
    for (const host of ['localhost:1', 'LOCALHOST', '127.0.0.1', '192.0.2.1:80', '[::1]:9090', '[::1]']) {
      expect(await asked(host), host).toMatch(/^HTTP\/1\.1 200 /);
    }
    for (const host of [
      'evil.example',
      'evil.example:8000',
      'localhost.evil.example',
      '127.0.0.1.evil.example',
      'a:b',
    ]) {
      expect(await asked(host), host).toMatch(/^HTTP\/1\.1 421 [^]*"error":"misdirected_request"/);
    }
    expect(await asked('cdp.example', '/metrics', `Authorization: Bearer ${admin}\r\n`)).toMatch(/^HTTP\/1\.1 200 /);
    expect(await asked('cdp.example', '/metrics', `Authorization: Bearer ${project.token}\r\n`)).toMatch(
      /^HTTP\/1\.1 403 /,
    );
    expect(await asked('evil.example', '/readyz')).toMatch(/^HTTP\/1\.1 200 /);
    const apart = metricsListener(
      new Metrics(service.engine, false),
      { ...service.config, metricsHost: 'Metrics.example' },
      pino({ level: 'silent' }),
    );
    const url = await apart.listen({ host: '127.0.0.1', port: 0 });
    try {
      expect(await asked('evil.example', '/metrics', '', url)).toMatch(/^HTTP\/1\.1 421 /);
      // By the name that the operator has configured.
      expect(await asked('metrics.example:9464', '/metrics', '', url)).toMatch(/^HTTP\/1\.1 200 /);
      expect(await asked('127.0.0.1', '/metrics', '', url)).toMatch(/^HTTP\/1\.1 200 /);
    } finally {
      await apart.close();
    }
  });

  it('serves metrics on a separate listener if configured, and then not to loopback on the main one', async () => {
    const port = 20_000 + (randomBytes(2).readUInt16BE() % 20_000);
    const apart = await startService({ ...service.config, metricsPort: port }, pino({ level: 'silent' }));
    try {
      const response = await call(`http://127.0.0.1:${port}`, 'GET', '/metrics');
      expect(response.status).toBe(200);
      expect(metric(response.text, 'cdp_postgres_up')).toBe(1);
      expectFailure(await call(apart.url, 'GET', '/metrics'), 401, 'unauthorized');
      expect((await call(apart.url, 'GET', '/metrics', { token: admin })).status).toBe(200);
    } finally {
      await apart.close();
    }
  });

  it('serves nothing else on that listener, and refuses in the usual shape', async () => {
    const port = 20_000 + (randomBytes(2).readUInt16BE() % 20_000);
    const apart = await startService({ ...service.config, metricsPort: port }, pino({ level: 'silent' }));
    const ask = (method: string, path: string) => call(`http://127.0.0.1:${port}`, method, path, { token: admin });
    try {
      for (const path of ['/metrics', '/healthz']) {
        expect((await ask('HEAD', path)).status).toBe(200);
        expect((await ask('GET', `${path}?a=b`)).status).toBe(200);
        for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
          const response = await ask(method, path);
          expectFailure(response, 405, 'method_not_allowed');
          expect(response.headers.get('allow')).toBe('GET, HEAD');
        }
      }
      for (const path of ['/', '/api/cdp/schema', '/readyz', '/docs', '/metrics/', '/Metrics']) {
        for (const method of ['GET', 'POST']) expectFailure(await ask(method, path), 404, 'not_found');
      }
      const broken = await rawResponse(`http://127.0.0.1:${port}`, 'nonsense\r\n\r\n');
      expectFailure(broken, 400, 'invalid_request');
    } finally {
      await apart.close();
    }
  });
});

describe('the log', () => {
  let service: TestService;
  let lines: Record<string, unknown>[];
  let text: string;
  let requests: number;
  let url: string;

  /** All sorts of requests with things in them that must not be in the log. */
  beforeAll(async () => {
    service = await startTestService();
    const project = await service.project('logged-project');
    const written: string[] = [];
    const logger = pino({ level: 'info', base: null }, { write: (line) => void written.push(line) });
    const logged = await startService(service.config, logger);
    url = logged.url;
    const { token } = project;
    requests = 0;
    const send = async (method: string, path: string, body?: unknown, headers = {}): Promise<void> => {
      requests++;
      await call(url, method, path, { token, body, headers });
    };
    await send('POST', '/api/cdp/schema/table', {
      table_name: 'hidden_table',
      comment: 'hidden_comment',
      columns: [{ name: 'hidden_column', type: 'TEXT' }],
    });
    await send('POST', '/api/cdp/data/hidden_table', [{ hidden_column: 'hidden_value' }], { 'x-request-id': 'my-id' });
    await send('POST', '/api/cdp/data/hidden_table', [{ hidden_column: { hidden_value: 1 } }]);
    await send('POST', '/api/cdp/data/hidden_table?hidden_query=1', [{}]);
    await send('POST', '/api/cdp/sql', { sql: `SELECT 'hidden_value' FROM hidden_table`, params: [] });
    await send('POST', '/api/cdp/sql', { sql: `SELECT 'hidden_value'::integer` });
    await send('POST', '/api/cdp/sql', { sql: `SELECT 1 / 0 AS hidden_column` }, { accept: 'text/csv' });
    await send('POST', '/api/cdp/sql', { sql: 'SELECT 1' }, { accept: 'application/x-ndjson' });
    await send('GET', '/api/cdp/schema/table/hidden_table');
    await send('GET', '/hidden_path');
    await send('PATCH', '/api/cdp/sql', {});
    await send('POST', '/api/cdp/sql', '{"hidden_value', { authorization: `Bearer ${token}hidden` });
    await send('GET', '/healthz');
    requests++;
    await rawResponse(url, 'GET /api/cdp/schema/table/%zzhidden HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    await logged.close();
    text = written.join('');
    lines = written.map((line) => JSON.parse(line) as Record<string, unknown>);
  });
  afterAll(() => service.close());

  const requestLines = () => lines.filter(({ msg }) => msg === 'request');

  it('has one line of JSON for each request', () => {
    expect(requestLines()).toHaveLength(requests);
    for (const line of requestLines()) {
      expect(line).toMatchObject({
        level: 30,
        request_id: expect.any(String) as string,
        method: expect.stringMatching(/^[A-Z]+$/) as string,
        status: expect.any(Number) as number,
        address: '127.0.0.1',
        duration_ms: expect.any(Number) as number,
      });
    }
    expect(requestLines().map(({ status }) => status)).toEqual([
      201, 201, 400, 400, 200, 400, 400, 200, 200, 404, 405, 401, 200, 400,
    ]);
  });

  it('contains what an operator needs: route, project, token ID, code, rows, request ID', () => {
    expect(requestLines()[1]).toMatchObject({
      request_id: 'my-id',
      route: '/api/cdp/data/:table_name',
      project: 'logged-project',
      rows: 1,
    });
    expect(requestLines()[2]).toMatchObject({ error: 'invalid_value' });
    expect(requestLines()[6]).toMatchObject({ error: 'sql_error' });
  });

  it.each([
    [null, '203.0.113.9', '127.0.0.1'],
    ['loopback', '203.0.113.9', '203.0.113.9'],
    ['loopback', '198.51.100.1, 203.0.113.9', '203.0.113.9'],
    ['loopback', '"}injected{"', '127.0.0.1'],
    ['192.0.2.1', '203.0.113.9', '127.0.0.1'],
  ])('with the proxies %s and X-Forwarded-For: %s names the client %s', async (trustProxy, forwarded, address) => {
    const written: string[] = [];
    const logger = pino({ level: 'info', base: null }, { write: (line) => void written.push(line) });
    const logged = await startService(
      { ...service.config, trustProxy: trustProxy === null ? null : [trustProxy] },
      logger,
    );
    await call(logged.url, 'GET', '/healthz', { headers: { 'x-forwarded-for': forwarded } });
    await logged.close();
    const line = written
      .map((text) => JSON.parse(text) as Record<string, unknown>)
      .find(({ msg }) => msg === 'request');
    expect(line).toMatchObject({ address });
    expect(written.join('')).not.toContain('injected');
  });

  it('contains no value, no name of a table or column, no query string, no path and no token', () => {
    expect(text).not.toContain('hidden');
    expect(text).not.toMatch(/cdp_[0-9A-Za-z]{20}/);
    expect(text).not.toMatch(/bearer/i);
    expect(text).not.toContain('SELECT');
  });
});

describe('a service whose database becomes unavailable', () => {
  it('stays alive, says that it is not ready, refuses with 503, and recovers by itself', async () => {
    const folder = makeFolder('cdp-test-');
    // Passable, so that an unprivileged server reaches its folder in it.
    await chmod(folder, 0o711);
    let server = await startThrowaway(join(folder, 'd'));
    try {
      const service = await startTestService({}, { major: 18, connection: server.connection });
      const project = await service.project();
      await project.table('kept', { a: 'TEXT' });
      const fresh = await project.tokenWith('schema:read', 'sql:read');
      await server.stop('fast');

      expect((await service.call('GET', '/healthz')).status).toBe(200);
      const away = await service.call('GET', '/readyz');
      expectFailure(away, 503, 'database_unavailable');
      expect(Number(away.headers.get('retry-after'))).toBeGreaterThan(0);
      const { text } = await service.call('GET', '/metrics');
      expect(metric(text, 'cdp_postgres_up')).toBe(0);
      for (const token of [project.token, fresh]) {
        for (const path of ['/api/cdp/schema', '/api/cdp/schema/table/kept']) {
          const response = await project.call('GET', path, { token });
          const error = expectFailure(response, 503, 'database_unavailable');
          expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
          expect(JSON.stringify(error)).not.toMatch(/ECONN|ENOENT|PGSQL|\/tmp/);
        }
      }
      // A token that nobody could have is refused without the database.
      expectFailure(await project.call('GET', '/api/cdp/schema', { token: 'x' }), 401, 'unauthorized');

      server = await startThrowaway(join(folder, 'd'));
      const ready = async () => (await service.call('GET', '/readyz')).status === 200;
      expect(await eventually(ready, 5_000)).toBe(true);
      expect((await project.call('GET', '/api/cdp/schema/table/kept')).status).toBe(200);
      await service.close();
    } finally {
      await server.stop('fast');
      await rm(folder, { recursive: true, force: true });
    }
  });
});
