/**
 * What the service's own role needs on an operator's server: CREATEDB and CREATEROLE, and the errors if it lacks them.
 */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Credentials } from '../../src/tenancy/credentials.js';
import { readMigrations } from '../../src/tenancy/migrations/migrate.js';
import type { Placement } from '../../src/tenancy/placement.js';
import { ProjectDatabaseSetup } from '../../src/tenancy/project-database-setup.js';
import { OwnDatabaseTenancy } from '../../src/tenancy/own-database-tenancy.js';
import type { ServerAddress } from '../../src/pg/index.js';
import type { Backend } from '../../src/tenancy/connections/backend-control.js';
import { blocks, read } from '../docs/markdown.js';
import { clearAway, dropDatabase, embeddedServer } from '../support/postgres.js';
import { onServer } from '../support/service.js';
import { until } from '../support/stream.js';

const server = embeddedServer();
const credentials = new Credentials('a secret for tests, of more than 32 characters');

let role: string;
let control: string;
let template: string;
let address: ServerAddress;
let tenancy: OwnDatabaseTenancy;
let placements: Placement[];

beforeEach(() => {
  [role, control, template] = ['s', 'c', 't'].map((kind) => `${kind}_${randomBytes(6).toString('hex')}`) as [
    string,
    string,
    string,
  ];
  address = {
    ...server.connection,
    user: role,
    password: 'for-tests',
    database: control,
    connectionTimeoutMillis: 5_000,
  };
  tenancy = new OwnDatabaseTenancy(address, {
    databaseSetup: new ProjectDatabaseSetup(
      readMigrations('project'),
      [],
      () => Promise.resolve(true),
      () => {},
    ),
    credentials,
    previous: null,
    template,
  });
  placements = [];
});

/** The service's role, and the database that it is given. */
async function serviceRole(attributes: string): Promise<void> {
  await onServer(server, async (client) => {
    await client.query(`CREATE ROLE ${role} LOGIN ${attributes} PASSWORD 'for-tests'`);
    await client.query(`CREATE DATABASE ${control} OWNER ${role}`);
  });
}

afterEach(async () => {
  await tenancy.close();
  await onServer(server, async (client) => {
    const projects = placements.map(({ database }) => database);
    const roles = placements.flatMap(({ writer, reader }) => [writer, reader]);
    await clearAway(
      client,
      ...[...projects, template, control].map(dropDatabase),
      `DROP ROLE IF EXISTS ${[...roles, role].join(', ')}`,
    );
  });
});

async function project(): Promise<Placement> {
  const placement = await tenancy.newPlacement();
  placements.push(placement);
  await tenancy.create(placement);
  return placement;
}

/** A connection of the project's writer, and the end of it. */
async function busyWriter({ database, writer }: Placement): Promise<{ backend: Backend; ended: Promise<unknown> }> {
  const client = new pg.Client({ ...address, database, user: writer, password: credentials.password(writer) });
  client.on('error', () => {});
  await client.connect();
  const { rows } = await client.query<{ pid: number; now: string }>(
    'SELECT pg_catalog.pg_backend_pid() AS pid, pg_catalog.now()::text AS now',
  );
  const ended = client.query('SELECT pg_catalog.pg_sleep(60)').then(
    () => 'ended by itself',
    (error: unknown) => (error as { code?: string }).code,
  );
  const { pid = 0, now = '' } = rows[0] ?? {};
  return { backend: { processId: pid, role: writer, seenAt: now }, ended };
}

it('drops a project that is in use, with only CREATEDB and CREATEROLE', async () => {
  await serviceRole('CREATEDB CREATEROLE');
  const placement = await project();
  const { ended } = await busyWriter(placement);
  await tenancy.drop(placement);
  expect(await ended).toBe('57P01');
  const left = await onServer(server, (client) =>
    client.query('SELECT FROM pg_roles WHERE rolname = ANY ($1)', [[placement.writer, placement.reader]]),
  );
  expect(left.rowCount).toBe(0);
});

it('drops a project that autovacuum is working on, with only CREATEDB and CREATEROLE', async () => {
  await serviceRole('CREATEDB CREATEROLE');
  const placement = await project();
  const { ended } = await busyWriter(placement);
  const isVacuumed = `SELECT FROM pg_stat_activity WHERE datname = '${placement.database}' AND backend_type = 'autovacuum worker'`;
  // It is due at once there, and takes its time.
  const settings = [
    'autovacuum_vacuum_insert_threshold = 0',
    'autovacuum_vacuum_insert_scale_factor = 0',
    'autovacuum_vacuum_cost_delay = 100',
    'autovacuum_vacuum_cost_limit = 1',
  ];
  await onServer(
    server,
    (client) =>
      client.query(`CREATE TABLE data.worn (n integer) WITH (${settings.join()});
        INSERT INTO data.worn SELECT generate_series(1, 1000000)`),
    placement.database,
  );
  await onServer(server, async (client) => {
    await client.query(`ALTER SYSTEM SET autovacuum_naptime = '1s'`);
    try {
      await client.query('SELECT pg_reload_conf()');
      await until(async () => (await client.query(isVacuumed)).rowCount !== 0, 90_000);
      await tenancy.drop(placement);
    } finally {
      await client.query('ALTER SYSTEM RESET autovacuum_naptime');
      await client.query('SELECT pg_reload_conf()');
    }
  });
  expect(await ended).toBe('57P01');
});

it('sees and ends a backend of a project, with only CREATEDB and CREATEROLE', async () => {
  await serviceRole('CREATEDB CREATEROLE');
  const placement = await project();
  const { backend, ended } = await busyWriter(placement);
  await tenancy.serverOf().backendControl.terminate(backend);
  expect(await ended).toBe('57P01');
});

it('grants a role of the operator the rights of a reader, as the manual says, and ends its sessions with the project', async () => {
  await serviceRole('CREATEDB CREATEROLE');
  const [shop, other] = [await project(), await project()];
  const [recipe = ''] = blocks(read('docs/operations.md'))
    .filter(({ language }) => language === 'sql')
    .map(({ text }) => text);
  const bi = `${role}_bi`;
  const reading = (database: string) => new pg.Client({ ...address, database, user: bi, password: 'CHANGE ME' });
  const inControl = new pg.Client(address);
  await inControl.connect();
  const notices: string[] = [];
  inControl.on('notice', ({ message }) => void notices.push(message ?? ''));
  await inControl.query(`CREATE SCHEMA cdp; CREATE TABLE cdp.projects AS
    SELECT 'shop' AS name, '${shop.database}' AS database_name, '${shop.reader}' AS reader_role`);
  await inControl.query(recipe.replaceAll('shop_bi', bi));
  await inControl.end();
  expect(notices).toEqual([`Connect to the database ${shop.database}`]);
  try {
    const asWriter = new pg.Client({
      ...address,
      database: shop.database,
      user: shop.writer,
      password: credentials.password(shop.writer),
    });
    await asWriter.connect();
    // After the role was made.
    await asWriter.query('CREATE TABLE data.sales AS SELECT 7 AS n');
    await asWriter.end();
    const client = reading(shop.database);
    const ended = new Promise((resolve) => client.on('error', ({ message }) => resolve(message)));
    await client.connect();
    expect((await client.query('SELECT n FROM sales')).rows).toEqual([{ n: 7 }]);
    await client.query('SET default_transaction_read_only = off');
    for (const statement of [
      'DELETE FROM sales',
      'CREATE TABLE data.mine (n int)',
      'CREATE TEMP TABLE mine (n int)',
      `SET ROLE ${shop.writer}`,
    ])
      await expect(client.query(statement), statement).rejects.toThrow(/permission denied/);
    await expect(reading(other.database).connect()).rejects.toThrow(/permission denied/);
    await tenancy.drop(shop);
    expect(await ended).toContain('terminating connection');
  } finally {
    await onServer(server, (client) => clearAway(client, `DROP ROLE IF EXISTS ${bi}`));
  }
});

it('gives no project schemas of its own, with only CREATEDB and CREATEROLE, even on request', async () => {
  await serviceRole('CREATEDB CREATEROLE');
  const placement = await tenancy.newPlacement();
  placements.push(placement);
  expect(placement.ownSchemas).toBe(false);
  await tenancy.create({ ...placement, ownSchemas: true });
  const [row] = await onServer(
    server,
    async (client) =>
      (
        await client.query<{ may: boolean }>(
          `SELECT has_database_privilege('${placement.writer}', current_database(), 'CREATE') AS may`,
        )
      ).rows,
    placement.database,
  );
  expect(row).toEqual({ may: false });
});

it('measures the size of a project, with only CREATEDB and CREATEROLE, and none of a deleted one', async () => {
  await serviceRole('CREATEDB CREATEROLE');
  const placement = await project();
  expect(await tenancy.sizeOf({ placement })).toBeGreaterThan(1024 * 1024);
  await tenancy.drop(placement);
  expect(await tenancy.sizeOf({ placement })).toBeNull();
});

it.each(['CREATEDB', 'CREATEROLE', ''])('reports at the first start that "%s" is not enough', async (attributes) => {
  await serviceRole(attributes);
  await expect(tenancy.prepare()).rejects.toThrow(/ALTER ROLE … CREATEDB CREATEROLE/);
});
