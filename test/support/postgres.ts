/** The Postgres servers of the test run (started by `global-setup.ts`), and databases on them for a single test. */
import { randomBytes } from 'node:crypto';
import type pg from 'pg';
import { inject, vi } from 'vitest';
import type { Connection } from './throwaway-postgres.js';
import { withClient } from './with-client.js';

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
  await connected(server.connection, (client) => client.query(`CREATE DATABASE ${name}`));
  return {
    name,
    connection: { ...server.connection, database: name },
    drop: () => connected(server.connection, (client) => clearAway(client, dropDatabase(name))),
  };
}

/** For {@link clearAway}: whoever is still connected. */
export const dropDatabase = (name: string): string => `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`;

/**
 * Runs statements that clear away what a test made. One that others on the same server got in the way of, as by a
 * deadlock over roles, is tried again: what a test showed stands already.
 */
export async function clearAway(client: pg.Client, ...statements: string[]): Promise<void> {
  for (const statement of statements) {
    await vi.waitFor(() => client.query(statement), { timeout: 60_000, interval: 500 });
  }
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

/** Runs `work` on a connection of its own. */
export const connected = withClient;
