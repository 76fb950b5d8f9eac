/** Streams with a key while the service is killed again and again: each record is stored once, in order, and in the end all. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { endEverything, eventually } from '../support/program.js';
import { call } from '../support/service.js';
import { databaseOf, onDatabase, type ServerStage, serverStage } from './support/stage.js';

afterAll(endEverything);

let stage: ServerStage;
beforeAll(async () => {
  stage = await serverStage();
});
afterAll(() => stage.close());

const RECORDS = 120_000;
const LEAST_KILLS = 5;

const body = `n,note\n${Array.from({ length: RECORDS }, (_, n) => `${n},note ${n}\n`).join('')}`;

it('kills at the boundaries of chunks lose nothing and store nothing twice', async () => {
  const { token } = stage;
  const post = (url: string) =>
    call(url, 'POST', '/api/cdp/data/events', {
      token,
      body,
      headers: { 'content-type': 'text/csv', 'idempotency-key': 'events' },
    });
  const first = await stage.start();
  const columns = [
    { name: 'n', type: 'INTEGER' },
    { name: 'note', type: 'TEXT' },
  ];
  await call(first.url, 'POST', '/api/cdp/schema/table', { token, body: { table_name: 'events', columns } });
  const database = await onDatabase({ ...stage.server().connection, database: 'cdp' }, databaseOf('shop'));
  const look = async () => {
    const [row] = await stage.query<{ bytes: string; rows: string; stored: string; ordered: boolean }>(
      `SELECT coalesce(max(stream_bytes), 0) AS bytes, coalesce(max(stream_rows), 0) AS rows,
        (SELECT count(*) FROM data.events) AS stored, (SELECT count(*) = coalesce(max(n) + 1, 0) FROM data.events) AS ordered
      FROM _cdp.idempotency_keys WHERE key = 'events'`,
      [],
      database,
    );
    return { bytes: Number(row?.bytes), rows: Number(row?.rows), stored: Number(row?.stored), ordered: row?.ordered };
  };
  await first.end();

  let kills = 0;
  for (let before = 0; kills < LEAST_KILLS; kills++) {
    const service = await stage.start();
    const sending = post(service.url).catch(() => null);
    await eventually('another chunk is stored', async () => (await look()).bytes > before);
    await service.end('SIGKILL');
    await sending;
    // What the backends of the killed service had been sent ends, too.
    await eventually('no backend is left', async () => {
      const [row] = await stage.query<{ count: string }>(
        `SELECT count(*) FROM pg_stat_activity WHERE datname = '${database}' AND pid <> pg_backend_pid()`,
        [],
        database,
      );
      return row?.count === '0';
    });
    const { bytes, rows, stored, ordered } = await look();
    expect({ rows, ordered }).toEqual({ rows: stored, ordered: true });
    expect(body.slice(0, bytes).split('\n').length - 2).toBe(stored);
    before = bytes;
  }

  const last = await stage.start();
  const { status, body: answer } = await post(last.url);
  expect([status, answer['inserted_rows'], answer['bytes']]).toEqual([201, RECORDS, body.length]);
  expect(await look()).toEqual({ bytes: body.length, rows: RECORDS, stored: RECORDS, ordered: true });
  console.log(`${kills} kills at the boundaries of chunks`);
});

it('an atomic stream is stored completely or not at all, whenever the service is killed', async () => {
  const { token } = stage;
  const post = (url: string) =>
    call(url, 'POST', '/api/cdp/data/whole?atomic=true', {
      token,
      body,
      headers: { 'content-type': 'text/csv', 'idempotency-key': 'whole' },
    });
  const columns = [
    { name: 'n', type: 'INTEGER' },
    { name: 'note', type: 'TEXT' },
  ];
  const database = await onDatabase({ ...stage.server().connection, database: 'cdp' }, databaseOf('shop'));
  const count = async (sql: string) => Number((await stage.query<{ n: string }>(sql, [], database))[0]?.n);
  const stored = () => count('SELECT count(*) AS n FROM data.whole');
  const working = () =>
    count(
      `SELECT count(*) AS n FROM pg_stat_activity WHERE datname = '${database}' AND query LIKE 'COPY%whole%' AND state <> 'idle'`,
    );
  for (let kill = 0; kill < 4; kill++) {
    const service = await stage.start();
    if (kill === 0) {
      const table = { token, body: { table_name: 'whole', columns } };
      expect((await call(service.url, 'POST', '/api/cdp/schema/table', table)).status).toBe(201);
    }
    const sending = post(service.url).catch(() => null);
    await eventually('it is being stored', async () => (await working()) > 0 || (await stored()) > 0);
    // Somewhere in the transaction.
    await new Promise((resolve) => setTimeout(resolve, 40 * kill));
    await service.end('SIGKILL');
    await sending;
    await eventually('no backend is left', async () => (await working()) === 0);
    expect([0, RECORDS]).toContain(await stored());
  }
  const last = await stage.start();
  const { status, body: answer } = await post(last.url);
  expect([status, answer['inserted_rows']]).toEqual([201, RECORDS]);
  expect(await stored()).toBe(RECORDS);
});
