/** The control database of an embedded server (postgres/embedded/control-database.ts). */
import { expect, it } from 'vitest';
import { ensureControlDatabase } from '../../../src/embedded/control-database.js';
import { embeddedServer } from '../../support/postgres.js';
import { onServer } from '../../support/service.js';

const server = embeddedServer();
const name = `control_${process.pid}_${Date.now()}`;
const address = { ...server.connection, database: name, connectionTimeoutMillis: 5_000 };

const openToAll = (): Promise<string[]> =>
  onServer(server, async (client) => {
    const { rows } = await client.query<{ datname: string }>(
      `SELECT datname FROM pg_database WHERE datname IN ($1, 'postgres', 'template1')
         AND has_database_privilege('public', oid, 'CONNECT, TEMPORARY')`,
      [name],
    );
    return rows.map(({ datname }) => datname);
  });

it('closes the control database, also where a start was killed before it had done so, and for many starts at once', async () => {
  try {
    await onServer(server, (client) => client.query(`CREATE DATABASE ${name} TEMPLATE template0`));
    expect(await openToAll()).toContain(name);
    await Promise.all(Array.from({ length: 4 }, () => ensureControlDatabase(address)));
    expect(await openToAll()).toEqual([]);
    await onServer(server, (client) => client.query(`DROP DATABASE ${name}`));
    await Promise.all(Array.from({ length: 4 }, () => ensureControlDatabase(address)));
    expect(await openToAll()).toEqual([]);
  } finally {
    await onServer(server, (client) => client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`));
  }
});
