/**
 * The connection pool of the service's own role (tenancy/service-pool.ts), if a connection breaks at the worst moment.
 */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { expect, it, vi } from 'vitest';
import { fixed } from '../../src/pg/index.js';
import { servicePool } from '../../src/tenancy/service-pool.js';
import { fatal } from '../support/fatal.js';
import { embeddedServer } from '../support/postgres.js';

/** As a backend says it whose postmaster was killed. */
const FAREWELL = fatal('57P01', 'terminating connection due to unexpected postmaster exit');

/** ReadyForQuery, idle: the end of a login. */
const READY = Buffer.from('Z\0\0\0\x05I');

it('survives a server that ends a connection just as the login succeeds', async () => {
  const { host, port, user, password, database } = embeddedServer().connection;
  let broken = 0;
  // Postgres itself, but that the first connections end with their login, in one piece with its last message.
  const proxy = createServer((near) => {
    const far = connect(`${host}/.s.PGSQL.${port}`);
    near.on('error', () => far.destroy()).pipe(far);
    far.on('error', () => near.destroy());
    far.on('data', (chunk: Buffer) => {
      if (broken === 3 || !chunk.subarray(-READY.length).equals(READY)) return void near.write(chunk);
      broken++;
      near.end(Buffer.concat([chunk, FAREWELL]));
      far.destroy();
    });
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const address = { host: '127.0.0.1', port: (proxy.address() as AddressInfo).port, user, password, database };
  const pool = servicePool({ ...address, connectionTimeoutMillis: 5_000 }, 1);
  try {
    for (let question = 0; question < 3; question++) await expect(pool.query(fixed('SELECT 1'))).rejects.toThrow();
    expect(await pool.query(fixed('SELECT 1'))).toEqual([['1']]);
    expect(broken).toBe(3);
  } finally {
    await pool.close();
    proxy.close();
  }
});

it('leaves no timer of the idle sessions that it destroys because another one does not answer', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const pool = servicePool({ ...embeddedServer().connection, connectionTimeoutMillis: 5_000 }, 2);
  try {
    await Promise.all([pool.query(fixed('SELECT pg_sleep(0.1)')), pool.query(fixed('SELECT pg_sleep(0.1)'))]);
    const slow = expect(pool.query(fixed('SELECT pg_sleep(10)'), { timeoutMs: 10 })).rejects.toThrow('in time');
    await vi.advanceTimersByTimeAsync(10);
    await slow;
    // That of the cancel request ends with Postgres's answer, one of an idle session would never end.
    while (vi.getTimerCount() > 0) await new Promise(setImmediate);
  } finally {
    vi.useRealTimers();
    await pool.close();
  }
});
