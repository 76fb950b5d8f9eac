/**
 * Requests of one token within a time window: off by default, reported in every response if it is on (contract
 * C15.5).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { errorOf, login, withClient } from '../../postgres-port/connect.js';
import { SCOPES } from '../../../src/contract/names.js';
import { OPERATIONS } from '../../../src/http/api/operations.js';
import { checkResponse, pathOf, titled } from '../../support/routes.js';
import {
  expectFailure,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../../support/service.js';

const REQUESTS = 4;
/** Longer than these tests take. */
const WINDOW_S = 300;

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startTestService({ 'rate-limit': `${REQUESTS}/${WINDOW_S}s` });
  project = await service.project();
});
afterAll(() => service.close());

const read = (token: string, by = service): Promise<TestResponse> => by.call('GET', '/api/cdp/schema', { token });

/** What the headers say, which must have exactly the form of the draft. */
function told({ headers }: TestResponse): { remaining: number; seconds: number } {
  expect(headers.get('ratelimit-policy')).toBe(`"default";q=${REQUESTS};w=${WINDOW_S}`);
  const [, remaining, seconds] = /^"default";r=(\d+);t=(\d+)$/.exec(headers.get('ratelimit') ?? '') ?? [];
  return { remaining: Number(remaining), seconds: Number(seconds) };
}

describe('works', () => {
  it('counts down to the limit, refuses the next request, and says when to retry', async () => {
    const token = await project.tokenWith('schema:read');
    for (let left = REQUESTS - 1; left >= 0; left--) {
      const response = await read(token);
      expect(response.status).toBe(200);
      expect(told(response).remaining).toBe(left);
    }
    const response = await read(token);
    expectFailure(response, 429, 'rate_limited');
    const { remaining, seconds } = told(response);
    expect(remaining).toBe(0);
    expect(response.headers.get('retry-after')).toBe(String(seconds));
    expect(seconds).toBeGreaterThan(0);
    expect(seconds).toBeLessThanOrEqual(WINDOW_S);
  });

  it('accepts requests again after that time', async () => {
    const quick = await startTestService({ 'rate-limit': '1/1s' });
    try {
      const { token } = await quick.project();
      let response = await read(token, quick);
      expect(response.status).toBe(200);
      while (response.status === 200) response = await read(token, quick);
      expectFailure(response, 429, 'rate_limited');
      expect(response.headers.get('retry-after')).toBe('1');
      await sleep(1_000);
      expect((await read(token, quick)).status).toBe(200);
    } finally {
      await quick.close();
    }
  });

  it('counts logins at the Postgres port too', async () => {
    const limited = await startTestService({ 'rate-limit': '3/1h', 'pg-port': '0' });
    try {
      const first = await limited.project();
      expect((await read(first.token, limited)).status).toBe(200);
      for (let i = 0; i < 2; i++) await withClient(login(limited, first), (client) => client.query('SELECT 1'));
      const refused = await errorOf(withClient(login(limited, first), () => Promise.resolve()));
      expect(refused).toMatchObject({
        code: '53400',
        message: 'The token has sent more than 3 requests within 3600 s',
      });
      expectFailure(await read(first.token, limited), 429, 'rate_limited');
      const other = await limited.project();
      await withClient(login(limited, other), (client) => client.query('SELECT 1'));
    } finally {
      await limited.close();
    }
  });

  it('counts each token separately', async () => {
    const [one, other] = [await project.tokenWith('schema:read'), await project.tokenWith('schema:read')];
    for (let i = 0; i <= REQUESTS; i++) await read(one);
    expectFailure(await read(one), 429, 'rate_limited');
    expect(told(await read(other)).remaining).toBe(REQUESTS - 1);
  });

  it('reports it in refusals and streams too', async () => {
    const token = await project.tokenWith('sql:read');
    const sql = (body: object, headers = {}) => service.call('POST', '/api/cdp/sql', { token, body, headers });
    expect(told(await read(token))).toMatchObject({ remaining: 3 });
    expect(told(await sql({ sql: 'nonsense' })).remaining).toBe(2);
    const stream = await sql({ sql: 'SELECT 1 AS one' }, { accept: 'text/csv' });
    expect([stream.status, stream.text]).toEqual([200, 'one\n1\n']);
    expect(told(stream).remaining).toBe(1);
    expect(told(await service.call('GET', '/api/cdp/schema/table/none', { token })).remaining).toBe(0);
  });
});

describe('refuses', () => {
  it.each(titled(OPERATIONS))('%s', async (_title, route) => {
    const token =
      route.access === 'admin'
        ? (await service.engine.tokens.create(null)).token
        : (await service.engine.tokens.create(project.id, { scopes: [...SCOPES] })).token;
    const path = pathOf(route);
    // Bodies that are wrong in themselves: nothing of the body is looked at.
    const send = () => service.call(route.method, path, { token, ...(route.body === undefined ? {} : { body: '{"' }) });
    for (let i = 0; i < REQUESTS; i++) expect((await send()).status).not.toBe(429);
    const response = await send();
    expectFailure(response, 429, 'rate_limited');
    checkResponse(response);
    expect(told(response).remaining).toBe(0);
  });

  it('without doing anything', async () => {
    const token = await project.tokenWith('schema:read', 'schema:write');
    for (let i = 0; i < REQUESTS; i++) await read(token);
    const body = { table_name: 'too_late', columns: [{ name: 'a', type: 'TEXT' }] };
    expectFailure(await service.call('POST', '/api/cdp/schema/table', { token, body }), 429, 'rate_limited');
    const { tables } = (await read(await project.tokenWith('schema:read'))).body;
    expect(JSON.stringify(tables)).not.toContain('too_late');
  });

  it('after 401 and 403, so that neither is hidden', async () => {
    const token = await project.tokenWith('data:write');
    for (let i = 0; i < REQUESTS + 2; i++) expectFailure(await read(token), 403, 'insufficient_scope');
    expect(told(await read(token)).remaining).toBe(0);
    expectFailure(await read('wrong'), 401, 'unauthorized');
  });
});

describe('protects', () => {
  it('counts requests that come at the same time', async () => {
    const token = await project.tokenWith('schema:read');
    const responses = await Promise.all(Array.from({ length: 40 }, () => read(token)));
    expect(responses.filter(({ status }) => status === 200)).toHaveLength(REQUESTS);
    expect(responses.filter(({ status }) => status === 429)).toHaveLength(40 - REQUESTS);
  });

  it('has neither a limit nor headers without the setting', async () => {
    const open = await startTestService();
    try {
      const own = await open.project();
      const responses = [];
      // As many at once as may run, so that none is refused for waiting.
      while (responses.length < 200) {
        responses.push(
          ...(await Promise.all(Array.from({ length: 8 }, () => own.call('GET', '/api/cdp/schema/table/x')))),
        );
      }
      for (const response of responses) {
        expectFailure(response, 404, 'table_not_found');
        for (const name of ['ratelimit', 'ratelimit-policy']) expect(response.headers.get(name)).toBeNull();
      }
    } finally {
      await open.close();
    }
  });
});
