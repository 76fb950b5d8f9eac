/** What one statement may use: time, rows, bytes, slots (contract C13.14, C14.4 to C14.6, C15.1). */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { BackendRequest } from '../../../src/db/backend-request.js';
import {
  expectFailure,
  onServer,
  isIdle,
  runningRequests,
  startTestService,
  type TestResponse,
  type TestProject,
  type TestService,
} from '../../support/service.js';

const MIB = 1024 * 1024;

type Check = (this: BackendRequest, now: number) => void;

let service: TestService;
let project: TestProject;

beforeAll(async () => {
  service = await startTestService({ 'project-waiting': '4', 'wait-ms': '2000', 'shutdown-ms': '500' });
  project = await service.project();
});
afterAll(() => service.close());

const sql = (text: string, rest: object = {}, of = project): Promise<TestResponse> =>
  of.call('POST', '/api/cdp/sql', { body: { sql: text, ...rest } });

async function timed<T>(work: Promise<T>): Promise<[result: T, ms: number]> {
  const started = performance.now();
  return [await work, performance.now() - started];
}

/** Less than what is refused or held would take, and long for a machine with other work. */
const SOON_MS = 15_000;

/** Well before it would end by itself. */
const isFree = (mark: string) => expect.poll(() => running(mark), { timeout: 10_000 }).toBe(0);

/** Backends in which a statement with this text runs. */
async function running(mark: string): Promise<number> {
  return onServer(service.server, async (client) => {
    const { rows } = await client.query<{ count: string }>(
      `SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle' AND query LIKE $1 AND pid <> pg_backend_pid()`,
      [`%${mark}%`],
    );
    return Number(rows[0]?.count);
  });
}

describe('time', () => {
  it('is up after timeout_ms: the response is 504, and the backend is free', async () => {
    const [response, ms] = await timed(sql("SELECT pg_sleep(20), 'mark_plain'", { timeout_ms: 300 }));
    const body = expectFailure(response, 504, 'query_timeout');
    expect(body.message).toContain('300');
    expect(ms).toBeGreaterThan(290);
    expect(ms).toBeLessThan(SOON_MS);
    await isFree('mark_plain');
  });

  /** As if each request had already run for 30 s. */
  async function after30Seconds<T>(work: () => Promise<T>): Promise<T> {
    const { value: check } = Object.getOwnPropertyDescriptor(BackendRequest.prototype, 'check') as { value: Check };
    const ahead = vi.spyOn(BackendRequest.prototype, 'check').mockImplementation(function (this: BackendRequest, now) {
      check.call(this, now + 30_000);
    });
    return work().finally(() => ahead.mockRestore());
  }

  it('is up after 30 s by default', async () => {
    const { message } = expectFailure(await after30Seconds(() => sql('SELECT pg_sleep(35)')), 504, 'query_timeout');
    expect(message).toContain('30000 ms');
  });

  it('is up after 30 s for an insert, which is rolled back', async () => {
    await project.table('slow', { n: 'INTEGER' });
    await project.rows(`CREATE FUNCTION rest() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_sleep(CASE WHEN NEW.n = 2 THEN 35 ELSE 0 END); RETURN NEW; END $$;
      CREATE TRIGGER rest BEFORE INSERT ON slow FOR EACH ROW EXECUTE FUNCTION rest()`);
    const insert = () => project.call('POST', '/api/cdp/data/slow', { body: [{ n: 1 }, { n: 2 }] });
    const { message } = expectFailure(await after30Seconds(insert), 504, 'query_timeout');
    expect(message).toContain('30000 ms');
    expect(await project.rows('SELECT n FROM slow')).toEqual([]);
  });

  it('is counted for all statements of a request together, and all of them are rolled back', async () => {
    await project.rows('CREATE TABLE timed (n int)');
    const text = `INSERT INTO timed VALUES (1);${' SELECT pg_sleep(0.2);'.repeat(90)}`;
    const [response, ms] = await timed(sql(text, { timeout_ms: 500 }));
    expectFailure(response, 504, 'query_timeout');
    expect(ms).toBeLessThan(SOON_MS);
    expect(await project.rows('SELECT * FROM timed')).toEqual([]);
  });

  const STUBBORN: [what: string, text: string][] = [
    ['switches the statement timeout off', "SET statement_timeout = 0; SELECT pg_sleep(20), 'mark_stubborn'"],
    [
      'catches its cancellation in a loop',
      `DO $$ BEGIN LOOP BEGIN PERFORM pg_sleep(20), 'mark_stubborn';
         EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP; END $$`,
    ],
    [
      'catches its cancellation and computes on',
      `DO $$ DECLARE x int := 0; BEGIN LOOP BEGIN LOOP x := (x + 1) % 1000; END LOOP; PERFORM 'mark_stubborn';
         EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP; END $$`,
    ],
  ];
  it.each(STUBBORN)('is also up for a statement that %s', async (_what, text) => {
    // 0.3 s, then 0.5 s of grace, then the end of the backend.
    const [response, ms] = await timed(sql(text, { timeout_ms: 300 }));
    expectFailure(response, 504, 'query_timeout');
    expect(ms).toBeLessThan(SOON_MS);
    await isFree('mark_stubborn');
    expect(await project.rows('SELECT 1 AS fine')).toEqual([{ fine: 1 }]);
  });

  it('is not shortened by settings of an earlier request', async () => {
    await project.rows("SET statement_timeout = '50ms'");
    expect(await project.rows('SELECT 1 AS n FROM pg_sleep(0.2)')).toEqual([{ n: 1 }]);
  });
});

describe('rows', () => {
  const rows = (count: number) => `SELECT generate_series(1, ${count}) AS g`;

  it('are cut at max_rows, and truncated is true only if there were more', async () => {
    for (const [count, most, given, truncated] of [
      [9, 10, 9, false],
      [10, 10, 10, false],
      [11, 10, 10, true],
      [1, 1, 1, false],
      [2, 1, 1, true],
      [0, 1, 0, false],
      [16, 16, 16, false],
      [17, 16, 16, true],
      [100, 99, 99, true],
    ] as const) {
      const { body } = await sql(rows(count), { max_rows: most });
      const found = { row_count: body.row_count, length: (body.rows as unknown[]).length, truncated: body.truncated };
      expect({ count, most, ...found }).toEqual({ count, most, row_count: given, length: given, truncated });
      expect(body.type).toBe('SELECT');
    }
  });

  it('are 10,000 by default and 100,000 at most', async () => {
    expect((await sql(rows(10_000))).body).toMatchObject({ row_count: 10_000, truncated: false });
    expect((await sql(rows(10_001))).body).toMatchObject({ row_count: 10_000, truncated: true });
    expect((await sql(rows(100_000), { max_rows: 100_000 })).body).toMatchObject({
      row_count: 100_000,
      truncated: false,
    });
    expect((await sql(rows(100_001), { max_rows: 100_000 })).body).toMatchObject({
      row_count: 100_000,
      truncated: true,
    });
  });

  it('beyond the limit are not produced by Postgres', async () => {
    for (const text of [
      'SELECT generate_series(1, 1000000000000) AS g',
      'WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r',
    ]) {
      expect((await sql(text)).body).toMatchObject({ type: 'SELECT', row_count: 10_000, truncated: true });
    }
  });

  it('of INSERT … RETURNING beyond the limit are still inserted and counted', async () => {
    await project.rows('CREATE TABLE many (n int)');
    const insert = 'INSERT INTO many SELECT generate_series(1, 20000) RETURNING n';
    for (const text of [
      insert,
      `WITH x AS (SELECT 1) ${insert}`,
      'UPDATE many SET n = n WHERE n <= 10000 RETURNING n',
      'MERGE INTO many USING (SELECT generate_series(1, 20000) AS g) s ON false WHEN NOT MATCHED THEN INSERT VALUES (g) RETURNING n',
    ]) {
      const { body } = await sql(text, { max_rows: 10 });
      expect(body).toMatchObject({ row_count: 10, truncated: true, affected_rows: 20_000 });
      expect(body.type).toBe(/INSERT|UPDATE|MERGE/.exec(text)?.[0]);
    }
    expect(await project.rows('SELECT count(*) AS n FROM many')).toEqual([{ n: 60_000 }]);
    expect((await sql('DELETE FROM many WHERE n <= 1000 RETURNING n')).body).toMatchObject({
      row_count: 3_000,
      truncated: false,
      affected_rows: 3_000,
    });
  });

  it('of a prepared statement beyond the limit do not hide what it was', async () => {
    const select = await sql(`PREPARE p AS ${rows(100)}; EXECUTE p`, { max_rows: 10 });
    expect(select.body).toMatchObject({ type: 'SELECT', row_count: 10, truncated: true });
    await project.rows('CREATE TABLE few (n int)');
    const insert = await sql('PREPARE p AS INSERT INTO few SELECT generate_series(1, 100) RETURNING n; EXECUTE p', {
      max_rows: 10,
    });
    expect(insert.body).toMatchObject({ type: 'INSERT', row_count: 10, truncated: true, affected_rows: 100 });
    expect(await project.rows('SELECT count(*) AS n FROM few')).toEqual([{ n: 100 }]);
  });

  it('are cut for each statement of a request', async () => {
    const { body } = await sql(`${rows(5)}; ${rows(3)}; ${rows(4)}`, { max_rows: 3 });
    const results = body.results as { row_count: number; truncated: boolean }[];
    expect(results.map(({ row_count, truncated }) => [row_count, truncated])).toEqual([
      [3, true],
      [3, false],
      [3, true],
    ]);
  });
});

describe('bytes', () => {
  it('are cut at 16 MiB, between two rows', async () => {
    const { body, text } = await sql(`SELECT repeat('x', 1000000) AS s FROM generate_series(1, 100)`);
    expect(body).toMatchObject({ row_count: 16, truncated: true });
    expect((body.rows as unknown[]).length).toBe(16);
    expect(text.length).toBeLessThan(16 * MIB + 10_000);
  });

  it('are counted for all results together', async () => {
    const eight = `SELECT repeat('x', 1000000) AS s FROM generate_series(1, 8)`;
    const { body } = await sql(`${eight}; ${eight}; ${eight}; SELECT 1 AS small`);
    const results = body.results as { row_count: number; truncated: boolean }[];
    expect(results.map(({ row_count, truncated }) => [row_count, truncated])).toEqual([
      [8, false],
      [8, false],
      [0, true],
      [1, false],
    ]);
  });

  it('beyond the limit are not fetched, even if the first rows were short', async () => {
    await project.rows('DROP SEQUENCE IF EXISTS made; CREATE SEQUENCE made');
    const response = await sql(`SELECT repeat('x', CASE WHEN g <= 16 THEN 1 ELSE 1000000 END) AS s, nextval('made') AS n
      FROM generate_series(1, 20000) g`);
    expect(response.body).toMatchObject({ row_count: 32, truncated: true });
    // Postgres has made no more of them than were asked for, by the hundred at most.
    const [{ n }] = (await project.rows('SELECT last_value AS n FROM made')) as [{ n: number }];
    expect(n).toBeLessThan(1_000);
  });

  it('beyond 16 MiB in one row are refused, and the connection is not reused', async () => {
    const [{ pid }] = (await project.rows('SELECT pg_backend_pid() AS pid')) as [{ pid: number }];
    for (const text of [
      `SELECT repeat('x', ${17 * MIB}) AS s`,
      // Longer as JSON than on the way from Postgres.
      `SELECT repeat(E'\\x01', ${3 * MIB}) AS s`,
      `SELECT 1 AS n; SELECT repeat('x', 200 * ${MIB}) AS s`,
    ]) {
      expect(expectFailure(await sql(text), 400, 'result_too_large').message).toMatch(/16777216|16 MiB/);
    }
    const exact = `SELECT repeat('x', ${16 * MIB} - 8) AS s`;
    expect((await sql(exact)).body).toMatchObject({ row_count: 1, truncated: false });
    const atWork = () =>
      onServer(service.server, async (client) => {
        const text = 'SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND state = $2';
        return (await client.query(text, [pid, 'active'])).rowCount;
      });
    await expect.poll(atWork, { timeout: 10_000 }).toBe(0);
  });
});

describe('slots', () => {
  /** Statements that hold all six places of free SQL until they are released. */
  async function holdAll(of: TestProject): Promise<() => Promise<void>> {
    const held = new AbortController();
    const slow = Array.from({ length: 6 }, () =>
      of
        .call('POST', '/api/cdp/sql', { body: { sql: "SELECT pg_sleep(30), 'mark_slow'" }, signal: held.signal })
        .catch(() => undefined),
    );
    while ((await running('mark_slow')) < 6) await sleep(20);
    return async () => {
      held.abort();
      await Promise.all(slow);
      while ((await running('mark_slow')) > 0) await sleep(20);
    };
  }

  it('are released when clients leave; until then others wait, or are refused with Retry-After', async () => {
    const release = await holdAll(project);
    const waiting = Array.from({ length: 4 }, () => timed(sql('SELECT 1 AS n')));
    const waitingNow = () => service.engine.load.requests.sql.waiting;
    while (waitingNow() < 4) await sleep(5);
    const tooMany = await sql('SELECT 1 AS n');
    expect(waitingNow(), 'it was refused before them').toBe(4);
    expectFailure(tooMany, 503, 'overloaded');
    expect(Number(tooMany.headers.get('retry-after'))).toBeGreaterThan(0);
    const refused = await Promise.all(waiting);
    for (const [response, waited] of refused) {
      expectFailure(response, 503, 'overloaded');
      expect(response.headers.get('retry-after')).toMatch(/^\d+$/);
      expect(waited).toBeGreaterThan(1_900);
    }
    expect(Math.min(...refused.map(([, waited]) => waited))).toBeLessThan(SOON_MS);
    const next = sql('SELECT 1 AS n');
    await sleep(50);
    await release();
    expect((await next).body.rows).toEqual([{ n: 1 }]);
    while (runningRequests(service) > 0) await sleep(10);
    expect(isIdle(service)).toBe(true);
  });

  it('are reserved for inserts and schema changes, and other projects are not delayed', async () => {
    const other = await service.project();
    await project.table('inserted', { n: 'INTEGER' });
    await other.rows('SELECT 1');
    const release = await holdAll(project);
    const [insert, insertMs] = await timed(project.call('POST', '/api/cdp/data/inserted', { body: [{ n: 1 }] }));
    expect(insert.status).toBe(201);
    expect(insertMs).toBeLessThan(SOON_MS);
    expect((await project.call('GET', '/api/cdp/schema')).status).toBe(200);
    const [response, ms] = await timed(sql('SELECT 1 AS n', {}, other));
    expect(response.status).toBe(200);
    expect(ms).toBeLessThan(SOON_MS);
    await release();
  });

  it('stay taken by a statement that cannot be stopped until its backend has ended', async () => {
    const small = await startTestService({ 'project-running': '3', 'project-reserved': '2', 'wait-ms': '500' });
    try {
      const of = await small.project();
      await of.table('t', { n: 'INTEGER' });
      const run = (text: string, more = {}) => of.call('POST', '/api/cdp/sql', { body: { sql: text, ...more } });
      // Postgres looks for a text within another without looking whether it is to end.
      const endless = "SELECT strpos(repeat('a', 180000), 'b' || repeat('a', 90000))";
      expectFailure(await run(endless, { timeout_ms: 200 }), 504, 'query_timeout');
      expectFailure(await run('SELECT 1'), 503, 'overloaded');
      expect((await of.call('POST', '/api/cdp/data/t', { body: [{ n: 1 }] })).status).toBe(201);
      while ((await run('SELECT 1')).status !== 200) await sleep(100);
    } finally {
      await small.close();
    }
  });
});
