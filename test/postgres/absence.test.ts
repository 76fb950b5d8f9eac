/** A Postgres that takes no logins is asked for one now and then, however many want one. */
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, it } from 'vitest';
import { servicePool } from '../../src/postgres/server.js';

/** ErrorResponse (Postgres manual 54.7), as a server sends it that is starting. */
function refusal(): Buffer {
  const fields = Buffer.from('SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0');
  const head = Buffer.from('E\0\0\0\0');
  head.writeInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, fields]);
}

it('tells all who want a connection what the last login was told', async () => {
  let logins = 0;
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => {
      logins++;
      socket.end(refusal());
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
      await expect(pool.query('SELECT 1')).rejects.toMatchObject({ code: '57P03' });
    }
    const tenths = Math.ceil((performance.now() - before) / 100);
    expect(logins).toBeGreaterThan(0);
    expect(logins).toBeLessThanOrEqual(tenths);
  } finally {
    await pool.end();
    server.close();
  }
});
