/** The operator's extensions in a project's database, in a separate schema. */
import { type Fragment, ident, type Session, sql } from '../pg/index.js';

/** Follows the project's own schema in the search path. */
export const EXTENSIONS_SCHEMA = 'extensions';

/**
 * Extensions that open files or sockets, or run languages with the rights of the operating system account, which for an
 * embedded server may be the service's.
 */
const REACHING_OUT = new Set([
  'adminpack',
  'dblink',
  'file_fdw',
  'plperlu',
  'plpython3u',
  'pltclu',
  'postgres_fdw',
  'sslinfo',
]);

/** @throws Error naming the extensions that an embedded server may not have */
export function refuseReachingOut(extensions: readonly string[]): void {
  const refused = extensions.filter((name) => REACHING_OUT.has(name));
  if (refused.length === 0) return;
  throw new Error(
    `The setting extensions includes ${refused.join(', ')}, which would let a project open files or connections on ` +
      'this machine. They are available only with your own Postgres (DATABASE_URL).',
  );
}

/** @throws Error if this Postgres lacks one */
export async function installExtensions(session: Session, extensions: readonly string[]): Promise<void> {
  if (extensions.length === 0) return;
  const schema = ident(EXTENSIONS_SCHEMA);
  await session.run([sql`CREATE SCHEMA IF NOT EXISTS ${schema}`, sql`GRANT USAGE ON SCHEMA ${schema} TO PUBLIC`]);
  for (const name of extensions) {
    const rows = await session.query(sql`SELECT 1 FROM pg_available_extensions WHERE name = ${name}`);
    if (rows.length === 0) throw new Error(`This Postgres has no extension "${name}" (setting extensions)`);
    await session.query(sql`CREATE EXTENSION IF NOT EXISTS ${ident(name)} WITH SCHEMA ${schema} CASCADE`);
  }
}

/** Extensions that belong to the server, and that a project does not need elsewhere. */
const OF_SERVER = ['plpgsql', 'citus', 'citus_columnar'];

/** Names of the extensions in the database of the session. */
export async function installedExtensions(session: Session): Promise<string[]> {
  const rows = await session.query(
    sql`SELECT extname FROM pg_extension WHERE extname <> ALL (${OF_SERVER}) ORDER BY 1`,
  );
  return rows.map(([name]) => name ?? '');
}

/** A condition that any role can check: all of these are installed in the current database. */
export const areInstalled = (extensions: readonly string[]): Fragment => sql`NOT EXISTS (
  SELECT FROM pg_catalog.unnest(${extensions}::pg_catalog.text[]) AS wanted (name)
  WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_extension e WHERE e.extname = wanted.name::pg_catalog.name))`;
