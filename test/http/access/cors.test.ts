/**
 * Cross-origin requests as a browser sends them: off by default; with the setting, allowed for its origins on every
 * route.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OPERATIONS } from '../../../src/http/api/operations.js';
import { rawResponse } from '../../support/raw.js';
import { pathOf, titled } from '../../support/routes.js';
import {
  expectFailure,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../../support/service.js';

const ORIGIN = 'https://app.example.com';
const OTHER = 'https://evil.example';

const ASKED = [
  'accept',
  'authorization',
  'content-encoding',
  'content-type',
  'idempotency-key',
  'mcp-method',
  'mcp-name',
  'mcp-protocol-version',
  'neon-array-mode',
  'neon-batch-deferrable',
  'neon-batch-isolation-level',
  'neon-batch-read-only',
  'neon-connection-string',
  'neon-pool-opt-in',
  'neon-raw-text-output',
  'traceparent',
  'tracestate',
  'x-consistency',
  'x-request-id',
  'x-retry-count',
];
const READ = [
  'allow',
  'idempotency-replayed',
  'ratelimit',
  'ratelimit-policy',
  'retry-after',
  'server-timing',
  'www-authenticate',
  'x-consistency',
  'x-read-only',
  'x-request-id',
  'x-served-by',
];

let service: TestService;
let project: TestProject;
let anybody: TestService;
let closed: TestService;
beforeAll(async () => {
  service = await startTestService({ 'cors-origins': `${ORIGIN}, http://localhost:3000` });
  project = await service.project();
  anybody = await startTestService({ 'cors-origins': '*', 'rate-limit': '1/1h' });
  closed = await startTestService();
});
afterAll(async () => {
  await service.close();
  await anybody.close();
  await closed.close();
});

const list = (response: TestResponse, name: string): string[] =>
  (response.headers.get(name) ?? '').toLowerCase().split(', ').filter(Boolean).sort();

/** What a browser asks before it sends a request with a token. */
const preflight = (method: string, path: string, origin = ORIGIN, by = service): Promise<TestResponse> =>
  by.call('OPTIONS', path, {
    headers: {
      origin,
      'access-control-request-method': method,
      'access-control-request-headers': ASKED.join(','),
    },
  });

/** Whether a page of that origin may read the response, and the headers it may see of it. */
function readable(response: TestResponse, origin = ORIGIN): void {
  expect(response.headers.get('access-control-allow-origin')).toBe(origin);
  expect(response.headers.get('access-control-allow-credentials')).toBeNull();
  expect(list(response, 'access-control-expose-headers')).toEqual(READ);
  if (origin !== '*') expect(list(response, 'vary')).toContain('origin');
}

const unreadable = ({ headers }: TestResponse) => expect(headers.get('access-control-allow-origin')).toBeNull();

describe.each(titled(OPERATIONS))('%s', (_title, route) => {
  it('is allowed by a preflight, without a token', async () => {
    const response = await preflight(route.method, pathOf(route));
    expect([response.status, response.text]).toEqual([204, '']);
    readable(response);
    expect(list(response, 'access-control-allow-methods')).toContain(route.method.toLowerCase());
    expect(list(response, 'access-control-allow-headers')).toEqual(ASKED);
    expect(Number(response.headers.get('access-control-max-age'))).toBeGreaterThan(0);
  });

  it('is not allowed to other origins', async () => {
    unreadable(await preflight(route.method, pathOf(route), OTHER));
    unreadable(await service.call(route.method, pathOf(route), { headers: { origin: OTHER } }));
  });

  it('answers so that the page can read the response, also a refusal', async () => {
    const headers = { origin: ORIGIN };
    const body = route.body === undefined ? {} : { body: '{"' };
    for (const token of [null, 'wrong', project.token]) {
      readable(await service.call(route.method, pathOf(route), { ...body, headers, token }));
    }
  });

  it('has no CORS headers without the setting', async () => {
    const response = await preflight(route.method, pathOf(route), ORIGIN, closed);
    expectFailure(response, 405, 'method_not_allowed');
    const refused = await closed.call(route.method, pathOf(route), { headers: { origin: ORIGIN } });
    for (const { headers } of [response, refused]) {
      expect([...headers.keys()].filter((name) => name.startsWith('access-control') || name === 'vary')).toEqual([]);
    }
  });
});

describe('works', () => {
  it('for successful responses, streams, and errors of every kind', async () => {
    const headers = { origin: 'http://localhost:3000' };
    const responses = [
      await project.call('GET', '/api/cdp/schema', { headers }),
      await project.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT 1' }, headers }),
      await project.call('POST', '/api/cdp/sql', {
        body: { sql: 'SELECT 1' },
        headers: { ...headers, accept: 'text/csv' },
      }),
      await project.call('POST', '/api/cdp/sql', { body: { sql: 'nonsense' }, headers }),
      await project.call('POST', '/api/cdp/sql', { body: 'x', headers: { ...headers, 'content-type': 'text/plain' } }),
      await project.call('PATCH', '/api/cdp/sql', { headers }),
      await project.call('GET', '/nowhere', { headers }),
      await project.call('GET', '/healthz', { headers }),
      await project.call('GET', '/openapi.json', { headers }),
    ];
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 200, 400, 415, 405, 404, 200, 200]);
    for (const response of responses) readable(response, 'http://localhost:3000');
  });

  it('for a path that cannot be decoded', async () => {
    const send = (by: TestService, origin: string) =>
      rawResponse(by.url, `GET /api/cdp/%zz HTTP/1.1\r\nHost: x\r\nOrigin: ${origin}\r\nConnection: close\r\n\r\n`);
    const response = await send(service, ORIGIN);
    expectFailure(response, 400, 'invalid_request');
    expect(response.headers.get('access-control-allow-origin')).toBe(ORIGIN);
    expect(response.headers.get('vary')).toBe('Origin');
    unreadable(await send(service, OTHER));
    unreadable(await send(closed, ORIGIN));
    expect((await send(anybody, OTHER)).headers.get('access-control-allow-origin')).toBe('*');
  });

  it('for every origin if the setting is *, but without credentials', async () => {
    const { token } = await anybody.project();
    readable(await preflight('GET', '/api/cdp/schema', OTHER, anybody), '*');
    const call = { token, headers: { origin: OTHER } };
    readable(await anybody.call('GET', '/api/cdp/schema', call), '*');
    const refused = await anybody.call('GET', '/api/cdp/schema', call);
    expectFailure(refused, 429, 'rate_limited');
    readable(refused, '*');
    expect(refused.headers.get('retry-after')).toBeTruthy();
  });

  it('for preflights of paths that do not exist, whose requests then get 404', async () => {
    expect((await preflight('GET', '/nowhere')).status).toBe(204);
    const response = await service.call('GET', '/nowhere', { headers: { origin: ORIGIN } });
    expectFailure(response, 404, 'not_found');
    readable(response);
  });
});

describe('refuses', () => {
  it('OPTIONS that is not a preflight, as without the setting', async () => {
    for (const headers of [{}, { origin: ORIGIN }, { 'access-control-request-method': 'GET' }]) {
      const response = await service.call('OPTIONS', '/api/cdp/schema', { headers });
      expectFailure(response, 405, 'method_not_allowed');
      expect(response.headers.get('allow')).toBe('GET, HEAD');
      expectFailure(await service.call('OPTIONS', '/nowhere', { headers }), 404, 'not_found');
    }
  });

  it.each([
    'null',
    `${ORIGIN}.evil.example`,
    'https://app.example.com:444',
    'http://app.example.com',
    'https://APP.example.com',
    '',
  ])('the origin "%s"', async (origin) => {
    unreadable(await preflight('GET', '/api/cdp/schema', origin));
    unreadable(await project.call('GET', '/api/cdp/schema', { headers: { origin } }));
  });
});

describe('protects', () => {
  it('metrics, which loopback may read without a token, from pages in a browser there', async () => {
    for (const by of [service, anybody]) {
      const response = await by.call('GET', '/metrics', { headers: { origin: ORIGIN } });
      expect(response.status).toBe(200);
      unreadable(response);
    }
  });
});
