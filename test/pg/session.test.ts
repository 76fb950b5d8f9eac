/** One connection in the extended query protocol, against real servers. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ConnectionLost, MessageTooLarge, PostgresError } from '../../src/pg/errors.js';
import type { Statement } from '../../src/pg/sql-tag.js';
import { messageSize, type RowHandler } from '../../src/pg/framing.js';
import { readTextRow } from '../../src/pg/messages.js';
import { Session } from '../../src/pg/session.js';
import { createDatabase, type TestDatabase, testServers } from '../support/postgres.js';

const s = (text: string, ...params: (string | null)[]): Statement => ({ text, params });

async function failureOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (error: unknown) => error,
  );
}

describe.each(testServers().map((server) => ({ server, major: server.major })))('on Postgres $major', ({ server }) => {
  let database: TestDatabase;
  let session: Session;
  const opened: Session[] = [];

  const open = async (): Promise<Session> => {
    const made = await Session.connect({
      ...database.connection,
      connectionTimeoutMillis: 5_000,
      maxRowBytes: 16 * 1024 * 1024,
    });
    opened.push(made);
    return made;
  };
  /** Takes one row after the other. */
  const each =
    (take: (buffer: Buffer, body: number, end: number) => void): RowHandler =>
    (buffer, start) => {
      const end = start + messageSize(buffer, start);
      take(buffer, start + 5, end);
      return end;
    };
  /** A sink that keeps the rows as texts. */
  const collector = (): { rows: (string | null)[][]; sink: RowHandler } => {
    const rows: (string | null)[][] = [];
    return { rows, sink: each((buffer, start, end) => rows.push(readTextRow(buffer, start, end))) };
  };

  beforeAll(async () => {
    database = await createDatabase(server);
  });
  beforeEach(async () => {
    session = await open();
  });
  afterAll(async () => {
    await Promise.all(opened.map((each) => each.close()));
    await database.drop();
  });

  it('runs several statements in one round trip and keeps their results separate', async () => {
    const results = await session.run([
      s('SELECT $1::text, $2::int', 'é', null),
      s(''),
      s('CREATE TABLE r1 (n int)'),
      s('VALUES (1), (2)'),
    ]);
    expect(results).toEqual([
      { tag: 'SELECT 1', rows: [['é', null]] },
      { tag: '', rows: [] },
      { tag: 'CREATE TABLE', rows: [] },
      { tag: 'SELECT 2', rows: [['1'], ['2']] },
    ]);
    expect(session.inTransaction).toBe(false);
  });

  it('skips statements after an error, rolls back those before it, and continues', async () => {
    const error = await failureOf(
      session.run([s('CREATE TABLE r2 (n int)'), s('SELECT 1 / 0'), s('SELECT pg_sleep(60)')]),
    );
    expect(error).toBeInstanceOf(PostgresError);
    expect(error).toMatchObject({ sqlstate: '22012', severity: 'ERROR' });
    expect(await session.query(s(`SELECT to_regclass('r2')`))).toEqual([[null]]);
  });

  it('knows the status of its transaction', async () => {
    await session.run([s('BEGIN')]);
    expect(session.inTransaction).toBe(true);
    await failureOf(session.run([s('SELECT 1 / 0')]));
    expect(session.inTransaction).toBe(true);
    await session.run([s('ROLLBACK')]);
    expect(session.inTransaction).toBe(false);
  });

  it('answers pipelined requests, each with its own result', async () => {
    const responses = await Promise.all([
      session.query(s('SELECT 1')),
      failureOf(session.query(s('SELECT 1 / 0'))),
      session.query(s('SELECT 3')),
    ]);
    expect(responses).toMatchObject([[['1']], { sqlstate: '22012' }, [['3']]]);
    expect(session.answeredCount).toBe(3);
  });

  it('describes a statement before it runs, then fetches its rows in batches', async () => {
    const described = await session.describe('SELECT g, $1::text AS t FROM generate_series(1, 5) g', [s('BEGIN')]);
    expect(described).toMatchObject({ parameterOids: [25], columns: [{ name: 'g' }, { name: 't', typeOid: 25 }] });
    const { rows, sink } = collector();
    expect(await session.fetch(['x'], [0, 0], 2, sink)).toBe(null);
    expect(await session.fetchMore(2, sink)).toBe(null);
    expect(rows.map(([g]) => g)).toEqual(['1', '2', '3', '4']);
    expect(await session.fetchMore(2, sink)).toBe('SELECT 1');
    await session.run([s('COMMIT')]);
    expect(await session.describe('DROP TABLE IF EXISTS nothing')).toEqual({ parameterOids: [], columns: null });
    expect((await session.describe('SELECT')).columns).toEqual([]);
  });

  it('ends a COPY … FROM STDIN without data with an error, and continues', async () => {
    await session.run([s('CREATE TEMP TABLE fed (n int)')]);
    expect(await failureOf(session.run([s('COPY fed FROM STDIN')]))).toMatchObject({ sqlstate: '57014' });
    expect(await session.query(s('SELECT count(*) FROM fed'))).toEqual([['0']]);
    expect(await session.run([s('COPY fed TO STDOUT')])).toEqual([{ tag: 'COPY 0', rows: [] }]);
  });

  it('reports its loss to all waiting callers when the server ends it', async () => {
    const other = await open();
    const waiting = [failureOf(session.query(s('SELECT pg_sleep(60)'))), failureOf(session.query(s('SELECT 2')))];
    let closed = 0;
    session.onClose(() => closed++);
    await sleep(50);
    await other.query(s('SELECT pg_terminate_backend($1)', String(session.processId)));
    expect(await Promise.all(waiting)).toMatchObject([{ sqlstate: '57P01' }, { sqlstate: '57P01' }]);
    expect(session.closed).toBe(true);
    expect(closed).toBe(1);
    expect(await failureOf(session.query(s('SELECT 1')))).toMatchObject({ sqlstate: '57P01' });
  });

  it('closes once, and refuses further work', async () => {
    let closed = 0;
    session.onClose(() => closed++);
    void session.close();
    await session.close();
    session.destroy(new Error('late'));
    expect(closed).toBe(1);
    expect(await failureOf(session.query(s('SELECT 1')))).toBeInstanceOf(ConnectionLost);
  });

  it('rejects a row that exceeds the limit, without keeping it', async () => {
    await session.describe(`SELECT repeat('x', CASE g WHEN 3 THEN 100000000 ELSE 10 END) FROM generate_series(1, 3) g`);
    const { rows, sink } = collector();
    const before = process.memoryUsage().external;
    expect(await failureOf(session.fetch([], [], 0, sink))).toBeInstanceOf(MessageTooLarge);
    expect(rows.length).toBe(2);
    expect(session.closed).toBe(true);
    expect(process.memoryUsage().external - before).toBeLessThan(50_000_000);
  });

  it('rejects an error message that would fill memory, and shortens a long one', async () => {
    const raise = (bytes: number) => s(`DO $$ BEGIN RAISE EXCEPTION '%', repeat('x', ${bytes}); END $$`);
    const long = (await failureOf(session.run([raise(1_000_000)]))) as PostgresError;
    expect(long.sqlstate).toBe('P0001');
    expect(long.message.length).toBeLessThan(10_000);
    expect(await failureOf(session.run([raise(50_000_000)]))).toBeInstanceOf(MessageTooLarge);
    expect(session.closed).toBe(true);
  });

  it('closes if the consumer of its rows fails, with that reason', async () => {
    await session.describe('SELECT generate_series(1, 1000000)');
    const full = new Error('full');
    let count = 0;
    const error = await failureOf(
      session.fetch(
        [],
        [],
        0,
        each(() => {
          if (++count === 10) throw full;
        }),
      ),
    );
    expect(error).toBe(full);
    expect(count).toBe(10);
    expect(session.closed).toBe(true);
  });

  it('pauses the server while it is paused', async () => {
    const other = await open();
    await session.describe(`SELECT repeat('x', 10000) FROM generate_series(1, 20000)`);
    let count = 0;
    const pausing = each(() => {
      if (++count === 1) session.pause();
    });
    const done = session.fetch([], [], 0, pausing);
    let waits: unknown;
    for (let i = 0; i < 100 && waits !== 'ClientWrite'; i++) {
      await sleep(20);
      const rows = await other.query(
        s('SELECT wait_event FROM pg_stat_activity WHERE pid = $1', String(session.processId)),
      );
      waits = rows[0]?.[0];
    }
    expect(waits).toBe('ClientWrite');
    expect(count).toBeLessThan(1_000);
    session.unpause();
    expect(await done).toBe('SELECT 20000');
    expect(count).toBe(20_000);
  });

  it('notices that a statement changed the encoding, and that a reset restores it', async () => {
    await session.run([s(`SET client_encoding = 'LATIN1'`)]);
    expect(session.clientEncoding).toBe('LATIN1');
    await session.reset();
    expect(session.clientEncoding).toBe('UTF8');
  });

  it('copies rows between statements of one transaction, and reports how far a pipeline got', async () => {
    await session.run([s('CREATE TABLE copied (n int CHECK (n < 10))')]);
    const copy = (rows: string) => ({ text: 'COPY copied FROM STDIN', params: [], data: [Buffer.from(rows)] });
    for (const prepared of [true, true, false]) {
      const { results, error } = await session.pipeline([s('SELECT 7'), copy('1\n2\n'), s('SELECT 8')], { prepared });
      expect(error).toBeNull();
      expect(results.map(({ tag }) => tag)).toEqual(['SELECT 1', 'COPY 2', 'SELECT 1']);
      const refused = await session.pipeline([s('SELECT 7'), copy('3\n11\n'), s('SELECT 8')], { prepared });
      expect(refused).toMatchObject({ results: [{ rows: [['7']] }], error: { sqlstate: '23514' } });
    }
    expect(await session.query(s('SELECT n, count(*) FROM copied GROUP BY 1 ORDER BY 1'))).toEqual([
      ['1', '3'],
      ['2', '3'],
    ]);
  });

  it('ends a pipeline with a reset, after which the session is clean', async () => {
    const { results, error } = await session.pipeline([s('BEGIN'), s('SELECT 1'), s('COMMIT')], { reset: true });
    expect({ error, tags: results.map(({ tag }) => tag) }).toEqual({
      error: null,
      tags: ['BEGIN', 'SELECT 1', 'COMMIT'],
    });
    expect(session.isClean).toBe(true);
    const failed = await session.pipeline([s('BEGIN'), s('SELECT 1 / 0'), s('COMMIT')], { reset: true });
    expect(failed).toMatchObject({ results: [{ tag: 'BEGIN' }], error: { sqlstate: '22012' } });
    expect(session.isClean).toBe(false);
    await session.reset();
  });

  it('runs a script of several statements', async () => {
    await session.script(`CREATE TEMP TABLE scripted (n int); INSERT INTO scripted VALUES (1), (2)`);
    expect(await session.rowCount(s('UPDATE scripted SET n = 3'))).toBe(2);
    expect(await failureOf(session.script('SELECT 1; SELECT 1 / 0'))).toMatchObject({ sqlstate: '22012' });
  });

  it('can be canceled from outside, and is abandoned if it does not respond in time', async () => {
    const sleeping = failureOf(session.query(s('SELECT pg_sleep(60)')));
    await sleep(50);
    await session.cancel();
    expect(await sleeping).toMatchObject({ sqlstate: '57014' });
    expect(await failureOf(session.query(s('SELECT pg_sleep(60)'), { timeoutMs: 100 }))).toBeInstanceOf(ConnectionLost);
    expect(session.closed).toBe(true);
  });

  it('forgets on a reset what statements left in it', async () => {
    await session.run([
      s(`SET work_mem = '1MB'`),
      s('CREATE TEMP TABLE left_behind (n int)'),
      s('PREPARE p AS SELECT 1'),
    ]);
    await session.run([s('SELECT pg_advisory_lock(1)')]);
    await session.reset();
    const rows = await session.query(
      s(`SELECT current_setting('work_mem'), to_regclass('left_behind'), (SELECT count(*) FROM pg_prepared_statements),
        (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())`),
    );
    expect(rows).toEqual([['4MB', null, '0', '0']]);
  });
});
