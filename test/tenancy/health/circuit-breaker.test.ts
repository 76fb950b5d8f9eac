/** A Postgres that accepts no logins is tried only now and then, however many requests need it. */
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, it } from 'vitest';
import { fixed } from '../../../src/pg/index.js';
import { servicePool } from '../../../src/tenancy/service-pool.js';
import { fatal } from '../../support/fatal.js';

it('gives all waiting requests the error of the last login', async () => {
  let logins = 0;
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => {
      logins++;
      socket.end(fatal('57P03', 'the database system is starting up'));
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const address = {
    host: '127.0.0.1',
    port,
    user: 'cdp',
    password: '',
    database: 'cdp',
    connectionTimeoutMillis: 5_000,
  };
  const pool = servicePool(address, 2);
  try {
    const before = performance.now();
    for (let question = 0; question < 300; question++) {
      await expect(pool.query(fixed('SELECT 1'))).rejects.toMatchObject({ sqlstate: '57P03' });
    }
    const tenths = Math.ceil((performance.now() - before) / 100);
    expect(logins).toBeGreaterThan(0);
    expect(logins).toBeLessThanOrEqual(tenths);
  } finally {
    await pool.close();
    server.close();
  }
});
