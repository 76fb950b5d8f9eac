/**
 * Preparing a database for a project that is not trusted: what Postgres shows everybody of the whole server is closed
 * or replaced by the project's own part, what crashes the server is refused, and the operator's extensions are installed. Done in the template, which
 * every project is cloned from, and again in a project's database where its row in `_cdp.preparation` does not hold.
 */
import { readFileSync } from 'node:fs';
import type pg from 'pg';
import { type Fragment, ident, sql, statement } from '../sql.js';

/** To be raised with every change of the files below: databases are then hardened anew at their next use. */
const VERSION = 3;

const read = (file: string) => readFileSync(new URL(file, import.meta.url), 'utf8');
const EXPOSED = read('./exposed.sql');
const REPLACED = ['./moved.sql', './views.sql', './own-part.sql', './own-database.sql'].map(read);
const AUTOSUMMARIZE = read('./autosummarize.sql');
const OWN_DATABASE = read('./own-database.sql');

/** The number of Postgres's own pg_database, whatever it is called here. */
const PG_DATABASE = 1262;

/** What the operator wants of every project's database. */
export interface Preparation {
  /** Go on where the service's role may not harden. */
  readonly allowUnhardened: boolean;
  /** Names of extensions that projects may use; installed by the service. */
  readonly extensions: readonly string[];
}

/** The schema of the operator's extensions, behind the project's own in the search path of free SQL. */
export const EXTENSIONS_SCHEMA = 'extensions';

/** Stands in the list of what is open where autosummarize.sql has not run. */
const CRASH = 'autosummarize of BRIN indexes';

/** autosummarize.sql has run. The project's roles cannot make, drop or disable event triggers. */
const REFUSES_AUTOSUMMARIZE = sql`2 = (SELECT count(*) FROM pg_event_trigger
  WHERE evtname IN ('cdp_autosummarize', 'cdp_autosummarize_concurrently') AND evtenabled = 'A')`;

/** What a database lets its project have although it should not. */
export class Unhardened extends Error {
  constructor(readonly exposed: readonly string[]) {
    const shown = exposed.filter((object) => object !== CRASH);
    super(
      `The role of DATABASE_URL is no superuser and may not close what Postgres gives to everybody. ` +
        (shown.length === 0
          ? ''
          : `Every project's SQL can read the names of the server's databases and roles, their comments and settings, ` +
            `who is connected, and what the service has prepared in the project's own sessions, from: ${shown.join(', ')}. ` +
            `Tables, rows, queries and code of other projects stay closed. `) +
        (shown.length === exposed.length ? '' : `Every project can crash the whole server, by: ${CRASH}. `) +
        `Give the role SUPERUSER, or accept this by the setting allow-unhardened (CDP_ALLOW_UNHARDENED=true)`,
    );
  }
}

/**
 * Whether the row in `_cdp.preparation` holds, as a condition for any role that is connected to the database, with
 * `search_path` at pg_catalog. Two facts are looked at beside the row: a dump that is restored brings the row, too, and a
 * program that knew nothing of `autosummarize` has written the same number.
 */
export function isPrepared({ allowUnhardened, extensions }: Preparation): Fragment {
  return sql`EXISTS (SELECT FROM _cdp.preparation
    WHERE server = current_setting('server_version_num')::integer / 10000
      AND database = current_database()
      AND extensions @> ${`{${extensions.join(',')}}`}::text[]
      AND (${allowUnhardened}::boolean
        OR hardening = ${VERSION}::integer AND NOT has_table_privilege('public', ${PG_DATABASE}::oid, 'SELECT')
          AND ${REFUSES_AUTOSUMMARIZE}))`;
}

/**
 * Prepares the connected database where that is not done yet.
 * @param client of the service's own role
 * @returns what goes on being open, where the service's role may not harden and the operator accepts it
 * @throws Unhardened where he does not; Error where an extension cannot be had
 */
export async function prepare(client: pg.ClientBase, wanted: Preparation): Promise<string[]> {
  let exposed = await openThings(client);
  if (exposed.length === 0 && (await holds(client, wanted))) return [];
  if (await isSuperuser(client)) {
    await harden(client);
    exposed = await openThings(client);
  }
  if (exposed.length > 0 && !wanted.allowUnhardened) throw new Unhardened(exposed);
  await installExtensions(client, wanted.extensions);
  await client.query(
    `INSERT INTO _cdp.preparation (hardening, server, database, extensions)
     VALUES ($1, current_setting('server_version_num')::integer / 10000, current_database(), $2)
     ON CONFLICT (only_row) DO UPDATE SET (hardening, server, database, extensions) =
       (excluded.hardening, excluded.server, excluded.database, excluded.extensions)`,
    [exposed.length === 0 ? VERSION : 0, wanted.extensions],
  );
  return exposed;
}

/** A database that was just cloned is as its template is; only its name differs, and what its pg_database says of itself. */
export async function adoptPreparation(client: pg.ClientBase): Promise<void> {
  await client.query('UPDATE _cdp.preparation SET database = current_database()');
  const { rowCount } = await client.query("SELECT WHERE to_regclass('pg_catalog._cdp_pg_database') IS NOT NULL");
  if (rowCount === 1) await client.query(OWN_DATABASE);
}

async function holds(client: pg.ClientBase, wanted: Preparation): Promise<boolean> {
  const { text, params } = statement(sql`SELECT ${isPrepared(wanted)} AS holds`);
  const { rows } = await client.query<{ holds: boolean }>(text, [...params]);
  return rows[0]?.holds === true;
}

async function exposedObjects(client: pg.ClientBase): Promise<string[]> {
  const { rows } = await client.query<{ object: string }>(EXPOSED);
  return rows.map(({ object }) => object);
}

/** An index that has the parameter may have come from a transaction that was at work when the event triggers were made. */
async function openThings(client: pg.ClientBase): Promise<string[]> {
  const { text, params } = statement(sql`SELECT ${REFUSES_AUTOSUMMARIZE} AND NOT EXISTS (
    SELECT FROM pg_class c, unnest(c.reloptions) AS o (option)
    WHERE c.relkind IN ('i', 'I')
      AND CASE WHEN o.option LIKE 'autosummarize=%' THEN split_part(o.option, '=', 2)::boolean END) AS held`);
  const { rows } = await client.query<{ held: boolean }>(text, [...params]);
  const exposed = await exposedObjects(client);
  return rows[0]?.held === true ? exposed : [...exposed, CRASH];
}

async function isSuperuser(client: pg.ClientBase): Promise<boolean> {
  const { rows } = await client.query<{ superuser: boolean }>(
    'SELECT rolsuper AS superuser FROM pg_roles WHERE rolname = current_user',
  );
  return rows[0]?.superuser === true;
}

async function harden(client: pg.ClientBase): Promise<void> {
  await client.query('BEGIN');
  try {
    for (const object of await exposedObjects(client)) await client.query(`REVOKE ALL ON ${object} FROM PUBLIC`);
    await client.query('SET LOCAL allow_system_table_mods = on');
    await client.query('SET LOCAL search_path = pg_catalog');
    for (const file of REPLACED) await client.query(file);
    await client.query(AUTOSUMMARIZE);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  }
}

async function installExtensions(client: pg.ClientBase, extensions: readonly string[]): Promise<void> {
  if (extensions.length === 0) return;
  const schema = ident(EXTENSIONS_SCHEMA).text;
  await client.query(`CREATE SCHEMA IF NOT EXISTS ${schema}`);
  await client.query(`GRANT USAGE ON SCHEMA ${schema} TO PUBLIC`);
  for (const extension of extensions) {
    const { rowCount } = await client.query('SELECT FROM pg_available_extensions WHERE name = $1', [extension]);
    if (rowCount === 0) throw new Error(`This Postgres has no extension "${extension}" (setting extensions)`);
    await client.query(`CREATE EXTENSION IF NOT EXISTS ${ident(extension).text} WITH SCHEMA ${schema} CASCADE`);
  }
}
