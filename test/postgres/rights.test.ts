/** What the service's own role needs on a server of the operator's: CREATEDB and CREATEROLE, and it says so. */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Credentials } from '../../src/tenancy/credentials.js';
import { DatabaseSizes } from '../../src/tenancy/database-size.js';
import { readMigrations } from '../../src/tenancy/migrate.js';
import type { Placement } from '../../src/tenancy/placement.js';
import { newPlacement, Provisioning } from '../../src/tenancy/provisioning.js';
import type { ServerAddress } from '../../src/postgres/server.js';
import { type Backend, Watchdog } from '../../src/tenancy/connections/watchdog.js';
import { clearAway, dropDatabase, embeddedServer } from '../support/postgres.js';
import { onServer } from '../support/service.js';
import { until } from '../support/stream.js';

const server = embeddedServer();
const credentials = new Credentials('a secret for tests, of more than 32 characters');

let role: string;
let control: string;
let template: string;
let address: ServerAddress;
let provisioning: Provisioning;
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
  provisioning = new Provisioning(address, credentials, template, readMigrations('project'), {
    allowUnhardened: true,
    extensions: [],
  });
  placements = [];
});

/** The service's role; it may log in where it is a member of a role named like the database. */
async function serviceRole(attributes: string): Promise<void> {
  await onServer(server, async (client) => {
    await client.query(`CREATE ROLE ${role} LOGIN ${attributes} PASSWORD 'for-tests'`);
    for (const database of [control, template]) await client.query(`CREATE ROLE ${database} ROLE ${role}`);
    await client.query(`CREATE DATABASE ${control} OWNER ${role}`);
  });
}

afterEach(() =>
  onServer(server, async (client) => {
    const projects = placements.map(({ database }) => database);
    const roles = placements.flatMap(({ database, writer, reader }) => [writer, reader, database]);
    await clearAway(
      client,
      ...[...projects, template, control].map(dropDatabase),
      `DROP ROLE IF EXISTS ${[...roles, template, control, role].join(', ')}`,
    );
  }),
);

async function project(): Promise<Placement> {
  const placement = newPlacement();
  placements.push(placement);
  await provisioning.ensureTemplate(0);
  await provisioning.create(placement);
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
  return { backend: { processId: pid, secretKey: 0, role: writer, seenAt: now }, ended };
}

it('drops a project that is at work, with CREATEDB and CREATEROLE alone', async () => {
  await serviceRole('CREATEDB CREATEROLE');
  const placement = await project();
  const { ended } = await busyWriter(placement);
  await provisioning.drop(placement);
  expect(await ended).toBe('57P01');
  const left = await onServer(server, (client) =>
    client.query('SELECT FROM pg_roles WHERE rolname = ANY ($1)', [
      [placement.database, placement.writer, placement.reader],
    ]),
  );
  expect(left.rowCount).toBe(0);
});

it('drops a project where autovacuum is at work too, with CREATEDB and CREATEROLE alone', async () => {
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
      await provisioning.drop(placement);
    } finally {
      await client.query('ALTER SYSTEM RESET autovacuum_naptime');
      await client.query('SELECT pg_reload_conf()');
    }
  });
  expect(await ended).toBe('57P01');
});

it('sees and ends a backend of a project, with CREATEDB and CREATEROLE alone', async () => {
  await serviceRole('CREATEDB CREATEROLE');
  const placement = await project();
  const { backend, ended } = await busyWriter(placement);
  const pool = new pg.Pool({ ...address, max: 1 });
  try {
    await new Watchdog(address, pool).terminate(backend);
  } finally {
    await pool.end();
  }
  expect(await ended).toBe('57P01');
});

it('sees the size of a project, with CREATEDB and CREATEROLE alone, and of none that is gone', async () => {
  await serviceRole('CREATEDB CREATEROLE');
  const placement = await project();
  const pool = new pg.Pool({ ...address, max: 1 });
  try {
    const sizes = new DatabaseSizes(pool);
    expect(await sizes.of(placement.database)).toBeGreaterThan(1024 * 1024);
    await provisioning.drop(placement);
    expect(await sizes.of(placement.database)).toBeNull();
  } finally {
    await pool.end();
  }
});

it.each(['CREATEDB', 'CREATEROLE', ''])('says at the first start that "%s" is not enough', async (attributes) => {
  await serviceRole(attributes);
  await expect(provisioning.ensureTemplate(0)).rejects.toThrow(/ALTER ROLE … CREATEDB CREATEROLE/);
});

describe('a role that may not harden', () => {
  it('is refused, and told what stays visible and how to go on', async () => {
    await serviceRole('CREATEDB CREATEROLE');
    const strict = new Provisioning(address, credentials, template, readMigrations('project'), {
      allowUnhardened: false,
      extensions: [],
    });
    const refused = strict.ensureTemplate(0);
    await expect(refused).rejects.toThrow(
      /names of the server's databases and roles.* pg_database, .*CDP_ALLOW_UNHARDENED/,
    );
    await expect(refused).rejects.toMatchObject({
      exposed: expect.arrayContaining(['FUNCTION pg_lock_status()']) as string[],
    });
  });

  it('goes on where the operator accepts it, and is told the same again', async () => {
    await serviceRole('CREATEDB CREATEROLE');
    expect(await provisioning.ensureTemplate(0)).toContain('pg_database');
    expect(await provisioning.ensureTemplate(provisioning.schemaVersion)).toContain('pg_database');
  });

  it('goes on without a word where a superuser has hardened for it', async () => {
    await serviceRole('CREATEDB CREATEROLE SUPERUSER');
    expect(await provisioning.ensureTemplate(0)).toEqual([]);
    await onServer(server, (client) => client.query(`ALTER ROLE ${role} NOSUPERUSER`));
    expect(await provisioning.ensureTemplate(provisioning.schemaVersion)).toEqual([]);
  });

  it('is refused where the superuser had an older program, and told that projects can crash the server', async () => {
    await serviceRole('CREATEDB CREATEROLE SUPERUSER');
    await provisioning.ensureTemplate(0);
    await onServer(server, (client) => client.query('DROP EVENT TRIGGER cdp_autosummarize'), template);
    await onServer(server, (client) => client.query(`ALTER ROLE ${role} NOSUPERUSER`));
    const strict = new Provisioning(address, credentials, template, readMigrations('project'), {
      allowUnhardened: false,
      extensions: [],
    });
    await expect(strict.ensureTemplate(strict.schemaVersion)).rejects.toThrow(
      'Every project can crash the whole server, by: autosummarize of BRIN indexes. Give the role SUPERUSER',
    );
  });
});
