/** Unique keys of a project's tables, for requests that identify rows by one. */
import { EngineError } from '../../contract/errors.js';
import { quoted } from '../../contract/message-text.js';
import type { QueryRunner } from '../../db/query-runner.js';
import { ident, PostgresError, type Row, sql, SQLSTATE, type Statement } from '../../pg/index.js';
import type { Table } from './catalog.js';
import { requireColumns } from './find-table.js';

export interface UniqueKey {
  /** Indices of its columns in the table. */
  readonly columns: readonly number[];
  /** Those of its columns whose values are equal only if their texts are. */
  readonly comparedByText: readonly number[];
  /** NULLS NOT DISTINCT: at most one row has NULL in the key. */
  readonly nullsAreEqual: boolean;
  /** The table is partitioned: it does not return system columns. */
  readonly isPartitioned: boolean;
  /** Names of the columns that identify a row: primary key and identity columns. */
  readonly identifying: ReadonlySet<string>;
}

/**
 * The unique key that a rule or a request names.
 * @throws EngineError unknown_column, invalid_request
 */
export async function findKey(
  db: QueryRunner,
  table: Table,
  parameter: string,
  columns: readonly string[],
): Promise<UniqueKey> {
  requireColumns(table, columns, parameter);
  if (table.kind !== 'table') {
    throw new EngineError('invalid_request', `${parameter} needs a table, and ${quoted(table.name)} is not one`);
  }
  const key = readUniqueKey(table, columns, await db.query(uniqueKey(table, columns)));
  if (key !== null) return key;
  const list = columns.map((name) => quoted(name)).join(', ');
  throw new EngineError('invalid_request', `Table ${quoted(table.name)} has no unique index on ${list}`, {
    hint: `POST /api/cdp/schema/table/${table.name}/index ${JSON.stringify({ columns, unique: true })} creates one.`,
  });
}

/**
 * The values of the column can be compared. Ends the transaction if they cannot.
 * @throws EngineError unknown_column, invalid_request
 */
export async function requireOrder(db: QueryRunner, table: Table, parameter: string, name: string): Promise<void> {
  requireColumns(table, [name], parameter);
  const column = ident(name);
  try {
    await db.query(sql`SELECT t.${column} > t.${column} FROM ${ident(table.schema, table.name)} AS t LIMIT 0`);
  } catch (error) {
    if (!(error instanceof PostgresError && error.sqlstate === SQLSTATE.UNDEFINED_FUNCTION)) throw error;
    const { displayType = '' } = table.columns.find((one) => one.name === name) ?? {};
    const message = `${parameter}: values of ${displayType} have no order, so column ${quoted(name)} cannot say which is newer`;
    throw new EngineError('invalid_request', message, { cause: error });
  }
}

/** For {@link readUniqueKey}. An index that is partial, deferrable or on an expression does not count. */
const uniqueKey = ({ schema, name }: Table, columns: readonly string[]): Statement => sql`
  WITH c AS (
    SELECT oid, relkind FROM pg_catalog.pg_class
    WHERE relnamespace = ${schema}::pg_catalog.regnamespace::pg_catalog.oid AND relname = ${name})
  SELECT
    (SELECT pg_catalog.bool_or(i.indnullsnotdistinct) FROM pg_catalog.pg_index i
      WHERE i.indrelid = c.oid AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL
        AND i.indnkeyatts = ${columns.length}::pg_catalog.int2 AND ARRAY(
          SELECT a.attname::pg_catalog.text
          FROM pg_catalog.generate_series(0, i.indnkeyatts::pg_catalog.int4 - 1) AS k
          LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[k]
        ) OPERATOR(pg_catalog.<@) ${columns}::pg_catalog.text[]),
    (SELECT pg_catalog.json_agg(a.attname)
      FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation
      WHERE a.attrelid = c.oid AND a.attname = ANY (${columns}::pg_catalog.name[])
        AND a.atttypid::pg_catalog.regtype::pg_catalog.text = ANY ('{text,bigint,boolean,uuid}')
        AND l.collisdeterministic IS NOT FALSE),
    (SELECT pg_catalog.json_agg(a.attname) FROM pg_catalog.pg_attribute a
      WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND (a.attidentity <> '' OR EXISTS (
        SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND a.attnum = ANY (i.indkey)))),
    c.relkind = 'p'
  FROM c`;

/** null: no such key. Several indexes may have the same columns. */
function readUniqueKey(table: Table, columns: readonly string[], [row]: readonly Row[]): UniqueKey | null {
  const [nullsAreEqual, comparedByText, identifying, isPartitioned] = row ?? [];
  if (nullsAreEqual == null) return null;
  const indexOf = (column: string) => table.columns.findIndex(({ name }) => name === column);
  return {
    columns: columns.map(indexOf),
    comparedByText: (JSON.parse(comparedByText ?? '[]') as string[]).map(indexOf),
    nullsAreEqual: nullsAreEqual === 't',
    isPartitioned: isPartitioned === 't',
    identifying: new Set(JSON.parse(identifying ?? '[]') as string[]),
  };
}
