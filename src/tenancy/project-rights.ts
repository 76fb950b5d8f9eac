/**
 * The rights that a project's roles have in its database: granting them, and telling whether the project has changed them.
 */
import { type Fragment, ident, type Session, sql, trusted } from '../pg/index.js';
import { areInstalled } from './extensions.js';
import type { Placement } from './placement.js';

/** Makes the roles of a project that are missing. @returns those. @param options of a login role */
export async function ensureRoles(
  session: Session,
  { writer, reader }: Placement,
  options: (role: string) => Fragment,
): Promise<string[]> {
  const rows = await session.query(sql`SELECT rolname FROM pg_roles WHERE rolname = ANY (${[writer, reader]})`);
  const missing = [writer, reader].filter((role) => !rows.some(([found]) => found === role));
  for (const role of missing) await session.query(sql`CREATE ROLE ${ident(role)} LOGIN ${options(role)}`);
  // A member of a role may see and end its sessions, without being a superuser.
  await session.query(sql`GRANT ${ident(writer)}, ${ident(reader)} TO CURRENT_USER`);
  return missing;
}

/** Undoes what a project set for its roles: passwords, and settings for all logins or for those to its database. */
export async function resetRoles(
  session: Session,
  { database, writer, reader }: Placement,
  options: (role: string) => Fragment,
): Promise<void> {
  for (const role of [writer, reader]) {
    await session.query(sql`ALTER ROLE ${ident(role)} LOGIN ${options(role)}`);
    await session.query(sql`ALTER ROLE ${ident(role)} RESET ALL`);
    await session.query(sql`ALTER ROLE ${ident(role)} IN DATABASE ${ident(database)} RESET ALL`);
  }
}

/** The rights of the project's roles. Granting them again repairs what `DROP OWNED` and the like took away. */
export async function grant(session: Session, placement: Placement): Promise<void> {
  const [database, schema] = [ident(placement.database), ident(placement.schema)];
  const [writer, reader] = [ident(placement.writer), ident(placement.reader)];
  for (const statement of [
    sql`GRANT CONNECT ON DATABASE ${database} TO ${writer}, ${reader}`,
    sql`GRANT TEMPORARY ON DATABASE ${database} TO ${writer}`,
    sql`GRANT USAGE, CREATE ON SCHEMA ${schema} TO ${writer}`,
    sql`GRANT USAGE ON SCHEMA ${schema} TO ${reader}`,
    sql`GRANT SELECT, INSERT, UPDATE, DELETE ON _cdp.idempotency_keys TO ${writer}`,
  ]) {
    await session.query(statement);
  }
}

/** Lets the reader see whatever the writer makes, at once. @param writing a session of the writer */
export async function grantDefaults(writing: Session, { schema, reader }: Placement): Promise<void> {
  for (const kind of ['TABLES', 'SEQUENCES'].map(trusted)) {
    const granted = sql`GRANT SELECT ON ${kind} TO ${ident(reader)}`;
    await writing.query(sql`ALTER DEFAULT PRIVILEGES IN SCHEMA ${ident(schema)} ${granted}`);
    await writing.query(sql`GRANT SELECT ON ALL ${kind} IN SCHEMA ${ident(schema)} TO ${ident(reader)}`);
  }
}

/** An owner can take rights on its own things away from itself. @param writing a session of the writer */
export async function grantOwn(writing: Session, { schema, writer }: Placement): Promise<void> {
  for (const kind of ['TABLES', 'SEQUENCES', 'ROUTINES'].map(trusted)) {
    await writing.query(sql`GRANT ALL ON ALL ${kind} IN SCHEMA ${ident(schema)} TO ${ident(writer)}`);
  }
}

/** @returns what was wrong with it, in words */
export async function ensureSchema(session: Session, schema: string): Promise<string[]> {
  const [found] = await session.query(
    sql`SELECT nspowner::regrole, nspowner = current_user::regrole FROM pg_namespace WHERE nspname = ${schema}`,
  );
  if (found === undefined) {
    await session.query(sql`CREATE SCHEMA ${ident(schema)}`);
    return [`the schema ${schema} was missing`];
  }
  const [owner, isOwn] = found;
  if (isOwn === 't') return [];
  await session.query(sql`ALTER SCHEMA ${ident(schema)} OWNER TO CURRENT_USER`);
  return [`the schema ${schema} belonged to ${owner}`];
}

/**
 * Everything in the project's schema is the writer's; a dump that was restored without owners leaves it to the service.
 * Not the functions behind a range type: Postgres gives them to the superuser of initdb, which the service may be.
 * @returns what was wrong, in words
 */
export async function giveToWriter(session: Session, { schema, writer }: Placement): Promise<string[]> {
  const objects = await session.query(sql`
    SELECT format('TABLE %s', oid::regclass) FROM pg_class c
    WHERE relnamespace = ${schema}::regnamespace AND relowner = current_user::regrole
      AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
      AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = c.oid
        AND refclassid = 'pg_class'::regclass AND deptype IN ('a', 'i'))
    UNION ALL SELECT format('ROUTINE %s', oid::regprocedure) FROM pg_proc p
    WHERE pronamespace = ${schema}::regnamespace AND proowner = current_user::regrole
      AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'i')
    UNION ALL SELECT format('TYPE %s', oid::regtype) FROM pg_type
    WHERE typnamespace = ${schema}::regnamespace AND typowner = current_user::regrole AND typtype IN ('e', 'd', 'r')`);
  for (const [object] of objects) {
    await session.query(sql`ALTER ${trusted(object ?? '')} OWNER TO ${ident(writer)}`);
  }
  return objects.length === 0 ? [] : [`${objects.length} tables and other objects in its schema had another owner`];
}

/** What a repair is about to put right, in words. Passwords cannot be looked at; they are always set. */
export async function findDrift(
  session: Session,
  { database, schema, writer, reader }: Placement,
  extensions: readonly string[],
): Promise<string[]> {
  const rows = await session.query(sql`
    SELECT what FROM (VALUES
      ('extensions of the setting were not installed', NOT (${areInstalled(extensions)})),
      ('its roles have their own settings', EXISTS (SELECT FROM pg_db_role_setting
        WHERE setrole IN (${writer}::regrole, ${reader}::regrole))),
      ('its roles lack privileges', NOT (has_database_privilege(${writer}, ${database}, 'CONNECT')
        AND has_database_privilege(${writer}, ${database}, 'TEMPORARY')
        AND has_database_privilege(${reader}, ${database}, 'CONNECT')
        AND has_schema_privilege(${writer}, ${schema}, 'CREATE')
        AND has_schema_privilege(${writer}, ${schema}, 'USAGE')
        AND has_schema_privilege(${reader}, ${schema}, 'USAGE'))),
      ('the reader does not see what the writer makes', 2 <> (SELECT count(*)
        FROM pg_default_acl d, aclexplode(d.defaclacl) a
        WHERE d.defaclobjtype IN ('r', 'S') AND d.defaclnamespace = ${schema}::regnamespace
          AND d.defaclrole = ${writer}::regrole AND a.grantee = ${reader}::regrole AND a.privilege_type = 'SELECT'))
    ) AS things (what, drifted) WHERE drifted`);
  return rows.map(([what]) => what ?? '');
}

/** Ends what is idle in a project's database, sessions of roles that were dropped under them included. */
export async function endIdleSessions(session: Session, { database }: Placement): Promise<void> {
  await session.query(
    sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ${database} AND state = 'idle'`,
  );
}
