/** Callers of a pool that wait for a session. */
import { expect, it, vi } from 'vitest';
import { fixed, Session } from '../../src/pg/index.js';
import { Pool } from '../../src/pg/pool.js';
import { embeddedServer } from '../support/postgres.js';

const WAIT_MS = 1_000;

it('gives a waiting caller its session if the login takes longer than the caller would have waited', async () => {
  let login = Promise.resolve();
  const connect = async () => {
    await login;
    return Session.connect({ ...embeddedServer().connection, connectionTimeoutMillis: 5_000 });
  };
  const pool = new Pool(connect, { max: 1, idleMs: 60_000, waitMs: WAIT_MS });
  let goOn = () => {};
  const slowly = new Promise<void>((resolve) => (goOn = resolve));
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    let waiting: Promise<unknown>[] = [];
    await pool.use(async (session) => {
      waiting = [pool.query(fixed('SELECT 1')), pool.query(fixed('SELECT 2'))];
      login = slowly;
      await session.close();
    });
    const [first, second] = waiting.map((query) => query.catch((error: unknown) => String(error)));
    await vi.advanceTimersByTimeAsync(WAIT_MS);
    goOn();
    expect(await first).toEqual([['1']]);
    expect(await second).toContain('No connection to Postgres was free in time');
    expect(await pool.query(fixed('SELECT 3'))).toEqual([['3']]);
  } finally {
    vi.useRealTimers();
    await pool.close();
  }
});
