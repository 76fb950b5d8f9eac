/** Rows of COPY as streams, from one session to another, on real servers. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { ConnectionLost } from '../../src/pg/errors.js';
import { Session } from '../../src/pg/session.js';
import { fixed } from '../../src/pg/sql-tag.js';
import { createDatabase, type TestDatabase, testServers } from '../support/postgres.js';

const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );

async function textOf(rows: AsyncIterable<Buffer>): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of rows) parts.push(part);
  return Buffer.concat(parts).toString();
}

async function* parts(...texts: string[]): AsyncGenerator<Buffer> {
  for (const text of texts) yield await Promise.resolve(Buffer.from(text));
}

describe.each(testServers().map((server) => ({ server, major: server.major })))('on Postgres $major', ({ server }) => {
  let database: TestDatabase;
  const opened: Session[] = [];

  const open = async (): Promise<Session> => {
    const session = await Session.connect({ ...database.connection, connectionTimeoutMillis: 60_000 });
    opened.push(session);
    return session;
  };

  beforeAll(async () => {
    database = await createDatabase(server);
  });
  afterAll(async () => {
    await Promise.all(opened.map((session) => session.close()));
    await database.drop();
  });

  it('copies rows from one table to another unchanged, short and long ones', async () => {
    const [source, target] = [await open(), await open()];
    await source.script(`CREATE TABLE here (n integer, t text); CREATE TABLE there (LIKE here);
      INSERT INTO here SELECT n, repeat('é\\', n * n) FROM generate_series(1, 300) n;
      INSERT INTO here VALUES (0, repeat('long', 3000000)), (-1, NULL), (-2, E'a\\nb\\t\\r')`);
    const rows = source.copyOut(fixed('COPY here TO STDOUT'));
    expect(await target.copyIn(fixed('COPY there FROM STDIN'), rows)).toBe(303);
    expect(await source.query(fixed('TABLE here EXCEPT TABLE there'))).toEqual([]);
    expect(await source.query(fixed('SELECT 1'))).toEqual([['1']]);
    expect(await target.query(fixed('SELECT count(*) FROM there'))).toEqual([['303']]);
  });

  it('lets the rows take longer than other responses may', async () => {
    const session = await Session.connect({ ...database.connection, connectionTimeoutMillis: 60_000, timeoutMs: 500 });
    opened.push(session);
    expect(await textOf(session.copyOut(fixed('COPY (SELECT pg_sleep(1)) TO STDOUT')))).toBe('\n');
  });

  it('pauses the server while the reader is slow', async () => {
    const session = await open();
    const rows = session.copyOut(fixed(`COPY (SELECT repeat('x', 1000) FROM generate_series(1, 100000)) TO STDOUT`));
    const first = await rows.next();
    const waits = async () => {
      const [state] = await (
        await open()
      ).query({
        text: 'SELECT wait_event FROM pg_stat_activity WHERE pid = $1',
        params: [String(session.processId)],
      });
      expect(state).toEqual(['ClientWrite']);
    };
    await vi.waitFor(waits, { timeout: 60_000 });
    // What is not taken stays there, but for what is under way.
    expect(session.bytesRead).toBeLessThan(10_000_000);
    expect((first.value?.length ?? 0) + (await textOf(rows)).length).toBe(100_000 * 1_001);
  });

  it('pauses the sender while the server is slow', async () => {
    const [holder, session] = [await open(), await open()];
    await holder.script('CREATE TABLE held (t text)');
    await holder.script('BEGIN; LOCK TABLE held');
    let asked = 0;
    async function* endless(): AsyncGenerator<Buffer> {
      for (; asked < 2_000; asked++) yield await Promise.resolve(Buffer.from(`${'x'.repeat(65_000)}\n`));
    }
    const done = session.copyIn(fixed('COPY held FROM STDIN'), endless());
    const waits = fixed('SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = ' + session.processId);
    await vi.waitFor(async () => expect(await holder.query(waits)).toEqual([['1']]), { timeout: 60_000 });
    expect(asked).toBeLessThan(1_000);
    await holder.script('COMMIT');
    expect(await done).toBe(2_000);
  });

  it('reports an error of COPY … TO STDOUT after the rows before it', async () => {
    const session = await open();
    const rows = session.copyOut(fixed('COPY (SELECT 1 / (3 - n) FROM generate_series(1, 5) n) TO STDOUT'));
    expect(await failureOf(textOf(rows))).toMatchObject({ sqlstate: '22012' });
    expect(await session.query(fixed('SELECT 1'))).toEqual([['1']]);
  });

  it('stops at an error of COPY … FROM STDIN, and stores nothing', async () => {
    const session = await open();
    await session.script('CREATE TABLE checked (n integer CHECK (n < 10))');
    let asked = 0;
    async function* numbers(): AsyncGenerator<Buffer> {
      for (; asked < 1_000_000; asked++) yield await Promise.resolve(Buffer.from(`${asked}\n`.repeat(1_000)));
    }
    expect(await failureOf(session.copyIn(fixed('COPY checked FROM STDIN'), numbers()))).toMatchObject({
      sqlstate: '23514',
    });
    expect(asked).toBeLessThan(1_000_000);
    expect(await failureOf(session.copyIn(fixed('COPY nothing FROM STDIN'), parts('1\n')))).toMatchObject({
      sqlstate: '42P01',
    });
    expect(await session.query(fixed('SELECT count(*) FROM checked'))).toEqual([['0']]);
  });

  it('stores nothing if the data ends early, and says why', async () => {
    const session = await open();
    await session.script('CREATE TABLE broken_off (n integer)');
    async function* data(): AsyncGenerator<Buffer> {
      yield* parts('1\n', '2\n');
      throw new Error('the disk is gone');
    }
    const failure = await failureOf(session.copyIn(fixed('COPY broken_off FROM STDIN'), data()));
    expect(failure).toEqual(new Error('the disk is gone'));
    expect(await session.query(fixed('SELECT count(*) FROM broken_off'))).toEqual([['0']]);
  });

  it('ends the session if its rows are not read to the end', async () => {
    const session = await open();
    for await (const part of session.copyOut(fixed('COPY (SELECT * FROM generate_series(1, 1000000)) TO STDOUT'))) {
      expect(part.toString()).toMatch(/^1\n2\n/);
      break;
    }
    expect(await failureOf(session.query(fixed('SELECT 1')))).toBeInstanceOf(ConnectionLost);
  });

  it('ends both sides if a session is lost', async () => {
    const [source, target] = [await open(), await open()];
    await target.script('CREATE TABLE lost (n integer)');
    const rows = source.copyOut(fixed('COPY (SELECT * FROM generate_series(1, 10000000)) TO STDOUT'));
    const first = await rows.next();
    const done = failureOf(target.copyIn(fixed('COPY lost FROM STDIN'), rows));
    expect(first.done).toBe(false);
    source.destroy(new Error('gone'));
    expect(await done).toEqual(new Error('gone'));
    expect(await target.query(fixed('SELECT count(*) FROM lost'))).toEqual([['0']]);

    const again = (await open()).copyOut(fixed('COPY (SELECT * FROM generate_series(1, 10000000)) TO STDOUT'));
    const lost = failureOf(target.copyIn(fixed('COPY lost FROM STDIN'), again));
    target.destroy(new Error('gone, too'));
    expect(await lost).toEqual(new Error('gone, too'));
  });
});
