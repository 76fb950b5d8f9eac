/** The service's own role on a server: the control database, and what its failures are called. */
import pg from 'pg';
import { expect, it } from 'vitest';
import { EngineError } from '../../src/contract/errors.js';
import { ConnectionLost, PostgresError } from '../../src/postgres/errors.js';
import { ensureControlDatabase, ownErrand, withServiceClient } from '../../src/postgres/server.js';
import { embeddedServer } from '../support/postgres.js';
import { onServer } from '../support/service.js';

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

it("calls what Postgres says of the service's own errands unavailability, with nothing of it but the cause", async () => {
  const errand = () => withServiceClient(address, 'postgres', (client) => client.query('SELECT FROM secret_name'));
  const error = await ownErrand(errand).then(
    () => null,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof EngineError)) throw new Error(`It was ${String(error)}`);
  expect(error).toMatchObject({ code: 'database_unavailable', hint: undefined, postgres: undefined });
  expect(error.message).not.toContain('secret_name');
  expect(error.cause).toBeInstanceOf(PostgresError);
});

it.each([
  ['a lost connection', new ConnectionLost('lost'), 'database_unavailable'],
  ['a refused connection', Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }), 'database_unavailable'],
  ['a full server', Object.assign(new pg.DatabaseError('full', 0, 'error'), { code: '53300' }), 'database_unavailable'],
  ['an error that was made on purpose', new EngineError('not_found', 'gone'), 'not_found'],
])('passes on %s as it should', async (_what, thrown, code) => {
  await expect(ownErrand(() => Promise.reject(thrown))).rejects.toMatchObject({ code });
});

it('leaves defects as they are', async () => {
  const defect = new TypeError('x is not a function');
  await expect(ownErrand(() => Promise.reject(defect))).rejects.toBe(defect);
});
