/**
 * Records how the tables of a project are distributed over the workers of a Citus cluster (docs/citus.md), and
 * distributes empty tables in the same way.
 */
import { type Static, Type } from '../contract/schema.js';
import { ident, type Session, sql } from '../pg/index.js';
import type { Placement } from '../tenancy/placement.js';
import { belongsToProject } from '../tenancy/project-rights.js';
import type { ProjectDatabase } from '../tenancy/tenancy.js';

export const DistributedTable = Type.Object({
  table: Type.String(),
  /** The distribution column; null: a reference table. */
  column: Type.Union([Type.String(), Type.Null()]),
  shards: Type.Integer(),
  /** The colocation group: equal values of tables in one group are on the same worker. */
  group: Type.Integer(),
});
export type DistributedTable = Static<typeof DistributedTable>;

/**
 * Returns the tables in the order in which their groups were created. Partitions are distributed with their table.
 * @param session in the project's database
 */
export async function distributedTables(
  session: Session,
  { tenancy, placement }: ProjectDatabase,
): Promise<DistributedTable[]> {
  if (!tenancy.distributesTables) return [];
  const rows = await session.query(sql`
    SELECT c.relname, CASE WHEN p.partmethod = 'h' THEN column_to_column_name(p.logicalrelid, p.partkey) END,
      (SELECT count(*) FROM pg_dist_shard s WHERE s.logicalrelid = p.logicalrelid), p.colocationid
    FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE ${belongsToProject(placement)} AND NOT c.relispartition AND (p.partmethod = 'h' OR p.repmodel = 't')
    ORDER BY p.colocationid, c.relname COLLATE "C"`);
  return rows.map(([table = null, column = null, shards, group]) => ({
    table: table ?? '',
    column,
    shards: Number(shards),
    group: Number(group),
  }));
}

/**
 * Call this before foreign keys are created: Citus requires both of their tables to be distributed.
 * @param session of the writer; each table is distributed in a transaction of its own
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
