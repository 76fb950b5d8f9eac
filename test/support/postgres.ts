/** The Postgres servers of the test run (started by `global-setup.ts`), and databases on them for a test's own use. */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { inject } from 'vitest';
import type { Connection } from '../../src/postgres/embedded/server.js';

export interface TestServer {
  readonly major: number;
  /** The superuser, as the service itself would come in. */
  readonly connection: Connection;
}

export interface TestDatabase {
  readonly name: string;
  /** The superuser's settings for this database. */
  readonly connection: Omit<Connection, 'database'> & { readonly database: string };
  /** Drops it, whoever is still connected. */
  drop(): Promise<void>;
}

/** Every server of this run: 18 first, then the older majors that the machine has. Use it with `describe.each`. */
export function testServers(): TestServer[] {
  return inject('postgresServers');
}

/** The embedded 18, for tests that do not depend on the version. */
export function embeddedServer(): TestServer {
  const [server] = testServers();
  if (server === undefined) throw new Error('global-setup.ts has started no server');
  return server;
}

/** Makes an empty database with a name of its own. */
export async function createDatabase(server = embeddedServer()): Promise<TestDatabase> {
  const name = `test_${randomBytes(6).toString('hex')}`;
  await query(server.connection, `CREATE DATABASE ${name}`);
  return {
    name,
    connection: { ...server.connection, database: name },
    drop: () => query(server.connection, `DROP DATABASE ${name} WITH (FORCE)`),
  };
}

/** Runs `work` with a database that exists just for it. */
export async function withDatabase<T>(
  work: (database: TestDatabase) => Promise<T>,
  server = embeddedServer(),
): Promise<T> {
  const database = await createDatabase(server);
  try {
    return await work(database);
  } finally {
    await database.drop();
  }
}

async function query(connection: pg.ClientConfig, text: string): Promise<void> {
  const client = new pg.Client(connection);
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}
