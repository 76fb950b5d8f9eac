/** What the way to read a table depends on: the columns that the token may read, and the table's indexes. */
import { quoted, quotedTable } from '../sql/sql-names.js';
import { currentSession } from '../session.js';
import { type Condition, inWords } from '../results/conditions.js';
import { orderOf, type RowsQuery } from './statement.js';

interface Index {
  /** btree, gin … */
  readonly method: string;
  /** null: an expression. */
  readonly columns: readonly (string | null)[];
  /** Whether its columns identify one row. */
  readonly isKey: boolean;
  readonly isPrimary: boolean;
}

export interface Shape {
  readonly readable: ReadonlySet<string>;
  /** Whether that is every column: others are not even listed. */
  readonly isWhole: boolean;
  readonly indexes: readonly Index[];
}

const SHAPE = `SELECT
    (SELECT coalesce(json_agg(attname), '[]') FROM pg_attribute
     WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND has_column_privilege(c.oid, attnum, 'SELECT')),
    (SELECT coalesce(json_agg(json_build_array(method, columns, is_key, indisprimary)), '[]') FROM (
      SELECT m.amname AS method, json_agg(a.attname ORDER BY k.n) AS columns, i.indisprimary,
        i.indisunique AND i.indimmediate AND bool_and(coalesce(a.attnotnull, false)) AS is_key
      FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am m ON m.oid = x.relam
      CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (attnum, n)
      LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
      WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NULL AND k.n <= i.indnkeyatts
      GROUP BY i.indexrelid, m.amname, i.indisprimary, i.indisunique, i.indimmediate
      ORDER BY i.indisprimary DESC, count(*), i.indexrelid) AS of_table),
    has_table_privilege(c.oid, 'SELECT')
  FROM pg_class c WHERE c.relnamespace = 'data'::regnamespace AND c.relname = $1`;

type Row = [
  readable: string[],
  indexes: [method: string, columns: (string | null)[], isKey: boolean, isPrimary: boolean][],
  isWhole: boolean,
];

/** @throws CdpError */
export async function readShape(table: string): Promise<Shape> {
  const { rows } = await currentSession().client.query<Row>(SHAPE, [table], { read_only: true, row_mode: 'array' });
  const [readable, indexes, isWhole] = rows[0] ?? [[], [], false];
  return {
    readable: new Set(readable),
    isWhole,
    indexes: indexes.map(([method, columns, isKey, isPrimary]) => ({ method, columns, isKey, isPrimary })),
  };
}

/** The columns to page by: the primary key, or those of another unique index without NULL. */
export function keyOf({ indexes, readable }: Shape): readonly string[] | null {
  const index = indexes.find(({ isKey, columns }) => isKey && columns.every((name) => readable.has(name ?? '')));
  return (index?.columns as readonly string[] | undefined) ?? null;
}

/** An index that is not there, without which a page reads the whole table. */
export interface Missing {
  readonly text: string;
  /** The statement that creates the index; null if none of this kind would help. */
  readonly create: string | null;
}

/** Rows of a table, below which it is read as a whole in no time. */
export const LARGE = 100_000;

/** The indexes without which the pages of a query take long. */
export function missingFor(query: RowsQuery, { indexes }: Shape): Missing[] {
  const missing: Missing[] = [];
  const { sort, conditions } = query;
  const leads = (column: string, methods: RegExp): boolean =>
    indexes.some((index) => index.columns[0] === column && methods.test(index.method));
  if (sort !== null && !leads(sort.column, /btree/)) {
    missing.push({
      text: `No index on “${sort.column}”: sorting reads the whole table.`,
      create: createIndex(query, sort.column),
    });
  }
  const isFound = ({ column, operator }: Condition): boolean => {
    if (operator === 'contains') return leads(column, /gin|gist/);
    if (operator === 'starts') return leads(column, /btree|gin|gist/);
    return operator !== '<>' && operator !== 'not null' && leads(column, operator === '=' ? /btree|hash/ : /btree/);
  };
  const [condition] = conditions;
  if (condition === undefined || conditions.some(isFound)) return missing;
  const helped = conditions.find(({ operator }) => !['contains', 'starts', '<>', 'not null'].includes(operator));
  missing.push(
    helped === undefined
      ? {
          text: `No index finds “${inWords(condition)}”: unless many rows match, it reads the whole table. Filter by an indexed column, too.`,
          create: null,
        }
      : {
          text: `No index on “${helped.column}”: unless many rows match, filtering reads the whole table.`,
          create: createIndex(query, helped.column),
        },
  );
  return missing;
}

/** An index that finds a value of the column, and has its rows in the order of the pages. */
const createIndex = (query: RowsQuery, column: string): string =>
  `CREATE INDEX ON ${quotedTable(query.table)} (${[...new Set([column, ...orderOf(query)])].map(quoted).join(', ')});`;
