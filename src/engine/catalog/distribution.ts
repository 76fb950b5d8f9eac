/**
 * Reads from Citus's catalog how the tables of a project are distributed, and why a table cannot be. Run these
 * statements with `search_path` set to pg_catalog: names have no schema.
 */
import type { Distribution } from '../../contract/wire/distribution.js';
import { type Fragment, ident, literal, type Row, sql, type Statement } from '../../pg/index.js';

type Kind = Distribution['kind'];

/**
 * For a row `p` of pg_dist_partition, or none. Citus also manages some local tables, for foreign keys that refer to
 * them.
 */
const KIND = sql`CASE WHEN p.partmethod = 'h' THEN 'hash' WHEN p.repmodel = 't' THEN 'reference' ELSE 'local' END`;
const COLUMN = sql`CASE WHEN p.partmethod = 'h' THEN column_to_column_name(p.logicalrelid, p.partkey) END`;

/** The distribution of each table of the schema, by name. */
export const distributions = (schema: string): Statement => sql`
  WITH shards AS (
    SELECT s.table_name::oid AS relation, s.shardid, n.nodeid, s.shard_size AS bytes
    FROM citus_shards s JOIN pg_dist_node n USING (nodename, nodeport)),
  nodes AS (
    SELECT relation, nodeid, count(*) AS shards, CASE WHEN bool_and(bytes IS NOT NULL) THEN sum(bytes) END AS bytes
    FROM shards GROUP BY relation, nodeid)
  SELECT c.relname, json_build_object('kind', ${KIND}, 'column', ${COLUMN},
    'colocated_with', (SELECT coalesce(json_agg(o.relname ORDER BY o.relname), '[]') FROM pg_dist_partition q
      JOIN pg_class o ON o.oid = q.logicalrelid
      WHERE p.partmethod = 'h' AND q.colocationid = p.colocationid AND q.logicalrelid <> p.logicalrelid),
    'shards', (SELECT count(DISTINCT shardid) FROM shards WHERE relation = c.oid),
    'nodes', (SELECT coalesce(json_agg(json_build_object('node', nodeid, 'shards', shards, 'bytes', bytes) ORDER BY nodeid), '[]')
      FROM nodes WHERE relation = c.oid),
    'skew', (SELECT round(max(bytes) / nullif(avg(bytes), 0), 2) FROM shards WHERE relation = c.oid AND p.partmethod = 'h'))
  FROM pg_class c LEFT JOIN pg_dist_partition p ON p.logicalrelid = c.oid
  WHERE c.relnamespace = ${schema}::regnamespace AND c.relkind IN ('r', 'p')`;

export const readDistributions = (rows: readonly Row[]): Map<string, Distribution> =>
  new Map(rows.map(([name, json]) => [name ?? '', JSON.parse(json ?? '') as Distribution]));

export interface CurrentDistribution {
  readonly kind: Kind;
  readonly column: string | null;
  /** Columns of the primary key. */
  readonly primaryKey: readonly string[];
  /** The name of its constraint; null: no primary key. */
  readonly primaryKeyName: string | null;
}

const regclass = (schema: string, tableName: string): Fragment =>
  sql`${literal(ident(schema, tableName).text)}::regclass`;

export const currentDistribution = (schema: string, tableName: string): Statement => sql`
  SELECT ${KIND}, ${COLUMN}, k.conname,
    (SELECT json_agg(a.attname ORDER BY u.place) FROM unnest(k.conkey) WITH ORDINALITY AS u (attnum, place)
      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = u.attnum)
  FROM pg_class c LEFT JOIN pg_dist_partition p ON p.logicalrelid = c.oid
    LEFT JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype = 'p'
  WHERE c.oid = ${regclass(schema, tableName)}`;

export const readCurrentDistribution = ([row]: readonly Row[]): CurrentDistribution => {
  const [kind, column, primaryKeyName, columns] = row ?? [];
  return {
    kind: (kind ?? 'local') as Kind,
    column: column ?? null,
    primaryKey: JSON.parse(columns ?? '[]') as string[],
    primaryKeyName: primaryKeyName ?? null,
  };
};

/**
 * Obstacles of any kind of distribution: features that Citus supports only for local tables, and foreign keys, which
 * need tables that are distributed alike. One row of text for each.
 */
export const obstaclesOfKind = (schema: string, tableName: string, kind: Kind): Statement => sql`
  WITH t AS (SELECT ${regclass(schema, tableName)}::oid AS oid)
  SELECT format('the trigger "%s"', g.tgname) FROM pg_trigger g, t
    WHERE g.tgrelid = t.oid AND NOT g.tgisinternal AND ${kind} <> 'local'
  UNION ALL SELECT format('the rule "%s"', r.rulename) FROM pg_rewrite r, t WHERE r.ev_class = t.oid AND ${kind} <> 'local'
  UNION ALL SELECT format('it inherits from %s', i.inhparent::regclass) FROM pg_inherits i, t WHERE i.inhrelid = t.oid
  UNION ALL SELECT format('%s inherits from it', i.inhrelid::regclass) FROM pg_inherits i, t, pg_class c
    WHERE i.inhparent = t.oid AND c.oid = t.oid AND c.relkind = 'r'
  UNION ALL SELECT format('the foreign key "%s" of %s refers to it', k.conname, k.conrelid::regclass) FROM pg_constraint k, t
    WHERE k.contype = 'f' AND k.confrelid = t.oid AND k.conrelid <> t.oid AND k.conparentid = 0
  UNION ALL SELECT format('the foreign key "%s" refers to %s, which is %s', k.conname, k.confrelid::regclass, ${KIND})
    FROM t, pg_constraint k LEFT JOIN pg_dist_partition p ON p.logicalrelid = k.confrelid
    WHERE k.contype = 'f' AND k.conrelid = t.oid AND k.confrelid <> t.oid AND ${kind} <> 'hash' AND ${KIND} <> ${kind}`;

/**
 * Obstacles to distributing a table by the column. A primary key of `id` alone is none: the column is added to it.
 * @param other the table to colocate it with; null: none
 */
export const obstaclesOfHash = (
  schema: string,
  tableName: string,
  column: string,
  other: string | null,
): Statement => sql`
  WITH t AS (SELECT a.attrelid AS oid, a.attnum, a.atttypid, a.attgenerated FROM pg_attribute a
      WHERE a.attrelid = ${regclass(schema, tableName)} AND a.attname = ${column}),
    o AS (SELECT ${KIND} AS kind, p.colocationid, a.atttypid FROM pg_class c
      LEFT JOIN pg_dist_partition p ON p.logicalrelid = c.oid
      LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = ${COLUMN}
      WHERE c.relnamespace = ${schema}::regnamespace AND c.relname = ${other}::name)
  SELECT format('the column is generated') FROM t WHERE t.attgenerated <> ''
  UNION ALL SELECT format('the %s "%s" does not have the column',
      CASE WHEN i.indisprimary THEN 'primary key' WHEN i.indisexclusion THEN 'exclusion constraint' ELSE 'unique index' END, x.relname)
    FROM t JOIN pg_index i ON i.indrelid = t.oid JOIN pg_class x ON x.oid = i.indexrelid
    WHERE (i.indisunique OR i.indisexclusion) AND NOT t.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
      AND NOT (i.indisprimary AND i.indnkeyatts = 1 AND EXISTS (SELECT FROM pg_attribute a
        WHERE a.attrelid = t.oid AND a.attnum = i.indkey[0] AND a.attname = 'id'))
  UNION ALL SELECT format('the foreign key "%s" refers to %s, which is %s', k.conname, k.confrelid::regclass,
      CASE WHEN k.confrelid = t.oid THEN 'the table itself, by other columns' WHEN ${KIND} = 'hash' THEN 'distributed otherwise' ELSE ${KIND} END)
    FROM t JOIN pg_constraint k ON k.conrelid = t.oid AND k.contype = 'f'
      LEFT JOIN pg_dist_partition p ON p.logicalrelid = k.confrelid
    WHERE coalesce(p.repmodel, '') <> 't' AND NOT (
      EXISTS (SELECT FROM unnest(k.conkey, k.confkey) AS u (own, referred)
        JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.referred
        WHERE u.own = t.attnum AND a.attname = CASE WHEN k.confrelid = t.oid THEN ${column}::name ELSE ${COLUMN}::name END)
      AND (k.confrelid = t.oid OR p.colocationid = (SELECT colocationid FROM o)))
  UNION ALL SELECT format('there is no table "%s"', ${other}::text) FROM t
    WHERE ${other}::text IS NOT NULL AND NOT EXISTS (SELECT FROM o)
  UNION ALL SELECT format('"%s" is not distributed by a column', ${other}::text) FROM o WHERE o.kind <> 'hash'
  UNION ALL SELECT format('the column is %s, and that of "%s" is %s', format_type(t.atttypid, NULL), ${other}::text,
      format_type(o.atttypid, NULL))
    FROM t, o WHERE o.kind = 'hash' AND o.atttypid <> t.atttypid`;
