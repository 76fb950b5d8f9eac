/**
 * What the roles of a project may read of its tables: its feed shows no more. Kept beside the log when the server stops, because
 * nothing can change them then, and readers of the feed do not start it.
 */
import { type Session, sql } from '../pg/index.js';
import type { Placement } from '../tenancy/placement.js';
import { belongsToProject, rolesOf } from '../tenancy/project-rights.js';
import type { VisibleColumns } from './change-json.js';

/** By the oid of the table, for all that exist. */
export type Rights = ReadonlyMap<number, VisibleColumns>;

/** The same as JSON. */
type StoredRights = readonly (readonly [number, 'all' | readonly string[] | null])[];

/**
 * A table with row security is left out for the roles to which it applies: a policy cannot be asked about a row that has changed.
 * @param role its name on the server
 */
export async function readRights(session: Session, placement: Placement, role: string): Promise<Rights> {
  const [json] = await session.row(sql`SELECT coalesce(jsonb_agg(jsonb_build_array(c.oid::bigint,
      CASE WHEN NOT has_schema_privilege(r.oid, n.oid, 'USAGE') OR NOT has_any_column_privilege(r.oid, c.oid, 'SELECT')
          OR (c.relrowsecurity AND NOT r.rolsuper AND NOT r.rolbypassrls
            AND (c.relforcerowsecurity OR NOT pg_has_role(r.oid, c.relowner, 'USAGE'))) THEN 'null'::jsonb
        WHEN has_table_privilege(r.oid, c.oid, 'SELECT') THEN '"all"'::jsonb
        ELSE to_jsonb(ARRAY(SELECT a.attname FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
          AND has_column_privilege(r.oid, c.oid, a.attnum, 'SELECT'))) END)), '[]')
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, pg_roles r
    WHERE r.rolname = ${role} AND c.relkind IN ('r', 'p') AND ${belongsToProject(placement)}`);
  return rightsIn(JSON.parse(json ?? '[]') as StoredRights);
}

/** What all roles may read, as JSON by their names on the server. */
export async function readAllRights(session: Session, placement: Placement): Promise<Record<string, StoredRights>> {
  const all: Record<string, StoredRights> = {};
  for (const role of await rolesOf(session, placement)) {
    const rights = await readRights(session, placement, role);
    all[role] = [...rights].map(([oid, columns]) => [
      oid,
      columns instanceof Set ? [...columns] : (columns as 'all' | null),
    ]);
  }
  return all;
}

export const rightsIn = (stored: StoredRights): Rights =>
  new Map(
    stored.map(([oid, columns]) => [
      oid,
      Array.isArray(columns) ? new Set<string>(columns) : (columns as 'all' | null),
    ]),
  );
