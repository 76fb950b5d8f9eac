/** Streams of keys that may be public (contract C3.13, C3.14): they tell only what was sent, and keep to the limits. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { NewTokenLimits } from '../../../src/contract/wire/token-limits.js';
import { limitsOf } from '../../../src/engine/access/append-keys.js';
import {
  expectFailure,
  startTestService,
  type TestProject,
  type TestResponse,
  type TestService,
} from '../../support/service.js';

let service: TestService;
let project: TestProject;
let key: string;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  key = await keyWith();
});
afterAll(() => service.close());

const keyWith = async (limits?: NewTokenLimits): Promise<string> => {
  const narrowed = { limits: limitsOf(['data:append'], limits) };
  return (await service.engine.tokens.create(project.id, { scopes: ['data:append'], ...narrowed })).token;
};

let tables = 0;
async function newTable(): Promise<string> {
  const table = `appended_${++tables}`;
  await project.rows(`CREATE TABLE ${table} (n int8 PRIMARY KEY, name text)`);
  return table;
}

const NDJSON = 'application/x-ndjson';

interface Part {
  query?: string;
  token?: string;
  headers?: Record<string, string>;
}

const send = (table: string, body: string, { query = '', token = key, headers = {} }: Part = {}) =>
  project.call('POST', `/api/cdp/data/${table}${query}`, {
    ...{ token, body },
    headers: { 'content-type': NDJSON, ...headers },
  });

const lines = (count: number, from = 0): string =>
  Array.from({ length: count }, (_, i) => `{"n":${from + i},"name":"name"}\n`).join('');

const count = async (table: string): Promise<number> =>
  Number((await project.rows(`SELECT count(*) AS n FROM ${table}`))[0]?.n);

const quarantined = async (table: string): Promise<number> => {
  const { body } = await project.call('GET', `/api/cdp/quarantine?table=${table}`);
  return (body.records as unknown[]).length;
};

const seen = ({ status, body, headers }: TestResponse): unknown[] => [status, body, [...headers.keys()].sort()];

describe('works', () => {
  it('in chunks, and answers only what was accepted', async () => {
    const table = await newTable();
    const body = lines(15_000);
    const response = await send(table, body);
    const answer = { success: true, accepted_rows: 15_000, chunks: 2, bytes: body.length };
    expect([response.status, response.body]).toEqual([202, { ...answer, message: '15000 records accepted' }]);
    const csv = await send(table, 'n;name\n-1;NA\n', {
      query: '?delimiter=;&null=NA',
      headers: { 'content-type': 'text/csv' },
    });
    expect(csv.body).toMatchObject({ accepted_rows: 1 });
    expect(await count(table)).toBe(15_001);
    const progress = await send(table, lines(10, 20_000), { headers: { accept: NDJSON } });
    expect([progress.status, JSON.parse(progress.text.trim().split('\n').at(-1) ?? '')]).toMatchObject([
      202,
      { done: { accepted_rows: 10 } },
    ]);
  });

  it('is resumed under its key, which the project sees', async () => {
    const table = await newTable();
    const headers = { 'idempotency-key': randomUUID() };
    const good = lines(10_000);
    const failure = expectFailure(await send(table, `${good}{"n":"x"}\n`, { headers }), 400, 'invalid_value');
    expect(failure).toMatchObject({ accepted_rows: 10_000, stored_bytes: good.length });
    const query = `?offset=${good.length}`;
    const rest = await send(table, '{"n":-1}\n', { headers, query });
    expect(rest.body).toMatchObject({ accepted_rows: 10_001, bytes: good.length + 9 });
    const again = await send(table, `${good}{"n":-1}\n`, { headers });
    expect(again.body).toEqual(rest.body);
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect(await count(table)).toBe(10_001);
    const receipt = await project.call('GET', `/api/cdp/receipts/${headers['idempotency-key']}`);
    expect(receipt.body).toMatchObject({ table, operation: 'stream', rows: 10_001, complete: true });
  });
});

describe('refuses', () => {
  it.each(['return=ids', 'on_conflict=n', 'dry_run=true', 'on_conflict=n&resolution=ignore'])('%s', async (query) => {
    const table = await newTable();
    const response = await send(table, lines(1), { query: `?${query}` });
    expect(expectFailure(response, 403, 'insufficient_scope').message).toContain('data:write');
    expect(await count(table)).toBe(0);
  });

  it('what the service itself finds wrong, naming every place in the chunk', async () => {
    const table = await newTable();
    const failure = expectFailure(await send(table, '{"n":1}\n{"n":"x"}\n{"m":1}\n'), 400, 'invalid_value');
    expect(failure).toMatchObject({ accepted_rows: 0, stored_bytes: 0, error_count: 2 });
    expect(failure.errors).toMatchObject([
      { line: 2, column: 'n' },
      { line: 3, column: 'm' },
    ]);
    expect(failure).not.toHaveProperty('stored_rows');
    expect([await count(table), await quarantined(table)]).toEqual([0, 0]);
  });
});

describe('protects', () => {
  it('what is stored: a record that Postgres refuses is answered as one that it accepts', async () => {
    for (const query of ['', '?on_error=quarantine']) {
      for (const isKeyed of [false, true]) {
        const [one, other] = [await newTable(), await newTable()];
        const part = () => ({ query, headers: isKeyed ? { 'idempotency-key': randomUUID() } : {} });
        await project.rows(`INSERT INTO ${one} VALUES (3)`);
        const [bad, good] = [await send(one, lines(5), part()), await send(other, lines(5), part())];
        expect(seen(bad)).toEqual(seen(good));
        expect([await count(one), await count(other)]).toEqual([5, 5]);
        expect([await quarantined(one), await quarantined(other)]).toEqual([1, 0]);
      }
    }
  });

  it('the keys of others', async () => {
    const table = await newTable();
    const headers = { 'idempotency-key': randomUUID() };
    expect((await send(table, lines(2), { headers, token: project.token })).status).toBe(201);
    const tokens = [key, await keyWith()];
    for (const [i, token] of tokens.entries()) {
      const offset = await send(table, lines(1), { headers, token, query: '?offset=10' });
      expect(expectFailure(offset, 422, 'idempotency_key_reused').message).toContain('Only 0 bytes');
      const answer = await send(table, lines(1, 100 + i), { headers, token });
      expect([answer.status, answer.headers.get('idempotency-replayed')]).toEqual([202, null]);
    }
    expect(await count(table)).toBe(4);
  });
});

describe('limits', () => {
  it('counts the rows of each chunk before it is stored, and says what was accepted', async () => {
    const table = await newTable();
    const token = await keyWith({ rows_per_day: 25_000 });
    const headers = { 'idempotency-key': randomUUID() };
    const response = await send(table, lines(30_000), { token, headers });
    const failure = expectFailure(response, 429, 'rate_limited');
    expect(failure.message).toBe('The token may send 25000 rows a day');
    expect(failure).toMatchObject({ accepted_rows: 20_000, stored_bytes: lines(20_000).length });
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await count(table)).toBe(20_000);
    // What is skipped is not counted again.
    const rest = await send(table, lines(25_000), { token, headers });
    expect(rest.body).toMatchObject({ accepted_rows: 25_000 });
    expect(await count(table)).toBe(25_000);
    expectFailure(await send(table, lines(1, 50_000), { token }), 429, 'rate_limited');
    expect(await count(table)).toBe(25_000);
  });

  it('a second of rows is a debt: the next chunk waits for it', async () => {
    const table = await newTable();
    const token = await keyWith({ rows_per_second: 10 });
    const failure = expectFailure(await send(table, lines(20_000), { token }), 429, 'rate_limited');
    expect(failure).toMatchObject({ accepted_rows: 10_000 });
    expect(await count(table)).toBe(10_000);
  });

  it('only its tables', async () => {
    const [mine, other] = [await newTable(), await newTable()];
    const token = await keyWith({ tables: [mine] });
    expect((await send(mine, lines(1), { token })).status).toBe(202);
    expectFailure(await send(other, lines(1), { token }), 403, 'insufficient_scope');
    expect(await count(other)).toBe(0);
  });
});
