/**
 * How the tables of a project are spread over the workers of a Citus cluster (docs/citus.md): noted, and made again
 * where they are empty.
 */
import { type Static, Type } from '../contract/schema.js';
import { ident, type Session, sql } from '../pg/index.js';
import { isOnCitus, type Placement } from '../tenancy/placement.js';
import { isOfProject } from '../tenancy/project-rights.js';

export const DistributedTable = Type.Object({
  table: Type.String(),
  /** Of hash; null: it is a reference table. */
  column: Type.Union([Type.String(), Type.Null()]),
  shards: Type.Integer(),
  /** Tables of one group keep equal values on one worker. */
  group: Type.Integer(),
});
export type DistributedTable = Static<typeof DistributedTable>;

/**
 * In the order in which their groups were made. Partitions are distributed with their table.
 * @param session in the project's database
 */
export async function distributedTables(session: Session, placement: Placement): Promise<DistributedTable[]> {
  if (!isOnCitus(placement)) return [];
  const rows = await session.query(sql`
    SELECT c.relname, CASE WHEN p.partmethod = 'h' THEN column_to_column_name(p.logicalrelid, p.partkey) END,
      (SELECT count(*) FROM pg_dist_shard s WHERE s.logicalrelid = p.logicalrelid), p.colocationid
    FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE ${isOfProject(placement)} AND NOT c.relispartition AND (p.partmethod = 'h' OR p.repmodel = 't')
    ORDER BY p.colocationid, c.relname COLLATE "C"`);
  return rows.map(([table = null, column = null, shards, group]) => ({
    table: table ?? '',
    column,
    shards: Number(shards),
    group: Number(group),
  }));
}

/**
 * Between their rows and what refers to other tables: a foreign key is made once both of its tables are distributed.
 * @param session of the writer. Each table becomes its own transaction
 */
export async function distributeAgain(
  session: Session,
  { schema }: Placement,
  tables: readonly DistributedTable[],
): Promise<void> {
  const firstOf = new Map<number, string>();
  for (const { table, column, shards, group } of tables) {
    const name = ident(schema, table).text;
    const first = firstOf.get(group);
    firstOf.set(group, first ?? name);
    await session.query(
      column === null
        ? sql`SELECT pg_catalog.create_reference_table(${name}::regclass)`
        : first === undefined
          ? sql`SELECT pg_catalog.create_distributed_table(${name}::regclass, ${column}, colocate_with => 'none',
              shard_count => ${shards})`
          : sql`SELECT pg_catalog.create_distributed_table(${name}::regclass, ${column}, colocate_with => ${first})`,
    );
  }
}
