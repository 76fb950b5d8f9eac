/** Looks up types that a project or extension has created, for parameters whose value is a JSON array. */
import type { JsonNode } from '../../codec/index.js';
import { FIRST_NORMAL_OID } from '../catalog/project-code.js';
import { type Session, sql } from '../../pg/index.js';

/**
 * Values of pg_type.typcategory: enums, and string types such as citext and domains over text, which accept the JSON
 * text of an array.
 */
const TAKES_TEXT = ['E', 'S'];

/**
 * Names of the types that do not accept a JSON array as such, by oid. The query replaces the last prepared statement.
 * @returns null, without a query, if no value is an array for such a type
 */
export async function textTypesOf(
  session: Session,
  values: readonly JsonNode[],
  oids: readonly number[],
): Promise<ReadonlyMap<number, string> | null> {
  const own = oids.filter((oid, i) => oid >= FIRST_NORMAL_OID && values[i]?.kind === 'array');
  if (own.length === 0) return null;
  const rows = await session.query(
    sql`SELECT t.oid, t.typcategory, pg_catalog.format_type(t.oid, NULL) FROM pg_catalog.pg_type t
        WHERE t.oid OPERATOR(pg_catalog.=) ANY (${`{${own.join(',')}}`}::pg_catalog.oid[])`,
  );
  const found = rows.filter(([, category]) => TAKES_TEXT.includes(category ?? ''));
  return new Map(found.map(([oid, , name]) => [Number(oid), name ?? '']));
}
