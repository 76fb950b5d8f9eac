/** What the page of a table shows in addition to the catalog: its size, the rules of its columns, its indexes. */
import type { Index } from '../../../src/client/index.js';
import { currentSession, hasScope } from '../session.js';

export interface ColumnRules {
  readonly notNull: boolean;
  /** An expression; null: there is no default. */
  readonly default: string | null;
}

export interface TableDetails {
  /** Bytes on disk including indexes; undefined if the token may not run SQL, or the table is locked at the moment. */
  readonly bytes: number | undefined;
  /** By column name; empty in the same cases. */
  readonly rules: ReadonlyMap<string, ColumnRules>;
  readonly indexes: readonly Index[];
}

const SIZE = `SELECT pg_total_relation_size(oid) FROM pg_class
  WHERE relnamespace = 'data'::regnamespace AND relkind IN ('r', 'm', 'p') AND relname = $1`;

const RULES = `SELECT attname, attnotnull, pg_get_expr(adbin, adrelid)
  FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
  WHERE attrelid = (SELECT oid FROM pg_class WHERE relnamespace = 'data'::regnamespace AND relname = $1)
    AND attnum > 0 AND NOT attisdropped`;

/** The details are optional: what cannot be read is left out. */
export async function readDetails(table: string, hasIndexes: boolean): Promise<TableDetails> {
  const [sizes, rules, indexes] = await Promise.all([
    query<[number]>(SIZE, [table]),
    query<[name: string, notNull: boolean, fallback: string | null]>(RULES, [table]),
    hasIndexes && hasScope('schema:read')
      ? currentSession()
          .client.indexes(table)
          // Without indexes, the rest of the table is shown.
          .catch(() => [])
      : [],
  ]);
  return {
    bytes: sizes[0]?.[0],
    rules: new Map(rules.map(([name, notNull, fallback]) => [name, { notNull, default: fallback }])),
    indexes,
  };
}

const LARGEST = `SELECT relname, pg_total_relation_size(oid) FROM pg_class
  WHERE relnamespace = 'data'::regnamespace AND relkind IN ('r', 'm') ORDER BY 2 DESC, 1 LIMIT 20`;

/** The largest tables with their bytes on disk including indexes; empty if the token may not run SQL. */
export const readLargest = (): Promise<[name: string, bytes: number][]> => query(LARGEST, []);

/** The rows of a read-only statement, as arrays; empty if the token may not run it, or it fails. */
export async function query<Row>(sql: string, params: readonly string[]): Promise<Row[]> {
  if (!hasScope('sql:read')) return [];
  try {
    const options = { read_only: true, row_mode: 'array', timeout_ms: 5_000 } as const;
    return (await currentSession().client.query<Row>(sql, params, options)).rows;
  } catch {
    return [];
  }
}
