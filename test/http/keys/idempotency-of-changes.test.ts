/** Idempotency-Key of free SQL and of schema changes: a retry does nothing a second time. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LIMITS } from '../../../src/contract/limits.js';
import {
  expectFailure,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../../support/service.js';

let service: TestService;
let project: TestProject;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  await project.table('events', { n: 'INTEGER' });
});
afterAll(() => service.close());

let keys = 0;
const newKey = () => `key-${++keys}`;
const send = (method: string, path: string, key: string, body?: unknown, headers: Record<string, string> = {}) =>
  project.call(method, path, { body, headers: { 'idempotency-key': key, ...headers } });
const run = (key: string, body: object, headers?: Record<string, string>) =>
  send('POST', '/api/cdp/sql', key, body, headers);
const replayed = ({ headers }: TestResponse) => headers.get('idempotency-replayed');
const stored = async () => (await project.rows('SELECT n FROM events ORDER BY n')).map(({ n }) => n);

describe('works', () => {
  it.each([
    ['INSERT INTO events (n) VALUES (1)', [1]],
    ['INSERT INTO events (n) VALUES (1), (2) RETURNING n, n AS n', [1, 2]],
    ['INSERT INTO events (n) VALUES (1); SELECT count(*) FROM events; UPDATE events SET n = n + 1', [2]],
    ['SELECT 1 AS one', []],
  ])('a repeat of %s returns the first response and does nothing', async (sql, left) => {
    await project.rows('DELETE FROM events');
    const key = newKey();
    const first = await run(key, { sql });
    expect([first.status, replayed(first)]).toEqual([200, null]);
    for (let i = 0; i < 2; i++) {
      const repeat = await run(key, { sql });
      expect([repeat.status, replayed(repeat), repeat.text]).toEqual([200, 'true', first.text]);
    }
    expect(await stored()).toEqual(left);
  });

  it('a repeat of a response too large to be kept returns everything except the rows', async () => {
    await project.rows('DELETE FROM events');
    const key = newKey();
    const sql = `INSERT INTO events (n) SELECT 0 FROM generate_series(1, 3) RETURNING n, repeat('x', ${LIMITS.idempotencyResponseBytes / 2})`;
    const first = await run(key, { sql });
    expect(first.body).toMatchObject({ row_count: 3, affected_rows: 3, truncated: false });
    const repeat = await run(key, { sql });
    expect(replayed(repeat)).toBe('true');
    expect(repeat.body).toEqual({ ...first.body, rows: [], row_count: 0, truncated: true });
    expect(await stored()).toHaveLength(3);
  });

  it('a repeat is recognized whatever the statements did to their session', async () => {
    const key = newKey();
    const sql = `CREATE TABLE idempotency_keys (path text);
      SET search_path = data; SET standard_conforming_strings = off; SET client_encoding = 'LATIN1';
      SET CONSTRAINTS ALL DEFERRED; DISCARD PLANS; SELECT pg_advisory_unlock_all(), 'ä\\n' AS text`;
    const first = await run(key, { sql });
    expect(first.status).toBe(200);
    expect((await run(key, { sql })).text).toBe(first.text);
  });

  it('parameters are part of the request, and the scope is checked first', async () => {
    const key = newKey();
    const insert = 'INSERT INTO events (n) VALUES ($1)';
    expect((await run(key, { sql: insert, params: [1] })).status).toBe(200);
    expectFailure(await run(key, { sql: insert, params: [2] }), 422, 'idempotency_key_reused');
    const token = await project.tokenWith('schema:read');
    const headers = { 'idempotency-key': key };
    const response = await project.call('POST', '/api/cdp/sql', { body: { sql: insert, params: [1] }, headers, token });
    expectFailure(response, 403, 'insufficient_scope');
  });

  it('errors are not kept', async () => {
    const key = newKey();
    expectFailure(await run(key, { sql: 'INSERT INTO soon VALUES (1)' }), 400, 'sql_error');
    await project.rows('CREATE TABLE soon (n int)');
    expect(replayed(await run(key, { sql: 'INSERT INTO soon VALUES (1)' }))).toBeNull();
    expect(replayed(await run(key, { sql: 'INSERT INTO soon VALUES (1)' }))).toBe('true');
  });

  it('schema changes: a repeat finds its change made', async () => {
    const table = '/api/cdp/schema/table';
    const calls = [
      ['POST', table, { table_name: 'pets', columns: [{ name: 'name', type: 'text' }] }, 201],
      ['POST', `${table}/pets/column`, { name: 'age', type: 'INTEGER', comment: 'in years' }, 201],
      ['PUT', `${table}/pets/column/age`, { new_name: 'years', new_type: 'FLOAT' }, 200],
      ['DELETE', `${table}/pets/column/years`, undefined, 200],
      ['DELETE', `${table}/pets`, undefined, 200],
    ] as const;
    const key = newKey();
    for (const [method, path, body, status] of calls) {
      const first = await send(method, path, key, body);
      expect([first.status, replayed(first)], first.text).toEqual([status, null]);
      const repeat = await send(method, path, key, body);
      expect([repeat.status, replayed(repeat), repeat.text]).toEqual([status, 'true', first.text]);
    }
    expectFailure(await send('POST', table, key, { table_name: 'cats', columns: [] }), 400, 'invalid_request');
    const other = { table_name: 'cats', columns: [{ name: 'name', type: 'text' }] };
    expectFailure(await send('POST', table, key, other), 422, 'idempotency_key_reused');
  });
});

describe('refuses', () => {
  it.each([
    ['VACUUM events', {}, {}, 'statement_not_allowed'],
    ['CREATE INDEX CONCURRENTLY ON events (n)', {}, {}, 'statement_not_allowed'],
    ['SELECT n FROM events', { read_only: true }, {}, 'invalid_request'],
    ['SELECT n FROM events', {}, { accept: 'text/csv' }, 'invalid_request'],
    ['SELECT n FROM events', {}, { accept: 'application/x-ndjson' }, 'invalid_request'],
  ])('%s with %j and %j, because no key can be stored with it', async (sql, options, headers, code) => {
    const response = await run(newKey(), { sql, ...options }, headers);
    expectFailure(response, 400, code);
    expect(response.body.message).toContain('Idempotency-Key');
    expect(response.body.hint).toContain('without');
    expect(
      (await project.rows(`SELECT FROM pg_indexes WHERE tablename = 'events' AND schemaname = 'data'`)).length,
    ).toBe(1);
  });

  it('an invalid key', async () => {
    expectFailure(await run('', { sql: 'SELECT 1' }), 400, 'invalid_request');
    expectFailure(await send('DELETE', '/api/cdp/schema/table/events', 'k'.repeat(256)), 400, 'invalid_request');
  });
});

describe('protects', () => {
  it('many requests at once with one key: it takes effect once', async () => {
    await project.rows('DELETE FROM events');
    const key = newKey();
    const sql = 'INSERT INTO events (n) VALUES (7) RETURNING id';
    const responses = await Promise.all(Array.from({ length: 8 }, () => run(key, { sql })));
    const done = responses.filter(({ status }) => status === 200);
    expect(new Set(done.map(({ text }) => text)).size).toBe(1);
    for (const response of responses) if (response.status !== 200) expectFailure(response, 409, 'request_in_flight');
    expect(await stored()).toEqual([7]);
  });

  it('a statement that fails at the commit: its key is not stored either', async () => {
    await project.rows('CREATE TABLE late (n bigint UNIQUE DEFERRABLE INITIALLY DEFERRED)');
    const key = newKey();
    expectFailure(await run(key, { sql: 'INSERT INTO late VALUES (1), (1)' }), 409, 'unique_violation');
    expect(await project.rows(`SELECT FROM _cdp.idempotency_keys WHERE key = '${key}'`)).toEqual([]);
  });
});
