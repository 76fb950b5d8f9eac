/**
 * Reads a project's tables from the system catalogs, inside the transaction that uses the result, so that the next
 * request sees every change, however it was made. The project's schema is in the search path: names are qualified, and
 * operands have exactly the types of an operator in pg_catalog, since one of the project's own could match better.
 */
import { type ColumnType, columnTypeOf } from '../../contract/column-types.js';
import { LIMITS } from '../../contract/limits.js';
import type { Distribution } from '../../contract/wire/distribution.js';
import type { Shown } from '../../db/query-runner.js';
import { type Fragment, ident, join, literal, type Row, sql, type Statement } from '../../pg/index.js';
import { changeRunsCode, insertRunsCode, insertTrigger, ownTypes, updateTrigger } from './project-code.js';
import type { BatchColumn } from '../../codec/index.js';

/** The Postgres types of the six column types (contract C5.1). */
export const POSTGRES_TYPES: Readonly<Record<ColumnType, string>> = {
  TEXT: 'pg_catalog.text',
  INTEGER: 'pg_catalog.int8',
  FLOAT: 'pg_catalog.float8',
  BOOLEAN: 'pg_catalog.bool',
  TIMESTAMP: 'pg_catalog.timestamptz',
  JSONB: 'pg_catalog.jsonb',
};

type TableKind = 'table' | 'view' | 'materialized_view' | 'foreign_table';

export interface Column extends BatchColumn {
  /**
   * The column's type as a SQL expression without type modifiers (`bigint`, `character varying`, `text[]`), for casts
   * from text. Deliberately without modifiers: an explicit cast to varchar(3) truncates silently; an assignment fails.
   */
  readonly sqlType: string;
  readonly comment: string | null;
  /** False if the table was read for an insert, and for the `id` that the service creates. */
  readonly notNull: boolean;
  /**
   * A row that lacks it may be refused: it is NOT NULL or part of a CHECK constraint, and has no default. False if it was
   * not requested.
   */
  readonly isConstrained: boolean;
  /** The expression of its default, cut as comments are; null in the cases in which `notNull` is false. */
  readonly defaultText: string | null;
}

export interface Table {
  readonly schema: string;
  readonly name: string;
  readonly kind: TableKind;
  readonly columns: readonly Column[];
  readonly comment: string | null;
  /** From Postgres's statistics; null if there are none (views). */
  readonly approximateRows: number | null;
  /**
   * COPY may behave differently from INSERT, or not as the cached schema says: views, partitions, rules, row level
   * security, triggers that may skip a record, and domains, whose default may change without the table.
   */
  readonly needsInsert: boolean;
  /**
   * The operation can run code of the project: triggers, rules, foreign keys, defaults, checks and index expressions.
   * For an insert, the last three count only if they are not known to run only Postgres's own functions.
   */
  readonly runsProjectCode: boolean;
  /** As `runsProjectCode`, for an insert that may update rows. False if it was not requested. */
  readonly updateRunsProjectCode: boolean;
  /** A row of COPY can ask for a column's default: Postgres 16 and later. */
  readonly marksDefaults: boolean;
  /** Differs after every change of the columns; see {@link schemaUnchanged}. Empty if it was not requested. */
  readonly version: string;
  /** How a table of a project on Citus is distributed, if requested. */
  readonly distribution?: Distribution;
}

const KINDS: Readonly<Record<string, TableKind>> = {
  r: 'table',
  p: 'table',
  v: 'view',
  m: 'materialized_view',
  f: 'foreign_table',
};

export const schemaOid = (schema: string): Fragment => sql`${schema}::pg_catalog.regnamespace::pg_catalog.oid`;

/** Comments are cut: free SQL can make the comment of every column as large as memory. */
const shownComment = (comment: Fragment): Fragment => sql`pg_catalog.left(${comment}, ${LIMITS.commentCharacters})`;

/** Defaults refer to no column, so no table is named: with its oid, pg_get_expr would wait for locks on the table. */
const DEFAULT_TEXT = sql`pg_catalog.pg_get_expr(d.adbin, 0::pg_catalog.oid)`;

const ID_DEFAULT = '_cdp.uuid_v7()';

/**
 * Fails with a division by zero unless the table still has this version. Run it as a prepared statement after an
 * insert, in the same transaction: by then the insert's lock prevents changes. The statement names the table in a
 * constant, so Postgres replans it, and reads the version again, only after the table has changed; otherwise it costs
 * no more than `SELECT 1`. Even its operators are qualified: a trigger of the insert may have changed the search path.
 */
export function schemaUnchanged({ schema, name, version }: Table): Statement {
  const table = literal(ident(schema, name).text);
  return sql`SELECT 1 OPERATOR(pg_catalog./) (_cdp.table_version(${table}::pg_catalog.regclass)
      OPERATOR(pg_catalog.=) ${literal(version)}::pg_catalog.text)::pg_catalog.int4`;
}

/**
 * None of the three is exact. Rows that are reported after an ANALYZE has seen them count as live tuples twice,
 * during an import up to a second's worth. The inserted tuples include those rolled back. A crash of Postgres resets
 * both counts, but not reltuples. A project may import any reltuples (`pg_restore_relation_stats`), so they are bounded
 * before the cast. NaN sorts last.
 */
const estimatedRows = (relation: Fragment): Fragment => sql`GREATEST(
  LEAST(
    pg_catalog.pg_stat_get_live_tuples(${relation}.oid),
    pg_catalog.pg_stat_get_tuples_inserted(${relation}.oid) - pg_catalog.pg_stat_get_tuples_deleted(${relation}.oid)),
  LEAST(${relation}.reltuples, 1e15::pg_catalog.float4)::pg_catalog.int8, 0)`;

/** A partitioned table has the rows of its partitions. */
const APPROXIMATE_ROWS = sql`CASE
  WHEN c.relkind IN ('v', 'f') THEN NULL
  WHEN c.relkind = 'p' THEN (SELECT COALESCE(pg_catalog.sum(${estimatedRows(sql`l`)}), 0)::pg_catalog.int8
    FROM pg_catalog.pg_partition_tree(c.oid::pg_catalog.regclass) p
    JOIN pg_catalog.pg_class l ON l.oid = p.relid::pg_catalog.oid WHERE p.isleaf)
  ELSE ${estimatedRows(sql`c`)} END`;

const idIsPrimaryKey = sql`EXISTS (
        SELECT FROM pg_catalog.pg_index i
        WHERE i.indrelid = c.oid AND i.indisprimary AND i.indnatts = 1 AND i.indkey[0] = a.attnum)`;

const HAS_DEFAULT = sql`a.atthasdef OR a.attidentity <> '' OR t.typdefault IS NOT NULL OR c.relkind = 'v'`;

/** What is read of a table and one of its columns, by name. */
function fieldsOf(toWrite: boolean) {
  const unlessToWrite = (field: Fragment) => (toWrite ? sql`NULL` : field);
  const onlyToWrite = (field: Fragment) => (toWrite ? field : sql`NULL`);
  const comment = (text: Fragment) => unlessToWrite(shownComment(text));
  return {
    table: sql`c.relname`,
    kind: sql`c.relkind`,
    tableComment: comment(sql`pg_catalog.obj_description(c.oid, 'pg_class')`),
    approximateRows: APPROXIMATE_ROWS,
    needsInsert: sql`x.needs_insert`,
    runsProjectCode: sql`x.needs_insert OR x.runs_code`,
    updateRunsProjectCode: onlyToWrite(sql`x.needs_insert OR x.runs_code OR ${updateTrigger}`),
    version: onlyToWrite(sql`v.version`),
    marksDefaults: sql`pg_catalog.current_setting('server_version_num')::pg_catalog.int4 >= 160000`,
    column: sql`a.attname`,
    plainOid: sql`CASE WHEN a.atttypmod = -1 THEN a.atttypid END`,
    sqlType: sql`pg_catalog.format_type(a.atttypid, -1)`,
    displayType: sql`pg_catalog.format_type(a.atttypid, a.atttypmod)`,
    isJson: sql`COALESCE(NULLIF(t.typbasetype, 0::pg_catalog.oid), t.oid) IN (114::pg_catalog.oid, 3802::pg_catalog.oid)`,
    isArray: sql`t.typcategory = 'A'`,
    hasDefault: HAS_DEFAULT,
    isGeneratedAlways: sql`a.attidentity = 'a' OR a.attgenerated <> ''`,
    isId: sql`a.attname = 'id' AND a.atttypid = 2950::pg_catalog.oid AND ${idIsPrimaryKey}`,
    columnComment: comment(sql`pg_catalog.col_description(c.oid, a.attnum)`),
    notNull: unlessToWrite(sql`a.attnotnull`),
    isConstrained: onlyToWrite(sql`NOT (${HAS_DEFAULT}) AND (a.attnotnull OR t.typnotnull OR EXISTS (
        SELECT FROM pg_catalog.pg_constraint k
        WHERE k.conrelid = c.oid AND k.contype = 'c' AND a.attnum = ANY (k.conkey)))`),
    defaultText: comment(sql`(SELECT ${DEFAULT_TEXT} FROM pg_catalog.pg_attrdef d
        WHERE d.adrelid = c.oid AND d.adnum = a.attnum AND a.attgenerated = '')`),
  };
}

type Field = keyof ReturnType<typeof fieldsOf>;

const FIELDS = Object.keys(fieldsOf(false)) as Field[];

/** Conditions: the role of the session may do something with the table, and with the column. */
const MAY_USE = sql`(pg_catalog.has_table_privilege(c.oid, 'SELECT, INSERT, UPDATE, DELETE')
  OR pg_catalog.has_any_column_privilege(c.oid, 'SELECT, INSERT, UPDATE'))`;
const MAY_USE_COLUMN = sql`pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT, INSERT, UPDATE')`;

/** One row per column, or one row without a column; tables by name, columns by position. */
function selectTables(where: Fragment, toWrite: boolean, shown: Shown = 'all'): Statement {
  const [tables, columns] = shown === 'all' ? [where, sql`true`] : [sql`${where} AND ${MAY_USE}`, MAY_USE_COLUMN];
  // OFFSET 0 makes Postgres compute this once per table, not per column.
  const version = sql`(SELECT _cdp.table_version(c.oid::pg_catalog.regclass) AS version OFFSET 0)`;
  return sql`
    SELECT ${join(Object.values(fieldsOf(toWrite)))}
    FROM pg_catalog.pg_class c CROSS JOIN LATERAL (SELECT
      c.relkind <> 'r' OR c.relispartition OR c.relhasrules OR c.relrowsecurity
        OR ${insertTrigger(sql`NOT g.tgisinternal`)} OR EXISTS (${ownTypes} AND y.typtype = 'd') AS needs_insert,
      ${toWrite ? insertRunsCode : changeRunsCode} AS runs_code OFFSET 0) x
    ${toWrite ? sql`CROSS JOIN LATERAL ${version} v` : sql``}
    LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND ${columns}
    LEFT JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND ${tables}
    ORDER BY c.relname, a.attnum`;
}

/** The table of exactly this name, or nothing. */
export const tableByName = (schema: string, tableName: string, shown?: Shown): Statement =>
  selectTables(isNamed(schema, tableName), false, shown);

/** The same for an insert, which needs the version and no comments. */
export const tableToWrite = (schema: string, tableName: string): Statement =>
  selectTables(isNamed(schema, tableName), true);

/** The same for the tables of these names that there are. */
export const tablesToWrite = (schema: string, tableNames: readonly string[]): Statement =>
  selectTables(sql`c.relnamespace = ${schemaOid(schema)} AND c.relname = ANY (${tableNames}::pg_catalog.name[])`, true);

/** Partitions are parts of their table, and no tables of their own. */
const isListed = (schema: string): Fragment => sql`c.relnamespace = ${schemaOid(schema)} AND NOT c.relispartition`;

export const allTables = (schema: string, shown: Shown): Statement => selectTables(isListed(schema), false, shown);

/** Estimated bytes of a column in a response, without its comment and default. */
const COLUMN_BYTES = 300;

const shownBytes = (text: Fragment): Fragment =>
  sql`LEAST(pg_catalog.octet_length(COALESCE(${text}, '')), ${literal(String(LIMITS.commentCharacters))}::pg_catalog.int4)`;

/** An estimate of the bytes that describe all tables of the schema, with their columns' comments and defaults. */
export const schemaBytes = (schema: string): Statement =>
  sql`
    SELECT pg_catalog.count(*) * ${literal(String(COLUMN_BYTES))}::pg_catalog.int8
      + COALESCE(pg_catalog.sum(${shownBytes(sql`t.description`)} + ${shownBytes(DEFAULT_TEXT)}), 0::pg_catalog.int8)
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_catalog.pg_description t ON t.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid
      AND t.objoid = c.oid AND t.objsubid = a.attnum
    LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum AND a.attgenerated = ''
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND ${isListed(schema)}`;

const isNamed = (schema: string, tableName: string): Fragment =>
  sql`c.relnamespace = ${schemaOid(schema)} AND c.relname = ${tableName}`;

/**
 * Names of relations with which this one would collide, even if they differ only by case.
 * @param name ASCII, as names of tables are
 */
export const collidingNames = (schema: string, name: string): Statement =>
  sql`SELECT relname FROM pg_catalog.pg_class
    WHERE relnamespace = ${schemaOid(schema)} AND pg_catalog.lower(relname) = ${name.toLowerCase()}`;

/** Names of tables, for hints. */
export const tableNames = (schema: string, shown: Shown): Statement =>
  sql`SELECT c.relname FROM pg_catalog.pg_class c
    WHERE c.relnamespace = ${schemaOid(schema)} AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
      AND ${shown === 'all' ? sql`true` : MAY_USE} LIMIT 10000`;

/** Views that use a column. */
export const viewsOnColumn = (schema: string, tableName: string, column: string): Statement =>
  sql`
    SELECT DISTINCT v.relname
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = ${column}
    JOIN pg_catalog.pg_depend d ON d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid
      AND d.refobjid = c.oid AND d.refobjsubid = a.attnum
      AND d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass::pg_catalog.oid
    JOIN pg_catalog.pg_rewrite r ON r.oid = d.objid
    JOIN pg_catalog.pg_class v ON v.oid = r.ev_class AND v.oid <> c.oid
    WHERE c.relnamespace = ${schemaOid(schema)} AND c.relname = ${tableName}
    ORDER BY 1`;

/** Reads the rows of {@link tableByName}, {@link tableToWrite}, {@link tablesToWrite} and {@link allTables}. */
export function readTables(schema: string, rows: readonly Row[]): Table[] {
  const tables = new Map<string, Table & { columns: Column[] }>();
  for (const row of rows.map(byColumn)) {
    const { table: name, kind, approximateRows } = row;
    if (name === null || kind === null) continue;
    const table = tables.get(name) ?? {
      schema,
      name,
      kind: KINDS[kind] ?? 'table',
      comment: row.tableComment,
      approximateRows: approximateRows === null ? null : Number(approximateRows),
      needsInsert: row.needsInsert === 't',
      runsProjectCode: row.runsProjectCode === 't',
      updateRunsProjectCode: row.updateRunsProjectCode === 't',
      marksDefaults: row.marksDefaults === 't',
      version: row.version ?? '',
      columns: [],
    };
    tables.set(name, table);
    if (row.column !== null) table.columns.push(readColumn(row.column, row));
  }
  return [...tables.values()];
}

type NamedRow = Readonly<Record<Field, string | null>>;

const byColumn = (row: Row): NamedRow =>
  Object.fromEntries(FIELDS.map((field, i) => [field, row[i] ?? null])) as Record<Field, string | null>;

function readColumn(name: string, row: NamedRow): Column {
  const isId = row.isId === 't';
  const isServiceDefault = isId && row.defaultText === ID_DEFAULT;
  const type = columnTypeOf(Number(row.plainOid)) ?? null;
  return {
    name,
    type,
    sqlType: row.sqlType ?? '',
    displayType: type ?? row.displayType ?? '',
    isJson: row.isJson === 't',
    isArray: row.isArray === 't',
    hasDefault: row.hasDefault === 't',
    isGeneratedAlways: row.isGeneratedAlways === 't',
    isId,
    comment: row.columnComment,
    notNull: row.notNull === 't' && !isServiceDefault,
    isConstrained: row.isConstrained === 't',
    defaultText: isServiceDefault ? null : row.defaultText,
  };
}
