/** How errors of the service's own work in Postgres are reported (tenancy/postgres-errors.ts). */
import { expect, it } from 'vitest';
import { EngineError } from '../../src/contract/errors.js';
import { ConnectionLost, PostgresError, sql } from '../../src/pg/index.js';
import { withServiceSession } from '../../src/tenancy/service-pool.js';
import { serviceWork } from '../../src/tenancy/postgres-errors.js';
import { embeddedServer } from '../support/postgres.js';

const { connection } = embeddedServer();
const address = { ...connection, connectionTimeoutMillis: 5_000 };

it("reports a Postgres error in the service's own work as unavailability, and keeps it only as the cause", async () => {
  const work = () => withServiceSession(address, 'postgres', (session) => session.query(sql`SELECT FROM secret_name`));
  const error = await serviceWork(work).then(
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
  ['a full server', new PostgresError('full', '53300', 'FATAL'), 'database_unavailable'],
  ['an error that was made on purpose', new EngineError('not_found', 'gone'), 'not_found'],
])('reports %s correctly', async (_what, thrown, code) => {
  await expect(serviceWork(() => Promise.reject(thrown))).rejects.toMatchObject({ code });
});

it('leaves defects unchanged', async () => {
  const defect = new TypeError('x is not a function');
  await expect(serviceWork(() => Promise.reject(defect))).rejects.toBe(defect);
});
