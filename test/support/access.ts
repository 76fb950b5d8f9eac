/**
 * Policies, rights and settings of roles in which names and constants look like roles, and a description by which two
 * projects can be compared, whatever their roles are called.
 */
import type pg from 'pg';
import type { Placement } from '../../src/tenancy/placement.js';

type Roles = Pick<Placement, 'database' | 'writer' | 'reader'>;

/** Everything is created by the project's writer. @param client of a superuser */
export async function makeAccess(client: pg.Client, { database, writer: w, reader: r }: Roles): Promise<void> {
  const statements = [
    `SET SESSION AUTHORIZATION ${w}`,
    'SET search_path = data',
    `CREATE TABLE labels (label text PRIMARY KEY, ${w} text, "${r}" text, kind text DEFAULT 'TO ${r}')`,
    `INSERT INTO labels VALUES ('sent BY ${w}', 'ada', 'ada'), ('BY ${w}', 'ada', 'bob'), ('TO ${r}', NULL, NULL), ('open', NULL, 'x')`,
    'ALTER TABLE labels ENABLE ROW LEVEL SECURITY',
    `CREATE POLICY equal ON labels FOR SELECT TO ${r} USING (label = 'sent BY ${w}' OR label LIKE '%BY ${w}' OR label = 'open')`,
    `CREATE POLICY hidden ON labels AS RESTRICTIVE TO ${r}, ${w} USING (label <> 'BY ${w}' AND label <> 'TO ${r}')`,
    `COMMENT ON POLICY hidden ON labels IS 'TO ${r}; FROM ${w}'`,
    `CREATE POLICY "FROM ${r}" ON labels FOR UPDATE USING (current_setting('app.user', true) IS DISTINCT FROM ${w})
       WITH CHECK (current_setting('app.user', true) IS NOT DISTINCT FROM "${r}")`,
    `CREATE POLICY adding ON labels FOR INSERT TO PUBLIC WITH CHECK (EXISTS (SELECT FROM labels l WHERE l.label = 'ROLE ${w}'))`,
    `CREATE POLICY deleting ON labels AS RESTRICTIVE FOR DELETE TO CURRENT_USER USING (CURRENT_USER = '${w}')`,
    `CREATE TABLE "x TO ${w}" (a integer PRIMARY KEY, b integer, "TO ${r}" text)`,
    `GRANT SELECT (a, "TO ${r}"), UPDATE (b) ON "x TO ${w}" TO ${r} WITH GRANT OPTION`,
    `REVOKE SELECT ON "x TO ${w}" FROM ${r}`,
    `GRANT SELECT (b) ON "x TO ${w}" TO PUBLIC`,
    `CREATE TABLE "a;\nb" (a integer PRIMARY KEY)`,
    `GRANT INSERT, UPDATE ON "a;\nb" TO ${r} WITH GRANT OPTION`,
    `GRANT ALL ON "a;\nb" TO PUBLIC`,
    `CREATE VIEW "FROM ${r}" WITH (security_invoker) AS SELECT label FROM labels WHERE label <> 'BY ${w}'`,
    `GRANT SELECT ON "FROM ${r}" TO PUBLIC`,
    `CREATE TABLE parts (day date PRIMARY KEY, ${w} text) PARTITION BY RANGE (day)`,
    `CREATE TABLE part_1 PARTITION OF parts FOR VALUES FROM ('2026-01-01') TO ('2026-02-01')`,
    'ALTER TABLE part_1 ENABLE ROW LEVEL SECURITY; ALTER TABLE parts ENABLE ROW LEVEL SECURITY',
    `CREATE POLICY whole ON parts USING (${w} IS NOT DISTINCT FROM 'BY ${w}')`,
    `CREATE POLICY part ON part_1 FOR SELECT TO ${r} USING (${w} = 'GRANTED BY ${w}')`,
    `REVOKE SELECT ON part_1 FROM ${r}`,
    `CREATE TABLE closed (a integer PRIMARY KEY)`,
    `REVOKE ALL ON closed FROM ${r}; REVOKE DELETE, TRUNCATE ON closed FROM ${w}`,
    `CREATE SEQUENCE "TO ${w}"`,
    `GRANT USAGE ON SEQUENCE "TO ${w}" TO ${r}`,
    `CREATE FUNCTION secret(writer text) RETURNS text LANGUAGE sql AS $$ SELECT 'TO ${w}' $$`,
    `REVOKE EXECUTE ON FUNCTION secret FROM PUBLIC; GRANT EXECUTE ON FUNCTION secret TO ${r}`,
    `CREATE PROCEDURE act(IN a integer, OUT b text) LANGUAGE sql AS $$ SELECT 'x' $$`,
    `REVOKE EXECUTE ON PROCEDURE act FROM PUBLIC`,
    `CREATE AGGREGATE total(integer) (SFUNC = int4pl, STYPE = integer, INITCOND = '0')`,
    `REVOKE EXECUTE ON FUNCTION total FROM PUBLIC, ${w}`,
    `CREATE TYPE mood AS ENUM ('TO ${r}', 'good'); REVOKE USAGE ON TYPE mood FROM PUBLIC; GRANT USAGE ON TYPE mood TO ${r}`,
    `CREATE DOMAIN short AS text CHECK (VALUE <> 'FROM ${r}'); REVOKE ALL ON DOMAIN short FROM PUBLIC`,
    `CREATE TYPE span AS RANGE (subtype = integer)`,
    `CREATE SCHEMA mine; CREATE TABLE mine.t (a integer PRIMARY KEY); REVOKE USAGE ON SCHEMA mine FROM ${r}; GRANT CREATE ON SCHEMA mine TO PUBLIC`,
    `ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES FROM ${r}`,
    `ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC`,
    `ALTER DEFAULT PRIVILEGES IN SCHEMA mine GRANT INSERT ON TABLES TO ${r} WITH GRANT OPTION`,
    // Later than the default: the reader may see neither.
    'CREATE TABLE unseen (a integer PRIMARY KEY)',
    // Exact matches, which would take the place of Postgres's own.
    `CREATE FUNCTION wrong(oid, regclass) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true'`,
    'CREATE OPERATOR data.= (LEFTARG = oid, RIGHTARG = regclass, FUNCTION = wrong)',
    `CREATE FUNCTION wrong(oid, regrole) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true'`,
    'CREATE OPERATOR data.= (LEFTARG = oid, RIGHTARG = regrole, FUNCTION = wrong)',
    `CREATE FUNCTION wrong(text, regclass) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'TABLE nothing' $$`,
    'CREATE OPERATOR data.|| (LEFTARG = text, RIGHTARG = regclass, FUNCTION = wrong)',
    `CREATE FUNCTION format(text, text) RETURNS text LANGUAGE sql AS $$ SELECT 'nonsense' $$`,
    `ALTER ROLE CURRENT_USER SET work_mem = '7MB'; ALTER ROLE CURRENT_USER SET application_name = 'TO ${w}'`,
    `ALTER ROLE CURRENT_USER IN DATABASE ${database} SET search_path = data, "$user", "Odd ""name"""`,
    `SELECT lo_from_bytea(4711, 'large'); GRANT SELECT ON LARGE OBJECT 4711 TO PUBLIC; GRANT UPDATE ON LARGE OBJECT 4711 TO ${r}`,
    `COMMENT ON LARGE OBJECT 4711 IS 'it''s TO ${w}'`,
    'RESET SESSION AUTHORIZATION; RESET search_path',
  ];
  for (const statement of statements) await client.query(statement);
}

/** All that {@link makeAccess} makes, by the catalogs. @param client of a superuser */
export async function describeAccess(client: pg.Client, { writer, reader }: Roles): Promise<Record<string, unknown>> {
  await client.query('SET search_path = pg_catalog');
  const role = (oid: string) =>
    `CASE WHEN ${oid} = 0 THEN 'PUBLIC' WHEN ${oid} = '${writer}'::regrole THEN '<writer>' WHEN ${oid} = '${reader}'::regrole THEN '<reader>' ELSE ${oid}::regrole::text END`;
  // MAINTAIN exists since Postgres 17.
  const acl = (acl: string, kind: string, owner: string) =>
    `(SELECT array_agg(one ORDER BY one) FROM (SELECT ${role('grantee')} || ' ' || privilege_type || ' ' || is_grantable AS one
      FROM aclexplode(coalesce(${acl}, acldefault(${kind}, ${owner}))) WHERE privilege_type <> 'MAINTAIN') AS rights)`;
  const schemas = `(SELECT oid FROM pg_namespace WHERE nspname = 'data' OR nspowner = '${writer}'::regrole)`;
  const lists = {
    policies: `SELECT polrelid::regclass::text, polname, polcmd, polpermissive,
        (SELECT array_agg(${role('r')} ORDER BY ${role('r')}) FROM unnest(polroles) r) AS roles,
        pg_get_expr(polqual, polrelid) AS qual, pg_get_expr(polwithcheck, polrelid) AS checks, obj_description(oid, 'pg_policy') AS comment
      FROM pg_policy ORDER BY 1, 2`,
    relations: `SELECT oid::regclass::text, relrowsecurity, reloptions, ${acl('relacl', `CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::"char"`, 'relowner')} AS acl
      FROM pg_class WHERE relnamespace IN ${schemas} AND relkind IN ('r', 'p', 'v', 'm', 'S') ORDER BY 1`,
    columns: `SELECT attrelid::regclass::text, attname, ${acl('attacl', `'c'`, '0')} AS acl FROM pg_attribute
      WHERE attacl IS NOT NULL AND attrelid IN (SELECT oid FROM pg_class WHERE relnamespace IN ${schemas}) ORDER BY 1, 2`,
    functions: `SELECT oid::regprocedure::text, prosrc, ${acl('proacl', `'f'`, 'proowner')} AS acl FROM pg_proc
      WHERE pronamespace IN ${schemas} AND proowner = '${writer}'::regrole ORDER BY 1`,
    types: `SELECT oid::regtype::text, ${acl('typacl', `'T'`, 'typowner')} AS acl FROM pg_type
      WHERE typnamespace IN ${schemas} AND typtype <> 'm' AND typcategory <> 'A' ORDER BY 1`,
    schemas: `SELECT nspname, ${acl('nspacl', `'n'`, 'nspowner')} AS acl FROM pg_namespace WHERE nspowner = '${writer}'::regrole ORDER BY 1`,
    large: `SELECT oid, obj_description(oid, 'pg_largeobject'), ${acl('lomacl', `'L'`, 'lomowner')} AS acl FROM pg_largeobject_metadata ORDER BY 1`,
    defaults: `SELECT defaclnamespace::regnamespace::text, defaclobjtype, ${acl('defaclacl', `'r'`, 'defaclrole')} AS acl
      FROM pg_default_acl WHERE defaclrole = '${writer}'::regrole ORDER BY 1, 2`,
    settings: `SELECT ${role('setrole')}, setdatabase <> 0 AS in_database, setconfig FROM pg_db_role_setting
      WHERE setrole IN ('${writer}'::regrole, '${reader}'::regrole) ORDER BY 1, 2`,
  };
  const result: Record<string, unknown> = {};
  for (const [name, query] of Object.entries(lists)) result[name] = (await client.query(query)).rows;
  return result;
}

/** The rows of a table with policies that the reader sees. */
export const rowsSeen = async (client: pg.Client, { reader }: Roles): Promise<string[]> => {
  await client.query(`SET ROLE ${reader}`);
  const { rows } = await client.query<{ label: string }>('SELECT label FROM data.labels ORDER BY 1');
  await client.query('RESET ROLE');
  return rows.map(({ label }) => label);
};
