/** Security headers for browsers: in every response of every route, in streams, and in responses to invalid requests. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OPERATIONS } from '../../../src/http/api/operations.js';
import { rawResponse } from '../../support/raw.js';
import { pathOf, titled } from '../../support/routes.js';
import { startTestService, type TestProject, type TestService } from '../../support/service.js';

let service: TestService;
let project: TestProject;
let admin: string;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  admin = (await service.engine.tokens.create(null)).token;
});
afterAll(() => service.close());

const POLICY = "default-src 'none'; frame-ancestors 'none'";

function checkHeaders({ headers }: { headers: Headers }, policy: string | RegExp = POLICY): void {
  expect(headers.get('x-content-type-options')).toBe('nosniff');
  expect(headers.get('content-security-policy')).toMatch(policy);
  expect(headers.get('x-frame-options')).toBe('DENY');
  expect(headers.get('referrer-policy')).toBe('no-referrer');
  expect(headers.get('cross-origin-resource-policy')).toBe('same-origin');
  // Whoever made it says nothing of itself, and HTTPS is not promised by who does not speak it.
  for (const name of ['server', 'x-powered-by', 'strict-transport-security']) expect(headers.get(name)).toBeNull();
}

describe.each(titled(OPERATIONS))('%s', (_title, route) => {
  it('has them in every response', async () => {
    const token = route.access === 'admin' ? admin : project.token;
    const body = route.example === undefined ? {} : { body: route.example };
    checkHeaders(await service.call(route.method, pathOf(route), { token: null }));
    checkHeaders(await service.call(route.method, pathOf(route), { token: 'wrong' }));
    checkHeaders(await service.call(route.method, pathOf(route), { token, ...body }));
    checkHeaders(await service.call('PATCH', pathOf(route), { token }));
    checkHeaders(await service.call('OPTIONS', pathOf(route)));
  });
});

describe('also have them:', () => {
  it.each(['/healthz', '/readyz', '/metrics', '/openapi.json', '/nowhere', '/api/cdp/%zz', '/favicon.ico'])(
    '%s',
    async (path) => {
      for (const method of ['GET', 'HEAD', 'POST']) checkHeaders(await service.call(method, path));
    },
  );

  it.each(['application/json', 'application/x-ndjson', 'text/csv'])('rows as %s', async (accept) => {
    for (const sql of ['SELECT 1 AS one', 'SELECT 1 / 0', 'SELECT 1 / (3 - i) FROM generate_series(1, 3) AS i']) {
      const response = project.call('POST', '/api/cdp/sql', { body: { sql }, headers: { accept } });
      // A stream that fails after its head is broken off.
      const headers = await response.then(
        (whole) => whole.headers,
        () => null,
      );
      if (headers !== null) checkHeaders({ headers });
    }
  });

  it.each([
    ['what is not HTTP', 'nonsense\r\n\r\n'],
    ['headers that are too large', `GET / HTTP/1.1\r\nHost: x\r\nA: ${'a'.repeat(100_000)}\r\n\r\n`],
    ['CONNECT', 'CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n'],
  ])('%s', async (_what, bytes) => {
    checkHeaders(await rawResponse(service.url, bytes));
  });
});

describe('the documentation page', () => {
  it('may load only its own resources, and cannot be framed', async () => {
    for (const path of ['/docs', '/docs/', '/docs/static/swagger-ui.css', '/docs/static/nothing.js']) {
      const response = await service.call('GET', path);
      const policy = path.endsWith('nothing.js') ? /./ : /^default-src 'self';.*frame-ancestors 'none'/;
      checkHeaders(response, policy);
      expect(response.headers.get('content-security-policy')).not.toMatch(/https?:|\*|unsafe-eval/);
    }
  });

  it('does not share its policy', async () => {
    for (const path of ['/openapi.json', '/docsx', '/']) checkHeaders(await service.call('GET', path));
  });
});
