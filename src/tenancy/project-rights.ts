/**
 * The rights that a project's roles have in its database: giving them, and telling whether the project has spoilt them.
 */
import type pg from 'pg';
import { areInstalled } from './extensions.js';
import type { Placement } from './placement.js';
import { quotedName, sql, statement } from '../postgres/sql.js';

/** Makes the roles of a project that are missing. @returns those. @param options of a login role */
export async function ensureRoles(
  client: pg.Client,
  { writer, reader }: Placement,
  options: (role: string) => string,
): Promise<string[]> {
  const { rows } = await client.query<{ rolname: string }>('SELECT rolname FROM pg_roles WHERE rolname = ANY ($1)', [
    [writer, reader],
  ]);
  const missing = [writer, reader].filter((role) => !rows.some(({ rolname }) => rolname === role));
  for (const role of missing) await client.query(`CREATE ROLE ${quotedName(role)} LOGIN ${options(role)}`);
  // A member of a role may see and end its sessions, without being a superuser.
  await client.query(`GRANT ${quotedName(writer)}, ${quotedName(reader)} TO CURRENT_USER`);
  return missing;
}

/** Undoes what a project set for its roles: passwords, and settings for all logins or for those to its database. */
export async function resetRoles(
  client: pg.Client,
  { database, writer, reader }: Placement,
  options: (role: string) => string,
): Promise<void> {
  for (const role of [writer, reader]) {
    await client.query(`ALTER ROLE ${quotedName(role)} LOGIN ${options(role)}`);
    await client.query(`ALTER ROLE ${quotedName(role)} RESET ALL`);
    await client.query(`ALTER ROLE ${quotedName(role)} IN DATABASE ${quotedName(database)} RESET ALL`);
  }
}

/** The rights of the project's roles. Granting them again mends what `DROP OWNED` and the like took away. */
export async function grant(client: pg.Client, { database, schema, writer, reader }: Placement): Promise<void> {
  await client.query(
    `GRANT CONNECT ON DATABASE ${quotedName(database)} TO ${quotedName(writer)}, ${quotedName(reader)}`,
  );
  await client.query(`GRANT TEMPORARY ON DATABASE ${quotedName(database)} TO ${quotedName(writer)}`);
  await client.query(`GRANT USAGE, CREATE ON SCHEMA ${quotedName(schema)} TO ${quotedName(writer)}`);
  await client.query(`GRANT USAGE ON SCHEMA ${quotedName(schema)} TO ${quotedName(reader)}`);
  await client.query(`GRANT SELECT, INSERT, UPDATE, DELETE ON _cdp.idempotency_keys TO ${quotedName(writer)}`);
}

/** Lets the reader see whatever the writer makes, at once. */
export async function grantDefaults(writing: pg.Client, { schema, reader }: Placement): Promise<void> {
  const within = `IN SCHEMA ${quotedName(schema)}`;
  for (const kind of ['TABLES', 'SEQUENCES']) {
    await writing.query(`ALTER DEFAULT PRIVILEGES ${within} GRANT SELECT ON ${kind} TO ${quotedName(reader)}`);
    await writing.query(`GRANT SELECT ON ALL ${kind} ${within} TO ${quotedName(reader)}`);
  }
}

/** An owner can take rights on its own things away from itself. */
export async function grantOwn(writing: pg.Client, { schema, writer }: Placement): Promise<void> {
  for (const kind of ['TABLES', 'SEQUENCES', 'ROUTINES']) {
    await writing.query(`GRANT ALL ON ALL ${kind} IN SCHEMA ${quotedName(schema)} TO ${quotedName(writer)}`);
  }
}

/** @returns what was wrong with it, in words */
export async function ensureSchema(client: pg.Client, schema: string): Promise<string[]> {
  const { rows } = await client.query<{ owner: string; own: boolean }>(
    'SELECT nspowner::regrole::text AS owner, nspowner = current_user::regrole AS own FROM pg_namespace WHERE nspname = $1',
    [schema],
  );
  if (rows[0]?.own) return [];
  if (rows[0] === undefined) {
    await client.query(`CREATE SCHEMA ${quotedName(schema)}`);
    return [`the schema ${schema} was missing`];
  }
  await client.query(`ALTER SCHEMA ${quotedName(schema)} OWNER TO CURRENT_USER`);
  return [`the schema ${schema} belonged to ${rows[0].owner}`];
}

/**
 * Everything in the project's schema is the writer's; a dump that was restored without owners leaves it to the service.
 * Not the functions behind a range type: Postgres gives them to the superuser of initdb, which the service may be.
 * @returns what was wrong, in words
 */
export async function giveBack(client: pg.Client, { schema, writer }: Placement): Promise<string[]> {
  const { text, params } = statement(sql`
    SELECT format('TABLE %s', oid::regclass) AS object FROM pg_class c
    WHERE relnamespace = ${schema}::regnamespace AND relowner = current_user::regrole
      AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
      AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = c.oid
        AND refclassid = 'pg_class'::regclass AND deptype IN ('a', 'i'))
    UNION ALL SELECT format('ROUTINE %s', oid::regprocedure) FROM pg_proc p
    WHERE pronamespace = ${schema}::regnamespace AND proowner = current_user::regrole
      AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'i')
    UNION ALL SELECT format('TYPE %s', oid::regtype) FROM pg_type
    WHERE typnamespace = ${schema}::regnamespace AND typowner = current_user::regrole AND typtype IN ('e', 'd', 'r')`);
  const { rows } = await client.query<{ object: string }>(text, [...params]);
  for (const { object } of rows) await client.query(`ALTER ${object} OWNER TO ${quotedName(writer)}`);
  return rows.length === 0 ? [] : [`${rows.length} tables and other things in its schema were not its own`];
}

/** What a repair is about to put right, in words. Passwords cannot be looked at; they are always set. */
export async function driftedThings(
  client: pg.Client,
  { database, schema, writer, reader }: Placement,
  extensions: readonly string[],
): Promise<string[]> {
  const { text, params } = statement(sql`
    SELECT what FROM (VALUES
      ('extensions of the setting were not installed', NOT (${areInstalled(extensions)})),
      ('its roles have settings of their own', EXISTS (SELECT FROM pg_db_role_setting
        WHERE setrole IN (${writer}::regrole, ${reader}::regrole))),
      ('its roles lack rights', NOT (has_database_privilege(${writer}, ${database}, 'CONNECT')
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
  const { rows } = await client.query<{ what: string }>(text, [...params]);
  return rows.map(({ what }) => what);
}

/** Ends what is idle in a project's database, sessions of roles that were dropped under them included. */
export async function endIdleSessions(client: pg.Client, { database }: Placement): Promise<void> {
  await client.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND state = 'idle'`, [
    database,
  ]);
}
