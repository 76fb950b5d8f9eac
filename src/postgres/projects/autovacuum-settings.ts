/**
 * Bounds of autovacuum in a project's database, as settings of that. Its sessions ask for nothing of their own, and run functions
 * of the project's indexes.
 */
import type pg from 'pg';
import { ADVISORY_LOCKS } from '../advisory-locks.js';
import { quotedName } from '../sql.js';
import { INVALID_CATALOG_NAME } from '../sqlstate.js';

/**
 * Read-only, what such a function writes past the project's quota is refused, while vacuum itself goes on; sessions of the
 * service say that they write. And where a function that fails keeps the database from being frozen, vacuum does
 * without indexes soon, before all others have to wait for it (manual 24.1.5.1).
 */
const FOR_AUTOVACUUM = {
  default_transaction_read_only: 'on',
  vacuum_failsafe_age: '0',
  vacuum_multixact_failsafe_age: '0',
};

/** @param client of a role that owns the database. @throws pg.DatabaseError, 3D000 where there is none of that name */
export async function bindAutovacuum(client: pg.Client, database: string): Promise<void> {
  for (const [name, value] of Object.entries(FOR_AUTOVACUUM)) {
    await client.query(`ALTER DATABASE ${quotedName(database)} SET ${name} = ${value}`);
  }
}

/**
 * Gives autovacuum its bounds in all projects' databases where it has lost them, or never had them; one that cannot be altered
 * keeps none of the others from it.
 * @param client of the service's own role on the control database; keeps a lock until it ends
 * @throws pg.DatabaseError
 */
export async function bindAutovacuumEverywhere(client: pg.Client): Promise<void> {
  // One instance at a time, as with the mending: there, too, two would get in each other's way.
  await client.query('SELECT pg_advisory_lock($1)', [ADVISORY_LOCKS.mending]);
  const wanted = Object.entries(FOR_AUTOVACUUM).map(([name, value]) => `${name}=${value}`);
  const { rows } = await client.query<{ database: string }>(UNBOUND, [wanted]);
  const failures: unknown[] = [];
  for (const { database } of rows) {
    await bindAutovacuum(client, database).catch((error: unknown) => failures.push(error));
  }
  const failure = failures.find((error) => !isGone(error));
  if (failure !== undefined) throw failure as Error;
}

/** Projects' databases without them: made by an older program, or reset by hand. */
const UNBOUND = `SELECT p.database_name AS database FROM cdp.projects p JOIN pg_database d ON d.datname = p.database_name
  WHERE p.status IN ('active', 'inactive') AND NOT EXISTS (SELECT FROM pg_db_role_setting s
    WHERE s.setdatabase = d.oid AND s.setrole = 0 AND s.setconfig @> $1::text[])`;

/** The project may have been deleted meanwhile. */
const isGone = (error: unknown): boolean => (error as pg.DatabaseError).code === INVALID_CATALOG_NAME;
