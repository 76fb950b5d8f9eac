/** The rights to a project's objects, read from the catalogs, and granted again to the roles of another server. */
import { type Static, Type } from '../../contract/schema.js';
import { type Fragment, type Session, sql, trusted } from '../../pg/index.js';
import type { Placement } from '../../tenancy/placement.js';
import { belongsToProject } from '../../tenancy/project-rights.js';
import { identityOf, roleNamed } from './roles.js';

/** The rights of one role to one object. */
export const Right = Type.Object({
  /** As GRANT names the object, such as `TABLE data.t`; for default privileges the kind, such as `TABLES`. */
  on: Type.String(),
  /** Default privileges: empty, or the schema as `IN SCHEMA s`. null: not default privileges. */
  default: Type.Union([Type.String(), Type.Null()]),
  /** Quoted; null: the object itself. */
  column: Type.Union([Type.String(), Type.Null()]),
  /** The role's identity; see `roles.ts`. */
  role: Type.String(),
  /** Sorted; `ALL`, if the role has all that this version of Postgres has for such an object. */
  privileges: Type.Array(Type.String()),
  /** Those with the grant option. */
  grantable: Type.Array(Type.String()),
});
export type Right = Static<typeof Right>;

/**
 * A row for each object: how GRANT names it, its owner, its ACL, and its kind for acldefault(). Without the functions
 * behind a range type, which belong to the superuser of initdb, and the types of shards: Citus hides them in pg_class, but
 * not in pg_type.
 */
const objects = ({ schema, writer }: Placement): Fragment => sql`
  SELECT CASE relkind WHEN 'S' THEN 'SEQUENCE ' ELSE 'TABLE ' END || c.oid::regclass AS on, NULL AS "default", relowner AS owner,
    relacl AS acl, (CASE relkind WHEN 'S' THEN 's' ELSE 'r' END)::"char" AS kind, 1 AS place
  FROM pg_class c JOIN schemas n ON n.oid = relnamespace
  WHERE relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND relpersistence <> 't'
  UNION ALL
  SELECT CASE prokind WHEN 'p' THEN 'PROCEDURE ' || quote_ident(nspname) || '.' || quote_ident(proname) || '('
    || pg_get_function_identity_arguments(p.oid) || ')' ELSE 'FUNCTION ' || p.oid::regprocedure END, NULL, proowner, proacl, 'f', 1
  FROM pg_proc p JOIN schemas n ON n.oid = pronamespace
  WHERE NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = p.oid AND deptype IN ('i', 'e'))
  UNION ALL
  SELECT 'TYPE ' || t.oid::regtype, NULL, typowner, typacl, 'T', 1
  FROM pg_type t JOIN schemas n ON n.oid = typnamespace
  WHERE typtype IN ('d', 'e', 'r') OR typtype = 'c' AND EXISTS (SELECT FROM pg_class c WHERE c.oid = typrelid)
  UNION ALL
  SELECT 'LARGE OBJECT ' || oid, NULL, lomowner, lomacl, 'L', 1
  FROM pg_largeobject_metadata WHERE lomowner = ${writer}::regrole AND lomacl IS NOT NULL
  UNION ALL
  SELECT plural, '', ${writer}::regrole, defaclacl, (CASE code WHEN 'S' THEN 's' ELSE code END)::"char", 3
  FROM (VALUES ('r', 'TABLES'), ('S', 'SEQUENCES'), ('f', 'FUNCTIONS'), ('T', 'TYPES'), ('n', 'SCHEMAS'), ('L', 'LARGE OBJECTS'))
    AS kinds (code, plural)
  LEFT JOIN pg_default_acl ON defaclobjtype = code::"char" AND defaclnamespace = 0 AND defaclrole = ${writer}::regrole
  UNION ALL
  SELECT CASE defaclobjtype WHEN 'r' THEN 'TABLES' WHEN 'S' THEN 'SEQUENCES' WHEN 'f' THEN 'FUNCTIONS' WHEN 'T' THEN 'TYPES' END,
    'IN SCHEMA ' || quote_ident(nspname), defaclrole, defaclacl, CASE defaclobjtype WHEN 'S' THEN 's' ELSE defaclobjtype END, 3
  FROM pg_default_acl JOIN schemas n ON n.oid = defaclnamespace WHERE defaclrole = ${writer}::regrole
  UNION ALL
  SELECT 'SCHEMA ' || quote_ident(nspname), NULL, nspowner, nspacl, 'n', 4 FROM schemas WHERE nspname <> ${schema}`;

/**
 * All rights to the project's own objects, also those that everybody has by default; of large objects, only those that
 * were changed. Who granted a right is not part of it: the owner grants it again.
 * @param session with the search path pg_catalog
 */
export async function rightsOf(session: Session, placement: Placement): Promise<Right[]> {
  const role = (grantee: Fragment, owner: Fragment) =>
    sql`CASE ${grantee} WHEN ${owner} THEN '@writer' ELSE ${identityOf(grantee, placement)} END`;
  // A role that was dropped by force has left its number.
  const exists = sql`(a.grantee = 0 OR a.grantee::regrole::text <> a.grantee::text)`;
  const privileges = sql`array_agg(DISTINCT a.privilege_type::text) AS privileges,
    array_agg(DISTINCT a.privilege_type::text) FILTER (WHERE a.is_grantable) AS grantable`;
  const [row] = await session.row(sql`
    WITH schemas AS (SELECT oid, nspname, nspowner, nspacl FROM pg_namespace WHERE ${belongsToProject(placement)}),
    objects AS (${objects(placement)}),
    rights AS (
      SELECT o.place, o.on, o.default, NULL AS column, r.role, r.grantable,
        CASE WHEN r.privileges @> every.privileges THEN ARRAY['ALL'] ELSE r.privileges END AS privileges
      FROM objects o
      CROSS JOIN LATERAL (SELECT ${role(sql`a.grantee`, sql`o.owner`)} AS role, ${privileges}
        FROM aclexplode(coalesce(o.acl, acldefault(o.kind, o.owner))) a WHERE ${exists} GROUP BY 1) r
      CROSS JOIN LATERAL (SELECT array_agg(a.privilege_type::text) AS privileges
        FROM aclexplode(acldefault(o.kind, o.owner)) a WHERE a.grantee = o.owner) every
      UNION ALL
      SELECT 2, 'TABLE ' || c.oid::regclass, NULL, quote_ident(attname), ${role(sql`a.grantee`, sql`c.relowner`)},
        array_agg(DISTINCT a.privilege_type::text) FILTER (WHERE a.is_grantable), array_agg(DISTINCT a.privilege_type::text)
      FROM pg_attribute JOIN pg_class c ON c.oid = attrelid JOIN schemas n ON n.oid = relnamespace, aclexplode(attacl) a
      WHERE NOT attisdropped AND ${exists} GROUP BY c.oid, attname, 5)
    SELECT coalesce(json_agg(json_build_object('on', r.on, 'default', r.default, 'column', r.column, 'role', r.role,
      'privileges', privileges, 'grantable', coalesce(grantable, '{}'))
      ORDER BY place, r.on COLLATE "C", r.default COLLATE "C", r.column COLLATE "C", r.role COLLATE "C"), '[]') FROM rights r`);
  return JSON.parse(row ?? '[]') as Right[];
}

/**
 * Grants and revokes until the rights are those that are wanted.
 * @param session of the owner of the objects, with the search path pg_catalog
 * @param rights the rights to all objects that exist here, in the order of {@link rightsOf}: those to schemas come last,
 * because without them the owner could not reach the objects within
 * @throws Error that names the object, for instance because a role does not exist
 */
export async function setRights(session: Session, placement: Placement, rights: readonly Right[]): Promise<void> {
  const present = await rightsOf(session, placement);
  const [before, after] = [byKey(present), byKey(rights)];
  const none = present.filter((right) => !after.has(keyOf(right))).map(noneOf);
  for (const right of [...none, ...rights]) {
    if (JSON.stringify(before.get(keyOf(right))) === JSON.stringify(right)) continue;
    try {
      for (const statement of statementsFor(right, placement)) await session.query(statement);
    } catch (error) {
      throw new Error(`${what(right)} cannot be set: ${(error as Error).message}`, { cause: error });
    }
  }
}

const noneOf = (right: Right): Right => ({ ...right, privileges: [], grantable: [] });

function statementsFor({ on, default: scope, column, role, privileges, grantable }: Right, placement: Placement) {
  const [object, name] = [trusted(on), roleNamed(role, placement)];
  const begin = scope === null ? sql`` : sql`ALTER DEFAULT PRIVILEGES ${trusted(scope)}`;
  const list = (of: readonly string[]) =>
    sql`${trusted(of.map((one) => (column === null ? one : `${one} (${column})`)).join(', '))}`;
  const grant = (of: readonly string[], option: Fragment) =>
    of.length === 0 ? [] : [sql`${begin} GRANT ${list(of)} ON ${object} TO ${name} ${option}`];
  return [
    sql`${begin} REVOKE ${list(['ALL'])} ON ${object} FROM ${name}`,
    ...grant(privileges, sql``),
    ...grant(grantable, sql`WITH GRANT OPTION`),
  ];
}

/** Names the rights that differ or are on one side only. */
export function differentRights(before: readonly Right[], after: readonly Right[]): string[] {
  const [old, copied] = [byKey(before), byKey(after)];
  return [...new Map([...old, ...copied])]
    .filter(([key]) => JSON.stringify(old.get(key)) !== JSON.stringify(copied.get(key)))
    .map(([, right]) => `${what(right)}: differs`);
}

const keyOf = ({ on, default: scope, column, role }: Right): string => JSON.stringify([on, scope, column, role]);

const byKey = (rights: readonly Right[]): Map<string, Right> => new Map(rights.map((right) => [keyOf(right), right]));

function what({ on, default: scope, column, role }: Right): string {
  const object = scope === null ? on : `new ${on}${scope === '' ? '' : ` ${scope}`}`;
  return `the right of ${role.replace('@', '')} to ${object}${column === null ? '' : ` (${column})`}`;
}
