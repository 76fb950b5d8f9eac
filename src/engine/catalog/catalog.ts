/**
 * Reads a project's tables from the system catalogs, inside the transaction that uses the result, so that the next
 * request sees every change, however it was made. The project's schema is in the search path: names are qualified, and
 * operands have exactly the types of an operator in pg_catalog, since one of the project's own could match better.
 */
import type { ColumnType } from '../../contract/column-types.js';
import { LIMITS } from '../../contract/limits.js';
import type { Distribution } from '../../contract/wire/distribution.js';
import { type Fragment, ident, literal, type Row, sql, type Statement } from '../../pg/index.js';
import { changeRunsCode, insertRunsCode, insertTrigger, ownTypes, updateTrigger } from './project-code.js';
import type { BatchColumn } from '../../codec/index.js';

/** The Postgres types of the six column types (contract section 4). */
export const POSTGRES_TYPES: Readonly<Record<ColumnType, string>> = {
  TEXT: 'pg_catalog.text',
  INTEGER: 'pg_catalog.int8',
  FLOAT: 'pg_catalog.float8',
  BOOLEAN: 'pg_catalog.bool',
  TIMESTAMP: 'pg_catalog.timestamptz',
  JSONB: 'pg_catalog.jsonb',
};

const TYPE_BY_OID: Readonly<Record<string, ColumnType>> = {
  '25': 'TEXT',
  '20': 'INTEGER',
  '701': 'FLOAT',
  '16': 'BOOLEAN',
  '1184': 'TIMESTAMP',
  '3802': 'JSONB',
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
  /** The same for an insert that may update rows. False if it was not requested. */
  readonly updateRunsProjectCode: boolean;
  /** A row of COPY can ask for a column's default: Postgres 16 and later. */
  readonly marksDefaults: boolean;
  /** Differs after every change of the columns; see {@link schemaUnchanged}. Empty if it was not requested. */
  readonly version: string;
  /** Of a table of a project on Citus, if requested. */
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
const ESTIMATED_ROWS = sql`GREATEST(
  LEAST(
    pg_catalog.pg_stat_get_live_tuples(c.oid),
    pg_catalog.pg_stat_get_tuples_inserted(c.oid) - pg_catalog.pg_stat_get_tuples_deleted(c.oid)),
  LEAST(c.reltuples, 1e15::pg_catalog.float4)::pg_catalog.int8, 0)`;

/** One row per column, or one row without a column; tables by name, columns by position. */
function describe(where: Fragment, toWrite: boolean): Statement {
  const comment = (text: Fragment) => (toWrite ? sql`NULL` : shownComment(text));
  // OFFSET 0 makes Postgres compute this once per table, not per column.
  const version = sql`(SELECT _cdp.table_version(c.oid::pg_catalog.regclass) AS version OFFSET 0)`;
  return sql`
    SELECT c.relname, c.relkind, ${comment(sql`pg_catalog.obj_description(c.oid, 'pg_class')`)},
      CASE WHEN c.relkind IN ('v', 'f') THEN NULL
        ELSE ${ESTIMATED_ROWS} END,
      x.needs_insert, x.needs_insert OR x.runs_code,
      ${toWrite ? sql`x.needs_insert OR x.runs_code OR ${updateTrigger}` : sql`NULL`},
      ${toWrite ? sql`v.version` : sql`NULL`},
      pg_catalog.current_setting('server_version_num')::pg_catalog.int4 >= 160000,
      a.attname,
      CASE WHEN a.atttypmod = -1 THEN a.atttypid END,
      pg_catalog.format_type(a.atttypid, -1),
      pg_catalog.format_type(a.atttypid, a.atttypmod),
      COALESCE(NULLIF(t.typbasetype, 0::pg_catalog.oid), t.oid) IN (114::pg_catalog.oid, 3802::pg_catalog.oid),
      t.typcategory = 'A',
      a.atthasdef OR a.attidentity <> '' OR t.typdefault IS NOT NULL OR c.relkind = 'v',
      a.attidentity = 'a',
      a.attname = 'id' AND a.atttypid = 2950::pg_catalog.oid AND EXISTS (
        SELECT FROM pg_catalog.pg_index i
        WHERE i.indrelid = c.oid AND i.indisprimary AND i.indnatts = 1 AND i.indkey[0] = a.attnum),
      ${comment(sql`pg_catalog.col_description(c.oid, a.attnum)`)},
      ${toWrite ? sql`NULL` : sql`a.attnotnull`},
      ${comment(sql`(SELECT ${DEFAULT_TEXT} FROM pg_catalog.pg_attrdef d
        WHERE d.adrelid = c.oid AND d.adnum = a.attnum AND a.attgenerated = '')`)}
    FROM pg_catalog.pg_class c CROSS JOIN LATERAL (SELECT
      c.relkind <> 'r' OR c.relispartition OR c.relhasrules OR c.relrowsecurity
        OR ${insertTrigger(sql`NOT g.tgisinternal`)} OR EXISTS (${ownTypes} AND y.typtype = 'd') AS needs_insert,
      ${toWrite ? insertRunsCode : changeRunsCode} AS runs_code OFFSET 0) x
    ${toWrite ? sql`CROSS JOIN LATERAL ${version} v` : sql``}
    LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND ${where}
    ORDER BY c.relname, a.attnum`;
}

/** The table of exactly this name, or nothing. */
export const tableByName = (schema: string, name: string): Statement => describe(named(schema, name), false);

/** The same for an insert, which needs the version and no comments. */
export const tableToWrite = (schema: string, name: string): Statement => describe(named(schema, name), true);

/** All tables of the schema. */
export const allTables = (schema: string): Statement => describe(sql`c.relnamespace = ${schemaOid(schema)}`, false);

/** Estimated bytes of a column in an answer, without its comment and default. */
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
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relnamespace = ${schemaOid(schema)}`;

const named = (schema: string, name: string): Fragment =>
  sql`c.relnamespace = ${schemaOid(schema)} AND c.relname = ${name}`;

/** Names of relations that a new table of this name would collide with, even if they differ only by case. */
export const collidingNames = (schema: string, name: string): Statement =>
  sql`SELECT relname FROM pg_catalog.pg_class
    WHERE relnamespace = ${schemaOid(schema)} AND ${spelledLike(name)}`;

/** Fails with a division by zero if such a relation exists. */
export const nameIsFree = (schema: string, name: string): Statement =>
  sql`SELECT 1 / CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_class
    WHERE relnamespace = ${schemaOid(schema)} AND ${spelledLike(name)}) THEN 0 ELSE 1 END`;

/**
 * A longer name has more upper- and lower-case spellings than are worth looking up one by one; all names are
 * compared.
 */
const MAX_LETTERS = 8;

/** @param name ASCII, as names of tables are */
function spelledLike(name: string): Fragment {
  const letters = name.replace(/[^a-z]/gi, '').length;
  if (letters > MAX_LETTERS) return sql`pg_catalog.lower(relname) = pg_catalog.lower(${name})`;
  const spellings = [...name].reduce(
    (begun, character) => {
      const cases = new Set([character.toLowerCase(), character.toUpperCase()]);
      return [...cases].flatMap((one) => begun.map((beginning) => beginning + one));
    },
    [''],
  );
  return sql`relname = ANY (${`{${spellings.join(',')}}`}::pg_catalog.name[])`;
}

/** Names of tables, for hints. */
export const tableNames = (schema: string): Statement =>
  sql`SELECT relname FROM pg_catalog.pg_class
    WHERE relnamespace = ${schemaOid(schema)} AND relkind IN ('r', 'p', 'v', 'm', 'f') LIMIT 10000`;

/** Views that use a column. */
export const viewsOnColumn = (schema: string, table: string, column: string): Statement =>
  sql`
    SELECT DISTINCT v.relname
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = ${column}
    JOIN pg_catalog.pg_depend d ON d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid
      AND d.refobjid = c.oid AND d.refobjsubid = a.attnum
      AND d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass::pg_catalog.oid
    JOIN pg_catalog.pg_rewrite r ON r.oid = d.objid
    JOIN pg_catalog.pg_class v ON v.oid = r.ev_class AND v.oid <> c.oid
    WHERE c.relnamespace = ${schemaOid(schema)} AND c.relname = ${table}
    ORDER BY 1`;

/** Reads the rows of {@link tableByName}, {@link tableToWrite} and {@link allTables}. */
export function readTables(schema: string, rows: readonly Row[]): Table[] {
  const tables = new Map<string, Table & { columns: Column[] }>();
  for (const [
    name,
    kind,
    comment,
    approximateRows,
    needsInsert,
    runsProjectCode,
    updateRuns,
    version,
    marks,
    ...column
  ] of rows) {
    if (name == null || kind == null) continue;
    const table = tables.get(name) ?? {
      schema,
      name,
      kind: KINDS[kind] ?? 'table',
      comment: comment ?? null,
      approximateRows: approximateRows == null ? null : Number(approximateRows),
      needsInsert: needsInsert === 't',
      runsProjectCode: runsProjectCode === 't',
      updateRunsProjectCode: updateRuns === 't',
      marksDefaults: marks === 't',
      version: version ?? '',
      columns: [],
    };
    tables.set(name, table);
    if (column[0] != null) table.columns.push(readColumn(column));
  }
  return [...tables.values()];
}

function readColumn([
  name,
  plainOid,
  sqlType,
  shownType,
  isJson,
  isArray,
  hasDefault,
  isGeneratedAlways,
  isId,
  comment,
  notNull,
  defaultText,
]: Row): Column {
  const isOfService = isId === 't' && defaultText === ID_DEFAULT;
  const type = TYPE_BY_OID[plainOid ?? ''] ?? null;
  return {
    name: name ?? '',
    type,
    sqlType: sqlType ?? '',
    displayType: type ?? shownType ?? '',
    isJson: isJson === 't',
    isArray: isArray === 't',
    hasDefault: hasDefault === 't',
    isGeneratedAlways: isGeneratedAlways === 't',
    isId: isId === 't',
    comment: comment ?? null,
    notNull: notNull === 't' && !isOfService,
    defaultText: isOfService ? null : (defaultText ?? null),
  };
}
