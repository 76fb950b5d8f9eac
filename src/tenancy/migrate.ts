/**
 * Forward migrations: numbered SQL files of a folder, applied in order, each in a transaction with its row in the
 * schema's own `migrations` table. There is no way back down; a program older than the schema refuses to start.
 */
import { readdirSync, readFileSync } from 'node:fs';
import type pg from 'pg';
import { ADVISORY_LOCKS } from './advisory-locks.js';

export interface Migration {
  version: number;
  name: string;
  sql: string;
}

/** The migrations of one kind, ordered. Read once at start: a broken package fails then and not later. */
export function readMigrations(kind: 'control' | 'project'): Migration[] {
  const folder = new URL(`./migrations/${kind}/`, import.meta.url);
  return readdirSync(folder)
    .filter((file) => file.endsWith('.sql'))
    .sort()
    .map((file) => ({
      version: Number.parseInt(file, 10),
      name: file.replace(/\.sql$/, ''),
      sql: readFileSync(new URL(file, folder), 'utf8'),
    }));
}

export const newestVersion = (migrations: readonly Migration[]): number => migrations.at(-1)?.version ?? 0;

/**
 * Brings the database that `client` is connected to up to date. Safe to run from many instances at once.
 * @param schema where the `migrations` table lives: `cdp` in the control database, `_cdp` in a project's
 * @throws Error when the database has a migration that this program does not know
 */
export async function migrate(
  client: pg.ClientBase,
  schema: 'cdp' | '_cdp',
  migrations: readonly Migration[],
): Promise<void> {
  await client.query('SELECT pg_advisory_lock($1)', [ADVISORY_LOCKS.migration]);
  try {
    const applied = await appliedVersion(client, schema);
    if (applied > newestVersion(migrations)) {
      throw new Error(
        `The database is at version ${applied} of the ${schema} schema, this program knows only ${newestVersion(migrations)}: start a newer program`,
      );
    }
    for (const migration of migrations.filter(({ version }) => version > applied)) {
      await client.query('BEGIN');
      try {
        await client.query(migration.sql);
        await client.query(
          `CREATE TABLE IF NOT EXISTS ${schema}.migrations
             (version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`,
        );
        await client.query(`INSERT INTO ${schema}.migrations (version, name) VALUES ($1, $2)`, [
          migration.version,
          migration.name,
        ]);
        await client.query('COMMIT');
      } catch (error) {
        await client.query('ROLLBACK');
        throw error;
      }
    }
  } finally {
    await client.query('SELECT pg_advisory_unlock($1)', [ADVISORY_LOCKS.migration]);
  }
}

async function appliedVersion(client: pg.ClientBase, schema: string): Promise<number> {
  const table = await client.query<{ found: boolean }>('SELECT to_regclass($1) IS NOT NULL AS found', [
    `${schema}.migrations`,
  ]);
  if (!table.rows[0]?.found) return 0;
  const result = await client.query<{ version: number }>(
    `SELECT coalesce(max(version), 0) AS version FROM ${schema}.migrations`,
  );
  return result.rows[0]?.version ?? 0;
}
