/**
 * kill -9 of the service while sessions of the Postgres port are open: every client gets an error or is cut off,
 * acknowledged rows are stored, open transactions are not, and later sessions find the project as usual.
 */
import pg from 'pg';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, it } from 'vitest';
import { endEverything, eventually, freePort, superuserOfProject } from '../support/program.js';
import { call } from '../support/service.js';
import { embeddedStage, onDatabase } from './support/stage.js';

afterAll(endEverything);

const KILLS = 3;
const CLIENTS = 6;

it(`${KILLS} times: acknowledged rows stay, open transactions are rolled back, and no backend is left behind`, async () => {
  const pgPort = await freePort();
  const stage = await embeddedStage('--pg-port', String(pgPort));
  const { url, token } = stage;
  const sql = (text: string) => call(url, 'POST', '/api/cdp/sql', { token, body: { sql: text } });
  expect((await sql('CREATE TABLE kept (client int, n int, PRIMARY KEY (client, n))')).status).toBe(200);

  const open = async (): Promise<{ client: pg.Client; ended: Promise<void> }> => {
    const client = new pg.Client({
      host: '127.0.0.1',
      port: pgPort,
      user: 'writer',
      database: 'default',
      password: token,
    });
    client.on('error', () => {});
    const ended = new Promise<void>((resolve) => client.once('end', () => resolve()));
    await client.connect();
    return { client, ended };
  };
  /** The last number of each client that Postgres has confirmed. */
  const confirmed = Array<number>(CLIENTS).fill(0);
  const insertUntilTheEnd = async (index: number) => {
    const { client, ended } = await open();
    try {
      for (let n = (confirmed[index] ?? 0) + 1; ; n++) {
        await client.query('INSERT INTO kept VALUES ($1, $2)', [index, n]);
        confirmed[index] = n;
      }
    } catch {
      await ended;
    }
  };

  let service = stage.first;
  for (let kill = 0; kill < KILLS; kill++) {
    const before = [...confirmed];
    const working = confirmed.map((_, index) => insertUntilTheEnd(index));
    const undecided = await open();
    await undecided.client.query('BEGIN; INSERT INTO kept VALUES (-1, 1)');
    await eventually('all clients are at work', () =>
      Promise.resolve(confirmed.every((n, index) => n > (before[index] ?? 0))),
    );
    await sleep(Math.random() * 200);
    await service.end('SIGKILL');
    await Promise.all([...working, undecided.ended]);
    service = (await stage.start()).service;
    expect((await sql('SELECT 1')).status).toBe(200);

    const superuser = await superuserOfProject(stage.dataDir);
    await eventually('no session is left', () =>
      onDatabase(superuser, async (client) => {
        const left = await client.query(
          `SELECT FROM pg_stat_activity WHERE usename = 'writer' AND application_name NOT LIKE 'cdp %'`,
        );
        return left.rowCount === 0;
      }),
    );

    const { client } = await open();
    const { rows } = await client.query(
      'SELECT client, max(n) AS last, count(*)::int AS count FROM kept GROUP BY 1 ORDER BY 1',
    );
    expect(rows.map(({ client: index }: { client: number }) => index)).toEqual(confirmed.map((_, index) => index));
    for (const { client: index, last, count } of rows as { client: number; last: number; count: number }[]) {
      expect(count).toBe(last);
      // Of one statement at most nobody knows.
      expect([confirmed[index], (confirmed[index] ?? 0) + 1]).toContain(last);
    }
    await client.end();
    expect((await sql('TRUNCATE TABLE kept; SELECT 1 AS one')).body).toMatchObject({ rows: [{ one: 1 }] });
    confirmed.fill(0);
  }
  expect((await service.end()).code).toBe(0);
});
