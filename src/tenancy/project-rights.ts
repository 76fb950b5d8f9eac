/**
 * The rights of a project's roles in its database. Those that the service grants, and that a project cannot revoke, are
 * restored whenever they are missing. Those that the writer grants are the project's: they are given when the project is
 * made, and again only if an operator asks for it (docs/decisions/0050-rights-that-are-restored.md).
 */
import { type Fragment, ident, join, type ServerAddress, type Session, sql, trusted } from '../pg/index.js';
import { areInstalled } from './extensions.js';
import { grantOwnSchemas } from './own-schemas.js';
import { isMadeRole, type Placement } from './placement.js';
import { withServiceSession } from './service-pool.js';

/**
 * Creates missing roles, with the service as their member.
 * @param roles names on the server
 * @param options of a login role
 * @returns the roles that were missing
 */
export async function ensureRoles(
  session: Session,
  roles: readonly string[],
  options: (role: string) => Fragment,
): Promise<string[]> {
  const rows = await session.query(sql`SELECT rolname FROM pg_roles WHERE rolname = ANY (${roles})`);
  const missing = roles.filter((role) => !rows.some(([name]) => name === role));
  for (const role of missing) await session.query(sql`CREATE ROLE ${ident(role)} LOGIN ${options(role)}`);
  if (missing.length > 0) await joinRoles(session, missing);
  return missing;
}

/** The names on the server of the roles that the project has made, sorted. */
export async function madeRoles(session: Session, placement: Placement): Promise<string[]> {
  const rows = await session.query(
    sql`SELECT rolname FROM pg_roles WHERE ${isMadeRole(placement, sql`rolname::text`)} ORDER BY 1`,
  );
  return rows.map(([name]) => name ?? '');
}

/** The names on the server of all of a project's roles. */
export const rolesOf = async (session: Session, placement: Placement): Promise<string[]> => [
  placement.writer,
  placement.reader,
  ...(await madeRoles(session, placement)),
];

/**
 * Makes the service a member of the roles, so that it can see and end their sessions. To change a role, Postgres 16
 * and later require the ADMIN option. They give it to the creator of a role, unless that is a superuser; earlier
 * versions give it to nobody. In both of these cases the service grants it to itself, because it may lose the superuser
 * attribute, or the server may be upgraded.
 */
async function joinRoles(session: Session, roles: readonly string[]): Promise<void> {
  const [needsAdminOption] = await session.row(
    sql`SELECT rolsuper OR current_setting('server_version_num')::integer < 160000
        FROM pg_roles WHERE rolname = current_user`,
  );
  const option = needsAdminOption === 't' ? sql`WITH ADMIN OPTION` : sql``;
  await session.query(sql`GRANT ${join(roles.map((role) => ident(role)))} TO CURRENT_USER ${option}`);
}

/** Restores passwords of a project's roles and the service's membership. Their settings stay, but {@link COMMIT_SETTING}. */
export async function resetRoles(
  session: Session,
  placement: Placement,
  options: (role: string) => Fragment,
): Promise<void> {
  const database = ident(placement.database);
  const roles = await rolesOf(session, placement);
  await joinRoles(session, roles);
  await session.run(
    roles.flatMap((role) => [
      sql`ALTER ROLE ${ident(role)} LOGIN ${options(role)}`,
      sql`ALTER ROLE ${ident(role)} RESET ${ident(COMMIT_SETTING)}`,
      sql`ALTER ROLE ${ident(role)} IN DATABASE ${database} RESET ${ident(COMMIT_SETTING)}`,
    ]),
  );
}

/**
 * The only setting of a role that is reset: with it, a crash could lose batches that were acknowledged. The right value
 * is the operator's, so it cannot be pinned like others (`connections/session-settings.ts`).
 */
const COMMIT_SETTING = 'synchronous_commit';

/** A condition for a session of one of the roles: it has not changed that setting. */
export const commitsAsServer = sql`NOT EXISTS (SELECT FROM pg_catalog.pg_show_all_settings() s
  WHERE s.name = ${COMMIT_SETTING} AND s.source IN ('user', 'database user'))`;

/** Grants the rights of the project's roles. Granting them again repairs the effects of `DROP OWNED` and the like. */
export async function grantProjectRights(session: Session, placement: Placement): Promise<void> {
  const [database, schema] = [ident(placement.database), ident(placement.schema)];
  const [writer, reader] = [ident(placement.writer), ident(placement.reader)];
  for (const statement of [
    sql`GRANT CONNECT ON DATABASE ${database} TO ${writer}, ${reader}`,
    sql`GRANT TEMPORARY ON DATABASE ${database} TO ${writer}`,
    sql`GRANT USAGE, CREATE ON SCHEMA ${schema} TO ${writer}`,
    sql`GRANT USAGE ON SCHEMA ${schema} TO ${reader}`,
  ]) {
    await session.query(statement);
  }
  await grantAccess(session, placement, await madeRoles(session, placement));
  await grantOwnSchemas(session, placement);
  await grantBookkeeping(session, placement);
}

/**
 * Lets roles that the project has made log in to its database and name its tables. Not by a group: any member could
 * take the group's rights away from all by DROP OWNED.
 * @param roles names on the server
 */
export async function grantAccess(
  session: Session,
  { database, schema }: Placement,
  roles: readonly string[],
): Promise<void> {
  if (roles.length === 0) return;
  const to = join(roles.map((role) => ident(role)));
  await session.query(sql`GRANT CONNECT ON DATABASE ${ident(database)} TO ${to}`);
  await session.query(sql`GRANT USAGE ON SCHEMA ${ident(schema)} TO ${to}`);
}

/** The columns for receipts. Not the responses, which may contain rows that the reader may not see. */
const RECEIPT =
  'path, key, fingerprint, created_at, body_sha256, row_count, transaction_id, stream_rows, stream_bytes, is_complete';

/** Grants rights to the tables that a batch writes besides its records. A new version may add a table. */
export async function grantBookkeeping(session: Session, { writer, reader }: Placement): Promise<void> {
  await session.query(
    sql`GRANT SELECT, INSERT, UPDATE, DELETE ON _cdp.idempotency_keys, _cdp.stream_chunks, _cdp.quarantine, _cdp.quarantined
        TO ${ident(writer)}`,
  );
  await session.query(sql`GRANT SELECT, INSERT ON _cdp.erasures TO ${ident(writer)}`);
  await session.query(sql`GRANT SELECT (${trusted(RECEIPT)}) ON _cdp.idempotency_keys TO ${ident(reader)}`);
}

/** A condition for the service's role. Tables that a migration will add do not count. */
const hasBookkeeping = ({ writer, reader }: Placement): Fragment => sql`(
  SELECT bool_and(has_table_privilege(${writer}, to_regclass(name), privilege))
  FROM unnest('{_cdp.idempotency_keys,_cdp.stream_chunks,_cdp.quarantine}'::text[]) name,
    unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) privilege
) AND (
  SELECT bool_and(has_column_privilege(${reader}, attrelid, attnum, 'SELECT'))
  FROM pg_attribute
  WHERE attrelid = to_regclass('_cdp.idempotency_keys') AND attname = ANY (string_to_array(${RECEIPT}, ', '))
)`;

/** Kinds of objects, and the reader's right to them. */
const DEFAULTS = [
  ['TABLES', 'SELECT'],
  ['SEQUENCES', 'SELECT'],
  ['SCHEMAS', 'USAGE'],
] as const;

const KINDS = DEFAULTS.map(([kind]) => trusted(kind));

/**
 * Lets the reader see everything that the writer creates.
 * @param writing a session of the writer
 */
export async function grantReaderDefaults(writing: Session, { reader }: Placement): Promise<void> {
  for (const [kind, seen] of DEFAULTS) {
    await writing.query(sql`ALTER DEFAULT PRIVILEGES GRANT ${trusted(seen)} ON ${trusted(kind)} TO ${ident(reader)}`);
  }
}

/**
 * Undoes {@link grantReaderDefaults} before a copy is loaded: pg_dump does not mention a table from which the reader's
 * right was revoked, since without defaults it would not have it.
 * @param writing a session of the writer
 */
export async function revokeReaderDefaults(writing: Session, { reader }: Placement): Promise<void> {
  for (const kind of KINDS) {
    await writing.query(sql`ALTER DEFAULT PRIVILEGES REVOKE ALL ON ${kind} FROM ${ident(reader)}`);
  }
}

/**
 * Gives the writer all rights to everything that it creates, as Postgres does without default privileges.
 * @param writing a session of the writer
 */
export async function grantWriterDefaults(writing: Session, { writer }: Placement): Promise<void> {
  for (const kind of KINDS) {
    await writing.query(sql`ALTER DEFAULT PRIVILEGES GRANT ALL ON ${kind} TO ${ident(writer)}`);
  }
}

/** Lets the reader see everything that the writer has created, and will create. @param writing a session of the writer */
export async function grantReading(writing: Session, placement: Placement): Promise<void> {
  const [writer, reader] = [ident(placement.writer), ident(placement.reader)];
  await grantReaderDefaults(writing, placement);
  const { own, all } = await schemasOf(writing, placement);
  // Without USAGE, an owner could not grant rights to objects in the schema.
  if (own !== null) await writing.query(sql`GRANT USAGE ON SCHEMA ${own} TO ${writer}, ${reader}`);
  for (const kind of ['TABLES', 'SEQUENCES'].map(trusted)) {
    await writing.query(sql`GRANT SELECT ON ALL ${kind} IN SCHEMA ${all} TO ${reader}`);
  }
}

/** The names of the schemas that the writer has created, sorted. */
export async function ownSchemasOf(
  session: Session,
  { schema, writer }: Pick<Placement, 'schema' | 'writer'>,
): Promise<string[]> {
  const rows = await session.query(
    sql`SELECT nspname FROM pg_namespace WHERE nspowner = ${writer}::regrole AND nspname <> ${schema} ORDER BY 1`,
  );
  return rows.map(([name]) => name ?? '');
}

/** The project's schemas: `all` includes `data`; `own` are those that the writer has created, null: there are none. */
async function schemasOf(session: Session, placement: Placement): Promise<{ all: Fragment; own: Fragment | null }> {
  const own = (await ownSchemasOf(session, placement)).map((name) => ident(name));
  return { all: join([ident(placement.schema), ...own]), own: own.length === 0 ? null : join(own) };
}

/** Drops a role, if it exists, with its rights in the database of the session. */
export async function dropRole(session: Session, role: string): Promise<void> {
  if (await dropOwned(session, role)) await session.query(sql`DROP ROLE ${ident(role)}`);
}

/** Drops what a role owns and may in the database of the session. @returns false if there is no such role */
async function dropOwned(session: Session, role: string): Promise<boolean> {
  const [existing] = await session.query(sql`SELECT 1 FROM pg_roles WHERE rolname = ${role}`);
  if (existing === undefined) return false;
  await session.query(sql`DROP OWNED BY ${ident(role)}`);
  return true;
}

/**
 * Drops what a role may in other databases of its server, which would keep it from being dropped: any project there can
 * grant it something.
 */
export async function dropOwnedElsewhere(session: Session, address: ServerAddress, role: string): Promise<void> {
  const databases = await session.query(
    sql`SELECT DISTINCT datname FROM pg_shdepend s JOIN pg_database d ON d.oid = s.dbid JOIN pg_roles r ON r.oid = s.refobjid
        WHERE s.refclassid = 'pg_authid'::regclass AND r.rolname = ${role} AND datname <> current_database()`,
  );
  for (const [database] of databases)
    await withServiceSession(address, database ?? '', async (there) => void (await dropOwned(there, role)));
}

/** A condition on a row of pg_namespace: the schema belongs to the project. */
export const belongsToProject = ({ schema, writer }: Pick<Placement, 'schema' | 'writer'>): Fragment =>
  sql`(nspname = ${schema} OR nspowner = ${writer}::regrole)`;

/** A condition that any role can check: the writer gets all rights to the tables, sequences and schemas that it creates. */
export const hasWriterDefaults = ({ writer }: Placement): Fragment => sql`NOT EXISTS (SELECT
  FROM pg_catalog.pg_default_acl d
  WHERE d.defaclnamespace = 0 AND d.defaclrole = ${writer}::pg_catalog.regrole AND d.defaclobjtype IN ('r', 'S', 'n')
    AND NOT d.defaclacl OPERATOR(pg_catalog.@>) (pg_catalog.acldefault(
      CASE WHEN d.defaclobjtype = 'S' THEN 's' ELSE d.defaclobjtype END, d.defaclrole))[1])`;

const makesSchemas = (writer: string): Fragment =>
  sql`pg_catalog.has_database_privilege(${writer}::pg_catalog.name, pg_catalog.current_database(), 'CREATE')`;

/**
 * A condition: the writer may create schemas only if the placement allows it. It may lack the right if the service
 * cannot grant it.
 */
export const ownsSchemasAsSet = ({ writer, ownSchemas }: Placement): Fragment =>
  sql`${makesSchemas(writer)} OPERATOR(pg_catalog.<=) ${ownSchemas}`;

/** Gives the writer the rights to its own objects that it has revoked. @param writing a session of the writer */
export async function grantOwnObjects(writing: Session, placement: Placement): Promise<void> {
  const writer = ident(placement.writer);
  const { own, all } = await schemasOf(writing, placement);
  if (own !== null) await writing.query(sql`GRANT ALL ON SCHEMA ${own} TO ${writer}`);
  for (const kind of ['TABLES', 'SEQUENCES', 'ROUTINES'].map(trusted)) {
    await writing.query(sql`GRANT ALL ON ALL ${kind} IN SCHEMA ${all} TO ${writer}`);
  }
}

/** @returns the repaired faults, as text */
export async function ensureSchema(session: Session, schema: string): Promise<string[]> {
  const [row] = await session.query(
    sql`SELECT nspowner::regrole, nspowner = current_user::regrole FROM pg_namespace WHERE nspname = ${schema}`,
  );
  if (row === undefined) {
    await session.query(sql`CREATE SCHEMA ${ident(schema)}`);
    return [`the schema ${schema} was missing`];
  }
  const [owner, isOwn] = row;
  if (isOwn === 't') return [];
  await session.query(sql`ALTER SCHEMA ${ident(schema)} OWNER TO CURRENT_USER`);
  return [`the schema ${schema} belonged to ${owner}`];
}

/**
 * Makes the writer the owner of everything in the project's schemas; after a restore without owners, the service owns
 * it. Not of the functions behind a range type: Postgres gives them to the superuser of initdb, which the service may
 * be.
 * @returns the repaired faults, as text
 */
export async function giveToWriter(session: Session, placement: Placement): Promise<string[]> {
  const ofProject = sql`IN (SELECT oid FROM pg_namespace WHERE ${belongsToProject(placement)})`;
  const objects = await session.query(sql`
    SELECT format('TABLE %s', oid::regclass) FROM pg_class c
    WHERE relnamespace ${ofProject} AND relowner = current_user::regrole
      AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
      AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = c.oid
        AND refclassid = 'pg_class'::regclass AND deptype IN ('a', 'i'))
    UNION ALL SELECT format('ROUTINE %s', oid::regprocedure) FROM pg_proc p
    WHERE pronamespace ${ofProject} AND proowner = current_user::regrole
      AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'i')
    UNION ALL SELECT format('TYPE %s', oid::regtype) FROM pg_type
    WHERE typnamespace ${ofProject} AND typowner = current_user::regrole AND typtype IN ('e', 'd', 'r')`);
  for (const [object] of objects) {
    await session.query(sql`ALTER ${trusted(object ?? '')} OWNER TO ${ident(placement.writer)}`);
  }
  return objects.length === 0 ? [] : [`${objects.length} tables and other objects in its schemas had another owner`];
}

/** The faults that a repair will fix, as text. Passwords cannot be checked, so they are always reset. */
export async function findDrift(
  session: Session,
  placement: Placement,
  extensions: readonly string[],
): Promise<string[]> {
  const { database, schema, writer, reader } = placement;
  const made = sql`(SELECT FROM pg_roles WHERE ${isMadeRole(placement, sql`rolname::text`)}`;
  const maySetSchemas = sql`(${placement.ownSchemas} AND (SELECT rolsuper FROM pg_roles WHERE rolname = current_user))`;
  const rows = await session.query(sql`
    SELECT what FROM (VALUES
      ('extensions of the setting were not installed', NOT (${areInstalled(extensions)})),
      ('the service lacks the privileges of its roles',
        NOT (pg_has_role(${writer}, 'USAGE') AND pg_has_role(${reader}, 'USAGE'))),
      ('its roles may not log in', EXISTS (SELECT FROM pg_roles
        WHERE rolname = ANY (${[writer, reader]}) AND NOT rolcanlogin) OR EXISTS ${made} AND NOT rolcanlogin)),
      ('roles that it has made lack privileges', EXISTS ${made} AND NOT (pg_has_role(oid, 'USAGE')
        AND has_database_privilege(oid, ${database}, 'CONNECT') AND has_schema_privilege(oid, ${schema}, 'USAGE')))),
      ('its roles have their own synchronous_commit', EXISTS (SELECT
        FROM pg_db_role_setting, unnest(setconfig) setting
        WHERE (setrole IN (${writer}::regrole, ${reader}::regrole) OR setrole <> 0 AND ${isMadeRole(placement, sql`setrole::regrole::text`)})
          AND starts_with(setting, ${`${COMMIT_SETTING}=`}))),
      ('its roles lack privileges', NOT (has_database_privilege(${writer}, ${database}, 'CONNECT')
        AND has_database_privilege(${writer}, ${database}, 'TEMPORARY')
        AND has_database_privilege(${reader}, ${database}, 'CONNECT')
        AND has_schema_privilege(${writer}, ${schema}, 'CREATE')
        AND has_schema_privilege(${writer}, ${schema}, 'USAGE')
        AND has_schema_privilege(${reader}, ${schema}, 'USAGE')
        AND ${hasBookkeeping(placement)})),
      ('it may create schemas, although its setting forbids that', ${makesSchemas(writer)} AND NOT ${maySetSchemas}),
      ('it may not create schemas, although its setting allows that', ${maySetSchemas} AND NOT ${makesSchemas(writer)}),
      ('the writer lacks privileges to new objects of its own', NOT ${hasWriterDefaults(placement)})
    ) AS things (what, drifted) WHERE drifted`);
  return rows.map(([what]) => what ?? '');
}

// How the rest of the service sees the fence that a move raises around a project (`moves/fence.ts`).
/** Whether one of a project's roles may not log in; a project cannot change that itself. */
export async function rolesAreLocked(session: Session, placement: Placement): Promise<boolean> {
  const fenced = await session.query(
    sql`SELECT FROM pg_roles WHERE rolname = ANY (${await rolesOf(session, placement)}) AND NOT rolcanlogin`,
  );
  return fenced.length > 0;
}
