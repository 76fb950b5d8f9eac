/**
 * Running requests when a token is revoked or a project deactivated: they may finish, unless the operator ends them at
 * once.
 */
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startService, type Service } from '../../../src/service.js';
import { BY_ITSELF } from '../../../src/contract/audit.js';
import {
  call,
  expectFailure,
  onServer,
  startTestService,
  type TestProject,
  type TestService,
} from '../../support/service.js';

let service: TestService;
let other: Service;
let admin: string;
let project: TestProject;

beforeAll(async () => {
  service = await startTestService();
  other = await startService(service.config, pino({ level: 'silent' }));
  admin = (await service.engine.tokens.create(null)).token;
  project = await service.project();
});
afterAll(async () => {
  await other.close();
  await service.close();
});

const WAIT = { timeout: 20_000 };

const PROJECTS = '/api/cdp/admin/projects';

/** Statements of the project that run, by a number in their text. */
const running = (): Promise<number[]> =>
  onServer(service.server, async (client) => {
    const { rows } = await client.query<{ query: string }>(
      `SELECT query FROM pg_stat_activity WHERE state = 'active' AND query ~ '^SELECT [0-9]+ AS ended_test'`,
    );
    return rows.map(({ query }) => Number.parseInt(query.slice(7))).sort();
  });

const sleep = (number: number, seconds: number, token: string, url = service.url, signal?: AbortSignal) =>
  call(url, 'POST', '/api/cdp/sql', {
    ...(signal === undefined ? {} : { signal }),
    token,
    body: { sql: `SELECT ${number} AS ended_test, pg_sleep(${seconds})` },
  });

describe('a token that is revoked', () => {
  const newToken = () => service.engine.tokens.create(project.id);
  const revoke = (id: string, query: string) =>
    service.call('DELETE', `${PROJECTS}/${project.name}/tokens/${id}${query}`, { token: admin });

  it('with now=true: its requests end with 401 on every instance, and no others', async () => {
    const [one, kept] = [await newToken(), await newToken()];
    const ended = [sleep(1, 50, one.token), sleep(2, 50, one.token, other.url)];
    const leaving = new AbortController();
    const goesOn = sleep(3, 50, kept.token, service.url, leaving.signal).catch((error: Error) => error.name);
    await expect.poll(running, WAIT).toEqual([1, 2, 3]);
    expect((await revoke(one.details.id, '?now=true')).status).toBe(200);
    for (const response of ended)
      expect(expectFailure(await response, 401, 'unauthorized').message).toBe('The token was revoked');
    await expect.poll(running, WAIT).toEqual([3]);
    leaving.abort();
    expect(await goesOn).toBe('AbortError');
    await expect.poll(running, WAIT).toEqual([]);
  });

  it('without it: its requests may finish, and can still be ended', async () => {
    const { token, details } = await newToken();
    const [short, long] = [sleep(4, 2, token), sleep(5, 50, token)];
    await expect.poll(running, WAIT).toEqual([4, 5]);
    expect((await revoke(details.id, '')).status).toBe(200);
    expect((await short).status).toBe(200);
    expect((await revoke(details.id, '?now=true')).status).toBe(200);
    expectFailure(await long, 401, 'unauthorized');
  });
});

describe('a request that an operator cancels', () => {
  const list = async () => (await service.call('GET', '/api/cdp/admin/requests', { token: admin })).body.requests;
  const cancel = (name: string, id: string) =>
    service.call('DELETE', `${PROJECTS}/${name}/requests/${encodeURIComponent(id)}`, { token: admin });

  it('is listed and ends together with its statement, and no other request ends', async () => {
    const headers = { 'x-request-id': 'slow/1' };
    const body = { sql: 'SELECT 8 AS ended_test, pg_sleep(50)' };
    const slow = call(service.url, 'POST', '/api/cdp/sql', { token: project.token, headers, body });
    const leaving = new AbortController();
    const other = sleep(9, 50, project.token, service.url, leaving.signal).catch((error: Error) => error.name);
    await expect.poll(running, WAIT).toEqual([8, 9]);
    expect(await list()).toEqual([
      {
        request_id: 'slow/1',
        project: project.name,
        operation: 'sql',
        token_id: expect.any(String) as string,
        token_name: 'default',
        address: '127.0.0.1',
        duration_ms: expect.any(Number) as number,
      },
      expect.objectContaining({ project: project.name, operation: 'sql' }),
    ]);
    expectFailure(await cancel('nobody', 'slow/1'), 404, 'not_found');
    expectFailure(await cancel(project.name, 'slow/2'), 404, 'not_found');
    expect((await cancel(project.name, 'slow/1')).body).toMatchObject({ success: true, canceled: 1 });
    expect(expectFailure(await slow, 504, 'query_timeout').message).toBe('An operator canceled the request');
    await expect.poll(running, WAIT).toEqual([9]);
    leaving.abort();
    expect(await other).toBe('AbortError');
    await expect.poll(list, WAIT).toEqual([]);
    const canceled = async () => {
      await service.engine.audit.flush();
      return service.engine.audit.read({ operation: 'request.cancel', outcome: 'ok', limit: 9 });
    };
    await expect.poll(canceled, WAIT).toMatchObject([{ project: project.name, object: 'slow/1', actor: 'admin' }]);
  });
});

describe('a project that is deactivated', () => {
  it('with now=true: its requests end on every instance before the response is sent', async () => {
    const requests = [sleep(6, 50, project.token), sleep(7, 50, project.token, other.url)];
    await expect.poll(running, WAIT).toEqual([6, 7]);
    const response = await service.call('POST', `${PROJECTS}/${project.name}/deactivate?now=true`, { token: admin });
    expect([response.status, await running()]).toEqual([200, []]);
    for (const request of requests) expectFailure(await request, 403, 'cdp_inactive');
    await service.engine.projects.setActive(project.name, true, BY_ITSELF);
  });

  it('refuses any value except true and false, and changes nothing', async () => {
    const response = await service.call('POST', `${PROJECTS}/${project.name}/deactivate?now=yes`, { token: admin });
    expectFailure(response, 400, 'invalid_request');
    expect((await service.engine.projects.get(project.name)).status).toBe('active');
  });
});
