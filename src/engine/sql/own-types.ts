/** Types that a project or an extension has made, of parameters whose value is a JSON array. */
import type { JsonNode } from '../../codec/index.js';
import { FIRST_NORMAL_OID } from '../catalog/project-code.js';
import { type Session, sql } from '../../pg/index.js';

/**
 * Of pg_type.typcategory: enums, and types such as citext and domains over text, which take the text of an array as it
 * is.
 */
const TAKES_TEXT = ['E', 'S'];

/**
 * Names, by oid, of the types that are no place for a JSON array. The look-up replaces the statement that was prepared
 * last.
 * @returns null if no value is an array for a type of the project; nothing was asked then
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
