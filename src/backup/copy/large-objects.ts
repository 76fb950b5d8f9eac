/** Copies a project's large objects, which are in no schema and belong to the writer. */
import { ident, type Session, sql, trusted } from '../../pg/index.js';
import type { Placement } from '../../tenancy/placement.js';

const PART_BYTES = 1024 * 1024;

interface LargeObject {
  readonly oid: string;
  readonly comment: string | null;
}

export async function largeObjects(session: Session, { writer }: Placement): Promise<LargeObject[]> {
  const rows = await session.query(
    sql`SELECT oid, obj_description(oid, 'pg_largeobject') FROM pg_largeobject_metadata WHERE lomowner = ${writer}::regrole ORDER BY oid`,
  );
  return rows.map(([oid, comment]) => ({ oid: oid ?? '', comment: comment ?? null }));
}

/** The contents in hex, as Postgres writes `bytea`, with the offset of each part. */
export async function* partsOf(session: Session, oid: string): AsyncGenerator<{ at: number; part: string }> {
  for (let at = 0; ; at += PART_BYTES) {
    const [part] = await session.row(sql`SELECT lo_get(${oid}::oid, ${at}::bigint, ${PART_BYTES}::integer)`);
    if (part == null || part === '\\x') return;
    yield { at, part };
  }
}

/**
 * Copies contents, comments, and the rights of the project's roles.
 * @param target a session of the writer
 */
export async function copyLargeObjects(
  source: Session,
  target: Session,
  from: Placement,
  to: Placement,
): Promise<void> {
  for (const { oid, comment } of await largeObjects(source, from)) {
    await target.query(sql`SELECT pg_catalog.lo_create(${oid}::oid)`);
    for await (const { at, part } of partsOf(source, oid)) {
      await target.query(sql`SELECT pg_catalog.lo_put(${oid}::oid, ${at}::bigint, ${part}::bytea)`);
    }
    const object = sql`LARGE OBJECT ${trusted(oid)}`;
    if (comment !== null) {
      await target.query(sql`SELECT pg_catalog.set_config('cdp.comment', ${comment}, false)`);
      await target.script(
        `DO $$ BEGIN EXECUTE format('COMMENT ON LARGE OBJECT ${oid} IS %L', current_setting('cdp.comment')); END $$`,
      );
    }
    const rights = await source.query(sql`SELECT privilege_type, grantee = 0, grantee = ${from.reader}::regrole
      FROM pg_largeobject_metadata, aclexplode(lomacl) WHERE oid = ${oid}::oid AND grantee <> lomowner`);
    for (const [privilege, isPublic, isReader] of rights) {
      if (isPublic !== 't' && isReader !== 't') continue;
      const role = isPublic === 't' ? trusted('PUBLIC') : ident(to.reader);
      await target.query(sql`GRANT ${trusted(privilege ?? '')} ON ${object} TO ${role}`);
    }
  }
}
