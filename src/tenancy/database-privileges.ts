/**
 * Who may connect to the databases of a shared server that are not projects'. Postgres lets every role connect to a new
 * database; a project's role could log in there with a password that it has set itself.
 */
import { retryOnContention } from './locks.js';
import { type Fragment, ident, type Session, sql } from '../pg/index.js';

/** Databases of every server, without the one that accepts no connections. */
export const OF_INITDB: readonly string[] = ['postgres', 'template1'];

/** A condition on a row of pg_database: any role may connect. The default privileges are those without an ACL. */
const IS_OPEN: Fragment = sql`datallowconn AND EXISTS (
  SELECT FROM aclexplode(coalesce(datacl, acldefault('d', datdba))) WHERE grantee = 0 AND privilege_type = 'CONNECT')`;

/**
 * Revokes CONNECT on the session's database from PUBLIC, if the service's role may, and keeps its own. A role that is
 * neither the owner nor a superuser changes nothing.
 */
export async function closeToPublic(session: Session): Promise<void> {
  await retryOnContention(async () => {
    const [name] = await session.query(
      sql`SELECT datname FROM pg_database WHERE datname = current_database() AND ${IS_OPEN}
          AND pg_has_role(datdba, 'USAGE')`,
    );
    if (name === undefined) return;
    const database = ident(name[0] ?? '');
    // A superuser may lose that attribute later.
    await session.query(sql`GRANT CONNECT ON DATABASE ${database} TO CURRENT_USER`);
    await session.query(sql`REVOKE CONNECT ON DATABASE ${database} FROM PUBLIC`);
  });
}

/** The database of the session and those of initdb, as far as any role may connect to them, by name. */
export async function publicDatabases(session: Session): Promise<string[]> {
  const rows = await session.query(
    sql`SELECT datname FROM pg_database
        WHERE (datname = current_database() OR datname = ANY (${OF_INITDB})) AND ${IS_OPEN} ORDER BY 1`,
  );
  return rows.map(([name]) => name ?? '');
}
