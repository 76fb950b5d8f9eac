/** Projects that are created, deleted and used at the same moment, and a control database that fails. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { QueryResult, QueryResultRow } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tryWithProjectLock } from '../../../src/tenancy/control/project-lock.js';
import { BY_ITSELF } from '../../../src/contract/audit.js';
import { embeddedServer } from '../../support/postgres.js';
import {
  expectFailure,
  onServer,
  startTestService,
  type TestResponse,
  type TestService,
} from '../../support/service.js';

const PROJECTS = '/api/cdp/admin/projects';

let service: TestService;
let admin: string;
beforeAll(async () => {
  service = await startTestService();
  admin = (await service.engine.tokens.create(null)).token;
});
afterAll(() => service.close());

const send = (method: string, path: string, body?: unknown): Promise<TestResponse> =>
  service.call(method, PROJECTS + path, { token: admin, body });

const inControl = <Row extends QueryResultRow>(text: string): Promise<QueryResult<Row>> =>
  onServer(embeddedServer(), (client) => client.query<Row>(text), service.database);

describe('eight projects at once', () => {
  it('are all created, and a request with a token that is not cached does not wait for them', async () => {
    const project = await service.project();
    const tokens = await Promise.all(Array.from({ length: 5 }, () => project.tokenWith('schema:read')));
    const making = Promise.all(Array.from({ length: 8 }, (_, i) => send('POST', '', { name: `eight-${i}` })));
    const times: number[] = [];
    for (const token of tokens) {
      const started = performance.now();
      expect((await project.call('GET', '/api/cdp/schema', { token })).status).toBe(200);
      times.push(performance.now() - started);
    }
    // Each that waited would take as long as they; one may be late on a busy machine.
    expect(times.filter((ms) => ms < 2_000).length).toBeGreaterThan(2);
    expect((await making).map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 201));
  });
});

describe('a project that is deleted while it is being created', () => {
  it('is created and then deleted: both responses are true', async () => {
    for (let i = 0; i < 3; i++) {
      const name = `brief-${i}`;
      const creating = send('POST', '', { name });
      let deleting: TestResponse;
      do deleting = await send('DELETE', `/${name}?confirm=${name}`);
      while (deleting.status === 404);
      const created = await creating;
      expect(created.status).toBe(201);
      expect(created.body).toMatchObject({ project: { name, status: 'active' } });
      expect(deleting.status).toBe(200);
      expect((await service.engine.projects.list()).map((project) => project.name)).not.toContain(name);
    }
  });

  it('directly in the control database is not reported as created, and nothing of it remains', async () => {
    const creating = send('POST', '', { name: 'snatched' });
    let database: string | undefined;
    while (database === undefined) {
      const { rows } = await inControl<{ database_name: string }>(
        `UPDATE cdp.projects SET status = 'deleting' WHERE name = 'snatched' RETURNING database_name`,
      );
      database = rows[0]?.database_name;
    }
    expectFailure(await creating, 404, 'not_found');
    expect(await service.engine.control.projects.find('name', 'snatched')).toBe(null);
    const remains = await inControl(
      `SELECT FROM pg_database WHERE datname = '${database}' UNION ALL SELECT FROM pg_roles WHERE rolname = '${database}'`,
    );
    expect(remains.rowCount).toBe(0);
  });

  it('is refused with 409 and stays if another process works on it for long', async () => {
    const { id, name } = await service.project();
    await tryWithProjectLock(service.engine.control.address, id, async () => {
      const { message } = expectFailure(await send('DELETE', `/${name}?confirm=${name}`), 409, 'request_in_flight');
      expect(message).toBe(`Project "${name}" is being created, moved, repaired or deleted by another request`);
    });
    expect((await service.engine.projects.get(name)).status).toBe('active');
  });

  it('is removed if the process that was deleting it died', async () => {
    const { name } = await service.project();
    await inControl(`UPDATE cdp.projects SET status = 'deleting' WHERE name = '${name}'`);
    expect((await send('DELETE', `/${name}?confirm=${name}`)).status).toBe(200);
    expect(await service.engine.control.projects.find('name', name)).toBe(null);
  });

  it('gets no more tokens', async () => {
    const { id, name } = await service.project();
    await service.engine.projects.delete(name, BY_ITSELF);
    await expect(service.engine.tokens.create(id)).rejects.toMatchObject({ code: 'not_found' });
  });
});

describe('a cached token', () => {
  const REQUESTS: [string, string, string, unknown?][] = [
    ['a schema call', 'GET', '/api/cdp/schema'],
    ['free SQL', 'POST', '/api/cdp/sql', { sql: 'SELECT 1' }],
    ['an insert', 'POST', '/api/cdp/data/t', [{ n: 1 }]],
  ];

  it.each(REQUESTS)('gets 401 once its project is deleted: %s', async (_what, method, path, body) => {
    const project = await service.project();
    await project.table('t', { n: 'INTEGER' });
    expect((await project.call(method, path, { body })).status).toBeLessThan(300);
    const { placement } = await service.engine.projects.get(project.name);
    await service.engine.projects.delete(project.name, BY_ITSELF);
    const response = await project.call(method, path, { body });
    expectFailure(response, 401, 'unauthorized');
    for (const inner of Object.values(placement).filter((name) => name !== 'data'))
      expect(response.text).not.toContain(inner);
  });

  it('gets 403 while its project is being deleted', async () => {
    const project = await service.project();
    expect((await project.call('GET', '/api/cdp/schema')).status).toBe(200);
    const { placement } = await service.engine.projects.get(project.name);
    await inControl(`UPDATE cdp.projects SET status = 'deleting' WHERE name = '${project.name}'`);
    await onServer(embeddedServer(), (client) => client.query(`DROP DATABASE ${placement.database} WITH (FORCE)`));
    const responses = await Promise.all(
      Array.from({ length: 3 }, () => project.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT 1' } })),
    );
    for (const response of responses) expectFailure(response, 403, 'cdp_inactive');
  });
});

describe('if the control database is broken', () => {
  it("every response is 503, and reveals nothing of the service's own tables", async () => {
    const project = await service.project();
    expect((await project.call('GET', '/api/cdp/schema')).status).toBe(200);
    await inControl(
      'ALTER TABLE cdp.tokens RENAME TO tokens_away; ALTER TABLE cdp.projects RENAME TO projects_away; ALTER TABLE cdp.instance RENAME TO instance_away',
    );
    try {
      await sleep(800);
      for (const response of [
        await project.call('GET', '/api/cdp/schema'),
        await project.call('POST', '/api/cdp/sql', { body: { sql: 'SELECT 1' } }),
        await send('GET', ''),
        await send('POST', '', { name: 'unlucky' }),
      ]) {
        const body = expectFailure(response, 503, 'database_unavailable');
        expect(body.postgres).toBe(undefined);
        expect(response.text).not.toMatch(/cdp\.|relation|tokens/);
      }
    } finally {
      await inControl(
        'ALTER TABLE cdp.tokens_away RENAME TO tokens; ALTER TABLE cdp.projects_away RENAME TO projects; ALTER TABLE cdp.instance_away RENAME TO instance',
      );
    }
    // It was no response about the token, so it is not remembered.
    expect((await project.call('GET', '/api/cdp/schema')).status).toBe(200);
  });
});

describe('after a statement that revokes rights', () => {
  it.each([
    ['DROP OWNED', 'DROP OWNED BY CURRENT_USER', false],
    ['DROP OWNED behind a comment', '/* now */ drop /* all */ owned by CURRENT_USER', false],
    ['a block that hides it', `DO $$ BEGIN EXECUTE 'DROP OWNED BY CURRENT_USER'; END $$`, false],
    ['a revoke', 'REVOKE ALL ON SCHEMA data FROM CURRENT_USER', true],
  ])('no request of the writer is refused, on any connection: %s', async (_what, text, keepsDefaults) => {
    const project = await service.project();
    const reader = await project.tokenWith('sql:read');
    await project.table('before', { n: 'INTEGER' });
    const read = (sql: string) => project.call('POST', '/api/cdp/sql', { token: reader, body: { sql } });
    expect((await read('SELECT 1')).status).toBe(200);
    await Promise.all(Array.from({ length: 4 }, () => project.rows('SELECT pg_sleep(0.05)')));
    await project.rows(text);
    await project.rows('CREATE TABLE by_sql (n int)');
    await project.table('by_call', { n: 'INTEGER' });
    expect((await project.call('POST', '/api/cdp/data/by_call', { body: [{ n: 1 }] })).status).toBe(201);
    const both = 'SELECT n FROM by_call UNION ALL SELECT n FROM by_sql';
    if (!keepsDefaults) {
      // It has also revoked the default privileges of the reader, which only the project grants again.
      expect((await read('SELECT 1')).status).toBe(200);
      expectFailure(await read(both), 403, 'permission_denied');
      const { placement } = await service.engine.projects.get(project.name);
      await project.rows(`GRANT SELECT ON by_call, by_sql TO ${placement.reader}`);
    }
    expect((await read(both)).status).toBe(200);
  });
});
