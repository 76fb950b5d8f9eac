/** What projects use, by day and way in: counted exactly, added up by instances, kept over restarts. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { pino } from 'pino';
import type { UsageOfDay, UsageResponse } from '../../../src/contract/wire/usage.js';
import { startService } from '../../../src/service.js';
import { message, query, RawClient } from '../../postgres-port/connect.js';
import {
  call,
  expectFailure,
  startOwnService,
  startTestService,
  type TestProject,
  type TestService,
} from '../../support/service.js';

let service: TestService;
let project: TestProject;
let admin: string;
beforeAll(async () => {
  service = await startOwnService({ 'pg-port': '0' });
  project = await service.project();
  admin = (await service.engine.tokens.create(null, { scopes: [] })).token;
});
afterAll(() => service.close());

const read = (query = '', of = service): Promise<UsageResponse> =>
  of.call('GET', `/api/cdp/admin/usage${query}`, { token: admin }).then(({ body }) => body as unknown as UsageResponse);

/** What the project has used so far. */
async function used(of: TestProject = project): Promise<UsageOfDay> {
  await service.engine.usage.write();
  const days = (await read(`?project=${of.name}`)).usage;
  // Around midnight there are two.
  return days.at(-1) as UsageOfDay;
}

type Counts = UsageOfDay['ways'][string];
const NOTHING: Counts = {
  ...{ requests: 0, rows_in: 0, rows_out: 0, bytes_in: 0, bytes_out: 0, statement_seconds: 0 },
};

/** What some work uses, by the way in. */
async function usedBy(way: string, work: () => Promise<unknown>): Promise<Counts> {
  const before = (await used()).ways[way] ?? NOTHING;
  await work();
  const after = (await used()).ways[way] ?? NOTHING;
  return Object.fromEntries(
    Object.entries(after).map(([name, value]) => [name, value - before[name as keyof Counts]]),
  ) as Counts;
}

describe('counts', () => {
  beforeAll(() => project.table('people', { n: 'INTEGER', name: 'TEXT' }));
  const records = (count: number, from = 0) =>
    Array.from({ length: count }, (_, i) => ({ n: from + i, name: 'x'.repeat(20) }));
  const post = (path: string, body: unknown, headers = {}) => project.call('POST', path, { body, headers });

  it('batches, and none of a dry run or a repeat', async () => {
    const batch = records(200);
    const bytes = JSON.stringify(batch).length;
    const counts = await usedBy('api', () => post('/api/cdp/data/people', batch));
    expect(counts).toMatchObject({ requests: 1, rows_in: 200, rows_out: 0 });
    expect(counts.bytes_in).toBeGreaterThan(bytes);
    expect(counts.bytes_in).toBeLessThan(bytes + 1_000);
    expect(counts.bytes_out).toBeGreaterThan(50);
    expect(counts.statement_seconds).toBeGreaterThan(0);
    const key = { 'idempotency-key': 'usage' };
    expect(await usedBy('api', () => post('/api/cdp/data/people', batch, key))).toMatchObject({ rows_in: 200 });
    for (const again of [
      () => post('/api/cdp/data/people', batch, key),
      () => post('/api/cdp/data/people?dry_run=true', batch),
      () => post('/api/cdp/data/people', [{ nope: 1 }]),
    ])
      expect(await usedBy('api', again)).toMatchObject({ requests: 1, rows_in: 0 });
  });

  it('streams, also those of which only a part was stored', async () => {
    const body = records(25_000)
      .map((record) => JSON.stringify(record))
      .join('\n');
    const headers = { 'content-type': 'application/x-ndjson' };
    const counts = await usedBy('streams', () => post('/api/cdp/data/people', body, headers));
    expect(counts).toMatchObject({ requests: 1, rows_in: 25_000 });
    expect(counts.bytes_in).toBeGreaterThan(body.length);
    const broken = await usedBy('streams', async () => {
      const { body: failure } = await post('/api/cdp/data/people', `${body}\nno json`, headers);
      expect(failure.stored_rows).toBeGreaterThan(0);
    });
    expect(broken.rows_in).toBeGreaterThan(0);
    expect(broken.rows_in).toBeLessThan(25_000);
  });

  it('SQL, collected and streamed', async () => {
    const sql = (text: string, more = {}, headers = {}) => post('/api/cdp/sql', { sql: text, ...more }, headers);
    const write = "UPDATE people SET name = 'y' WHERE n < 10; SELECT * FROM people WHERE n < 5 LIMIT 7";
    await sql('DELETE FROM people WHERE n >= 100; DELETE FROM people a USING people b WHERE a.n = b.n AND a.id > b.id');
    expect(await usedBy('sql', () => sql(write))).toMatchObject({ requests: 1, rows_in: 10, rows_out: 5 });
    const stream = await usedBy('sql', () => sql('SELECT * FROM people', {}, { accept: 'application/x-ndjson' }));
    expect(stream).toMatchObject({ requests: 1, rows_in: 0, rows_out: 100 });
    expect(stream.bytes_out).toBeGreaterThan(100 * 50);
  });

  it('events', async () => {
    await project.call('PUT', '/api/cdp/events', { body: {} });
    const batch = [1, 2].map((n) => ({ type: 'track', event: 'Seen', userId: 'u', messageId: `m${n}` }));
    const counts = await usedBy('events', () => post('/v1/batch', { batch }));
    expect(counts).toMatchObject({ requests: 1, rows_in: 2 });
  });

  it('sessions of the Postgres port, and COPY there', async () => {
    const client = await RawClient.open(service.postgresPort ?? 0);
    await client.logIn('writer', project.name, project.token);
    const run = (sql: string) => {
      client.send(query(sql));
      return client.until('Z');
    };
    try {
      const counts = await usedBy('postgres', async () => {
        await run('CREATE TABLE ported (a int, b text)');
        await run("INSERT INTO ported SELECT i, 'z' FROM generate_series(1, 30) i");
        await run('SELECT * FROM ported LIMIT 20; SELECT pg_sleep(0.2)');
      });
      expect(counts).toMatchObject({ requests: 4, rows_in: 30, rows_out: 21 });
      expect(counts.statement_seconds).toBeGreaterThan(0.2);
      // Counted while the session is open.
      const lines = Array.from({ length: 5_000 }, (_, i) => `${i}\tw\n`).join('');
      const copied = await usedBy('copy', async () => {
        client.send(query('COPY ported FROM STDIN'));
        await client.until('G');
        client.send(message('d', lines), message('c'));
        await client.until('Z');
      });
      expect(copied).toMatchObject({ requests: 1, rows_in: 5_000, rows_out: 0 });
      expect(copied.bytes_in).toBeGreaterThan(lines.length);
      const out = await usedBy('copy', () => run('COPY ported TO STDOUT'));
      expect(out).toMatchObject({ requests: 1, rows_in: 0, rows_out: 5_030 });
      expect(out.bytes_out).toBeGreaterThan(5_030 * 4);
    } finally {
      client.close();
    }
  });

  it('the sum of all ways, the largest size, and how long the server was awake', async () => {
    await service.engine.usage.measure();
    const day = await used();
    for (const name of ['requests', 'rows_in', 'bytes_out'] as const)
      expect(day[name]).toBe(Object.values(day.ways).reduce((sum, counts) => sum + counts[name], 0));
    expect(day.bytes_stored).toBeGreaterThan(1_000_000);
    expect(day.server_seconds).toBeGreaterThan(0.2);
    await project.rows('DROP TABLE ported; DROP TABLE people CASCADE');
    await service.engine.usage.measure();
    expect((await used()).bytes_stored).toBe(day.bytes_stored);
    const other = await service.project();
    await service.engine.usage.measure();
    expect(await used(other)).toMatchObject({ requests: 0, ways: {} });
    expect((await used()).server_seconds).toBeGreaterThan(day.server_seconds);
  });
});

describe('keeps', () => {
  it('what several instances count, and what was counted before a restart', async () => {
    const first = await startTestService();
    const own = await first.project();
    const silent = pino({ level: 'silent' });
    const second = await startService(first.config, silent);
    const sql = (url: string) =>
      call(url, 'POST', '/api/cdp/sql', { token: own.token, body: { sql: 'SELECT 1 FROM generate_series(1, 3)' } });
    try {
      await Promise.all([sql(first.url), sql(second.url)]);
      await Promise.all([first.engine.usage.write(), second.engine.usage.write()]);
      await sql(second.url);
    } finally {
      // Writes what it has counted.
      await second.close();
    }
    const third = await startService(first.config, silent);
    const days = await third.engine.usage.read({ from: '2000-01-01', to: '2999-01-01', project: own.name, limit: 10 });
    await third.close();
    await first.close();
    const sum = (name: 'requests' | 'rows_out') => days.reduce((all, { ways }) => all + (ways.sql?.[name] ?? 0), 0);
    expect([sum('requests'), sum('rows_out')]).toEqual([3, 9]);
  });

  it('what could not be written, for the next time', async () => {
    const { usage } = service.engine;
    await usage.write();
    const rows = (usage as unknown as { rows: { add: () => Promise<void> } }).rows;
    const add = rows.add.bind(rows);
    const before = (await used()).ways.sql?.requests ?? 0;
    rows.add = () => Promise.reject(new Error('The control database is gone'));
    await project.rows('SELECT 1');
    await expect(usage.write()).rejects.toThrow('is gone');
    rows.add = add;
    await project.rows('SELECT 1');
    expect((await used()).ways.sql?.requests).toBe(before + 2);
  });

  it('what a project used that is gone', async () => {
    const gone = await service.project();
    await gone.rows('SELECT 1');
    await service.engine.usage.write();
    await service.call('DELETE', `/api/cdp/admin/projects/${gone.name}`, { token: admin });
    await service.engine.usage.write();
    expect((await read(`?project=${gone.name}`)).usage.at(-1)?.ways.sql?.requests).toBe(1);
  });
});

describe('the list', () => {
  const month = new Date().toISOString().slice(0, 7);

  it('is of this month, of a month, or of some days, in pages', async () => {
    await service.engine.usage.write();
    const all = await read();
    expect(all.from).toBe(`${month}-01`);
    expect(all.usage.length).toBeGreaterThan(1);
    expect(await read(`?month=${month}`)).toEqual(all);
    expect((await read('?month=2001-02')).to).toBe('2001-02-28');
    expect((await read('?from=2001-02-01&to=2001-02-03')).usage).toEqual([]);
    const paged: UsageOfDay[] = [];
    for (let next: string | null = ''; next !== null;) {
      const page: UsageResponse = await read(`?limit=1${next === '' ? '' : `&after=${next}`}`);
      paged.push(...page.usage);
      ({ next } = page);
    }
    expect(paged).toEqual(all.usage);
  });

  it.each([
    ['?month=2026-13', 'a month such as 2026-11'],
    ['?month=2026-11&from=2026-11-01', 'either'],
    ['?to=2026-11-01', '`to` needs `from`'],
    ['?from=2026-02-30', 'there is no day 2026-02-30'],
    ['?from=2026-11-02&to=2026-11-01', '`from` is after `to`'],
    ['?after=x', 'next'],
    ['?limit=0', '1 to 1000'],
  ])('refuses %s', async (query, text) => {
    const response = await service.call('GET', `/api/cdp/admin/usage${query}`, { token: admin });
    expect(expectFailure(response, 400, 'invalid_request').message).toContain(text);
  });

  it('is not for projects', async () => {
    expectFailure(
      await call(service.url, 'GET', '/api/cdp/admin/usage', { token: project.token }),
      403,
      'insufficient_scope',
    );
    expectFailure(await call(service.url, 'GET', '/api/cdp/admin/usage'), 401, 'unauthorized');
  });
});
