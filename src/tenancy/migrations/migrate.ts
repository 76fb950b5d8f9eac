/**
 * Applies migrations: numbered SQL files of a folder, in order, each in a transaction with its row in the schema's
 * `migrations` table. There are no down migrations; a program older than the schema refuses to start.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { ident, inTransaction, type Session, sql } from '../../pg/index.js';
import { withTableLock } from '../locks.js';

export interface Migration {
  version: number;
  name: string;
  sql: string;
}

/** The migrations of one kind, in order. They are read once at the start, so that a broken package fails then. */
export function readMigrations(kind: 'control' | 'project'): Migration[] {
  const folder = new URL(`./${kind}/`, import.meta.url);
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

/** How long to wait for another instance that migrates the same database. */
const WAIT = { name: 'The lock for migrations', ms: 60_000 };

/**
 * Migrates the database of the session. Safe to run from many instances at once, except for the first migration.
 * @param schema where the `migrations` table lives: `cdp` in the control database, `_cdp` in a project's
 * @throws Error if the database has a migration that this program does not know; LockHeld
 */
export async function migrate(
  session: Session,
  schema: 'cdp' | '_cdp',
  migrations: readonly Migration[],
): Promise<void> {
  const applied = await appliedVersion(session, schema);
  if (applied > newestVersion(migrations)) {
    throw new Error(
      `The database is at version ${applied} of the ${schema} schema, but this program supports only ${newestVersion(migrations)}: start a newer program`,
    );
  }
  const table = sql`${ident(schema, 'migrations')}`;
  for (const { version, name, sql: script } of migrations.filter((migration) => migration.version > applied)) {
    const apply = async (): Promise<void> => {
      // Another instance may have been faster.
      if ((await appliedVersion(session, schema)) >= version) return;
      await session.script(script);
      await session.run([
        sql`CREATE TABLE IF NOT EXISTS ${table}
          (version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`,
        sql`INSERT INTO ${table} (version, name) VALUES (${version}, ${name})`,
      ]);
    };
    // Projects have no privileges for this table, so they cannot hold up a migration.
    if (await hasMigrations(session, schema)) await withTableLock(session, table, WAIT, apply);
    else await inTransaction(session, apply);
  }
}

/** 0 if there is no such schema yet. */
export async function appliedVersion(session: Session, schema: 'cdp' | '_cdp'): Promise<number> {
  if (!(await hasMigrations(session, schema))) return 0;
  const [version] = await session.row(sql`SELECT coalesce(max(version), 0) FROM ${ident(schema, 'migrations')}`);
  return Number(version);
}

async function hasMigrations(session: Session, schema: 'cdp' | '_cdp'): Promise<boolean> {
  const [table] = await session.row(sql`SELECT to_regclass(${`${schema}.migrations`})`);
  return table != null;
}
