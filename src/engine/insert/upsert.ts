/**
 * The INSERTs of an upsert (Postgres manual, INSERT, ON CONFLICT): the result is the same as if the records came one
 * by one, in order.
 */
import type { EncodedBatch, RecordCells } from '../../codec/index.js';
import type { Resolution } from '../../contract/wire/batch.js';
import { type Fragment, ident, join, type Result, sql, type Statement, type Step, trusted } from '../../pg/index.js';
import { type Column, POSTGRES_TYPES, type Table } from '../catalog/catalog.js';
import type { UniqueKey } from '../catalog/unique-key.js';
import { type BatchInsert, columnName, givenColumns, sourceRows } from './insert-statement.js';

export interface UpsertRule {
  /** The columns of a unique index. */
  readonly columns: readonly string[];
  readonly resolution: Resolution;
  /** For `newest`: the column whose larger value wins. */
  readonly version?: string;
  /** Nothing is written for a row that has all the values of its record. */
  readonly skipsUnchanged?: true;
  /** An object in a JSONB column keeps the members that the record's object lacks. */
  readonly mergesJson?: true;
}

/** A row may stay as it is. */
const leavesRows = ({ resolution, skipsUnchanged }: UpsertRule): boolean =>
  resolution === 'ignore' || resolution === 'newest' || skipsUnchanged === true;

export interface StatementOptions {
  readonly returnIds: boolean;
  /** An upsert runs a statement for each record, even if all keys differ. */
  readonly oneByOne: boolean;
  /** The rows of the table may be on several machines. */
  readonly distributesTables: boolean;
}

/**
 * Each statement returns a row for each stored record: whether it was inserted, and with `returnIds` its id.
 * @param oneByOne a statement for each record, even if all keys differ
 */
export function upsertStatements(
  table: Table,
  rows: readonly RecordCells[],
  key: UniqueKey,
  rule: UpsertRule,
  { returnIds, oneByOne, distributesTables }: StatementOptions,
): BatchInsert[] {
  const findsIgnored = returnIds && leavesRows(rule);
  return groups(rows, table, key, rule.resolution, oneByOne || findsIgnored).flatMap((records) => {
    const group = records.map((record) => rows[record] as RecordCells);
    const insert = {
      statement: checkedUpsert(table, group, key, rule, { returnIds, distributesTables }),
      records,
    };
    const [row = []] = group;
    const isKnown = key.columns.every((index) => row[index] !== undefined || !table.columns[index]?.hasDefault);
    return findsIgnored && isKnown ? [insert, { statement: selectId(table, row, key), records }] : [insert];
  });
}

/** All values of the key are equal only if their texts are. */
const isComparedByText = (key: UniqueKey): boolean => key.comparedByText.length === key.columns.length;

/**
 * The records of a statement have the same columns and different keys: Postgres changes no row twice in a statement.
 * A group is sorted by key, so that concurrent requests lock rows in the same order; except if the first of two records
 * wins, and their texts do not show that their keys are equal.
 */
function groups(
  rows: readonly RecordCells[],
  table: Table,
  key: UniqueKey,
  resolution: Resolution,
  oneByOne: boolean,
): number[][] {
  const each = rows.map((_, record) => [record]);
  if (oneByOne) return each;
  const keys = rows.map((row) => keyText(row, table, key.columns));
  const whole = inTurn(rows, table, keys);
  if (whole.length === 1 && resolution === 'ignore' && !isComparedByText(key)) return whole;
  if (whole.length === 1 || (isComparedByText(key) && !keys.includes(null))) return sortedByKey(whole, keys);
  // Two times may be equal though their texts differ; but not two keys of which another column differs.
  const parts = rows.map((row) => keyText(row, table, key.comparedByText));
  if (key.comparedByText.length === 0 || parts.includes(null)) return each;
  return sortedByKey(inTurn(rows, table, parts), parts);
}

/** Records with the same columns and different keys, those that repeat a key after those that have it first. */
function inTurn(rows: readonly RecordCells[], table: Table, keys: readonly (string | null)[]): number[][] {
  const turns = new Map<string, number>();
  const groups = new Map<string, { turn: number; records: number[] }>();
  for (const [record, row] of rows.entries()) {
    const text = keys[record] ?? null;
    // The number of earlier records with this key.
    const turn = text === null ? 0 : (turns.get(text) ?? 0);
    if (text !== null) turns.set(text, turn + 1);
    const name = `${turn} ${givenColumns(table, [row]).join()}`;
    const group = groups.get(name);
    if (group === undefined) groups.set(name, { turn, records: [record] });
    else group.records.push(record);
  }
  return [...groups.values()].sort((a, b) => a.turn - b.turn).map(({ records }) => records);
}

function sortedByKey(groups: readonly number[][], keys: readonly (string | null)[]): number[][] {
  const order = (a: number, b: number) => {
    const [one, other] = [keys[a] ?? '', keys[b] ?? ''];
    return one === other ? 0 : one < other ? -1 : 1;
  };
  return groups.map((records) => records.sort(order));
}

/** null: a part of the key is NULL or a default. */
function keyText(row: RecordCells, { columns }: Table, key: readonly number[]): string | null {
  const cells = key.map((index) => {
    const cell = row[index];
    return columns[index]?.isId === true ? cell?.toLowerCase() : cell;
  });
  return cells.some((cell) => cell == null) ? null : JSON.stringify(cells);
}

/** @param rows all have the same columns */
function checkedUpsert(
  table: Table,
  rows: readonly RecordCells[],
  key: UniqueKey,
  rule: UpsertRule,
  { returnIds, distributesTables }: Pick<StatementOptions, 'returnIds' | 'distributesTables'>,
): Statement {
  const columns = givenColumns(table, rows);
  const { source, stored } = distributesTables
    ? { source: sourceRows(table, columns, rows), stored: [] }
    : passingConstraints(table, columns, rows, key, rule);
  const names = [...columns, ...stored].map((index) => columnName(table, index));
  const into = names.length === 0 ? sql`` : sql` (${join(names)})`;
  const target = sql`${ident(table.schema, table.name)} AS stored`;
  const isNew = key.isPartitioned ? wasNotThere(table, key) : IS_NEW;
  const returning = returnIds ? sql`${isNew}, stored.${ident('id')}` : isNew;
  return sql`INSERT INTO ${target}${into} ${source} ${onConflict(table, columns, key, rule)} RETURNING ${returning}`;
}

/**
 * Postgres checks the constraints of the row to insert before it looks for a conflict, so a record that omits a column
 * on which they depend would be refused, although its row exists. To merge, such columns take the values of the existing
 * row, which is locked so that nobody deletes it meanwhile; to ignore, records with an existing row are left out.
 * @returns the rows to insert, and the columns that they have besides those of the records
 */
function passingConstraints(
  table: Table,
  columns: readonly number[],
  rows: readonly RecordCells[],
  key: UniqueKey,
  rule: UpsertRule,
): { source: Fragment; stored: number[] } {
  const { resolution } = rule;
  const source = withoutUnchanged(table, columns, sourceRows(table, columns, rows), key, rule);
  const omitted = [...table.columns.keys()].filter(
    (index) => table.columns[index]?.isConstrained === true && !columns.includes(index),
  );
  const hasKeys = key.columns.every((index) => columns.includes(index));
  if (omitted.length === 0 || !hasKeys || resolution === 'replace') return { source, stored: [] };
  const row = sql`FROM ${ident(table.schema, table.name)} AS t
    WHERE ${hasKey(table, key, sql`t`, (index) => sql`v.${ident(`c${index}`)}`)}`;
  if (resolution === 'ignore')
    return { source: sql`SELECT v.* FROM (${source}) AS v WHERE NOT EXISTS (SELECT ${row})`, stored: [] };
  const values = join(omitted.map((index) => sql`t.${columnName(table, index)}`));
  return {
    source: sql`SELECT v.*, s.* FROM (${source}) AS v
      LEFT JOIN LATERAL (SELECT ${values} ${row} FOR NO KEY UPDATE) AS s ON true`,
    stored: omitted,
  };
}

/**
 * Leaves out records whose rows stay as they are by the statement's snapshot. ON CONFLICT would find these, too, but lock each,
 * which is a write. Only if the rows of the statement have different keys: of two records with one key, the first may make a
 * change that the second takes back.
 */
function withoutUnchanged(
  table: Table,
  columns: readonly number[],
  source: Fragment,
  key: UniqueKey,
  rule: UpsertRule,
): Fragment {
  const given = (index: number) => sql`v.${ident(`c${index}`)}`;
  const isKnown = isComparedByText(key) && !key.nullsAreEqual && !table.needsInsert;
  if (!isKnown || !key.columns.every((index) => columns.includes(index))) return source;
  const unchanged = staysAsItIs(table, columns, key, rule, sql`t`, (index) =>
    asStored(table.columns[index], given(index)),
  );
  if (unchanged === null || rule.resolution === 'replace') return source;
  return sql`SELECT v.* FROM (${source}) AS v WHERE NOT EXISTS (
    SELECT FROM ${ident(table.schema, table.name)} AS t WHERE ${hasKey(table, key, sql`t`, given)} AND ${unchanged})`;
}

/** A number or time of a limited precision, as the column would store it: in the rows of a batch it has all its digits. */
const asStored = (column: Column | undefined, value: Fragment): Fragment =>
  /^(numeric|time)/.test(column?.displayType ?? '')
    ? sql`CAST(${value} AS ${trusted(column?.displayType ?? '')})`
    : value;

/** An updated row carries this transaction's lock in xmax; a new one has none. */
const IS_NEW = sql`stored.xmax = '0'::pg_catalog.xid`;

/** By the statement's snapshot: a row that another request has inserted since counts as new. */
function wasNotThere(table: Table, key: UniqueKey): Fragment {
  const equal = hasKey(table, key, sql`before`, (index) => sql`stored.${columnName(table, index)}`);
  return sql`NOT EXISTS (SELECT FROM ${ident(table.schema, table.name)} AS before WHERE ${equal})`;
}

/** Whether a row has the values of a key. Not IS NOT DISTINCT FROM, for which Postgres uses no index. */
function hasKey(
  table: Table,
  key: Pick<UniqueKey, 'columns' | 'nullsAreEqual'>,
  row: Fragment,
  valueOf: (index: number) => Fragment,
): Fragment {
  const equal = key.columns.map((index) => {
    const [cell, value] = [sql`${row}.${columnName(table, index)}`, valueOf(index)];
    return key.nullsAreEqual
      ? sql`(${cell} = ${value} OR (${cell} IS NULL AND ${value} IS NULL))`
      : sql`${cell} = ${value}`;
  });
  return join(equal, ' AND ');
}

type KeyOfRows = Pick<UniqueKey, 'columns' | 'identifying'>;

/** The ON CONFLICT clause of an INSERT into `stored` with these columns. */
function onConflict(table: Table, columns: readonly number[], key: KeyOfRows, rule: UpsertRule): Fragment {
  const names = join(key.columns.map((index) => columnName(table, index)));
  if (rule.resolution === 'ignore') return sql`ON CONFLICT (${names}) DO NOTHING`;
  const given = (index: number) => sql`excluded.${columnName(table, index)}`;
  const changed = changedColumns(table, columns, key, rule).map((index) => {
    const value = columns.includes(index) ? newValue(table, index, rule, sql`stored`, given) : sql`DEFAULT`;
    return sql`${columnName(table, index)} = ${value}`;
  });
  const [first = 0] = key.columns;
  const changes = changed.length > 0 ? join(changed) : sql`${columnName(table, first)} = ${given(first)}`;
  const unchanged = staysAsItIs(table, columns, key, rule, sql`stored`, given);
  return sql`ON CONFLICT (${names}) DO UPDATE SET ${changes}${unchanged === null ? sql`` : sql` WHERE NOT (${unchanged})`}`;
}

/**
 * The columns that an existing row takes. It keeps its key: setting that would block transactions that refer to the row.
 */
function changedColumns(
  table: Table,
  columns: readonly number[],
  key: KeyOfRows,
  { resolution }: UpsertRule,
): number[] {
  const isGiven = new Set(columns);
  const takes = (index: number) =>
    isGiven.has(index) || (resolution === 'replace' && !key.identifying.has(table.columns[index]?.name ?? ''));
  return [...table.columns.keys()].filter((index) => !key.columns.includes(index) && takes(index));
}

/** What an existing row takes of a record. */
function newValue(
  table: Table,
  index: number,
  { mergesJson }: UpsertRule,
  row: Fragment,
  valueOf: (index: number) => Fragment,
): Fragment {
  const given = valueOf(index);
  if (!mergesJson || table.columns[index]?.type !== 'JSONB') return given;
  const stored = sql`${row}.${columnName(table, index)}`;
  const isObject = (value: Fragment) => sql`pg_catalog.jsonb_typeof(${value}) OPERATOR(pg_catalog.=) 'object'`;
  return sql`CASE WHEN ${isObject(stored)} AND ${isObject(given)} THEN ${stored} OPERATOR(pg_catalog.||) ${given} ELSE ${given} END`;
}

/**
 * A condition, which is never NULL: the rule leaves the row as it is. Values are compared by their bytes, which works for all
 * types, and finds a change that the type considers equal, such as that of a letter's case in citext.
 * @returns null: the rule changes every row
 */
function staysAsItIs(
  table: Table,
  columns: readonly number[],
  key: KeyOfRows,
  rule: UpsertRule,
  row: Fragment,
  valueOf: (index: number) => Fragment,
): Fragment | null {
  if (rule.resolution === 'newest') {
    const index = table.columns.findIndex(({ name }) => name === rule.version);
    if (!columns.includes(index)) return sql`true`;
    const [stored, given] = [sql`${row}.${columnName(table, index)}`, valueOf(index)];
    return sql`(${given} > ${stored} OR (${stored} IS NULL AND ${given} IS NOT NULL)) IS NOT TRUE`;
  }
  if (!rule.skipsUnchanged) return null;
  const changed = changedColumns(table, columns, key, rule);
  if (changed.length === 0) return sql`true`;
  const stored = join(changed.map((index) => sql`${row}.${columnName(table, index)}`));
  const given = join(changed.map((index) => newValue(table, index, rule, row, valueOf)));
  return sql`pg_catalog.record_image_eq(ROW(${stored}), ROW(${given}))`;
}

/** The id of the row that has the record's key. */
function selectId(table: Table, row: RecordCells, key: UniqueKey): Statement {
  const equal = hasKey(table, key, sql`t`, (index) => sql`v.${ident(`c${index}`)}`);
  return sql`SELECT NULL, t.${ident('id')} FROM ${ident(table.schema, table.name)} AS t
    JOIN (${sourceRows(table, key.columns, [row])}) AS v ON ${equal}`;
}

export interface StoredCounts {
  inserted: number;
  updated: number;
}

/** @param left records that neither inserted nor updated a row */
export const countsOfLeft = ({ skipsUnchanged, resolution }: UpsertRule, left: number) =>
  skipsUnchanged && resolution !== 'newest'
    ? { ignored_rows: 0, unchanged_rows: left }
    : { ignored_rows: left, ...(skipsUnchanged && { unchanged_rows: 0 }) };

/** Counts the results of {@link upsertStatements}. */
export function countStored(results: readonly Result[]): StoredCounts {
  const marks = results.flatMap(({ rows }) => rows.map(([mark]) => mark));
  return {
    inserted: marks.filter((mark) => mark === 't').length,
    updated: marks.filter((mark) => mark === 'f').length,
  };
}

// The upsert of the fast path: one INSERT … ON CONFLICT of an encoded batch, which takes an array for each column.
// It accepts batches whose records have the same columns and change no row twice; others take the checked path.

/**
 * Returns the number of rows inserted, and of all rows stored. Rows are sorted by key, so that concurrent requests lock
 * them in the same order, and within a key by their order in the batch.
 * @returns null: the batch needs the checked path
 */
export function fastUpsert(table: Table, rows: EncodedBatch, rule: UpsertRule): Step | null {
  const { columns: key, resolution, version } = rule;
  const batchColumns = rows.columns;
  const isMissing = (column: Column, index: number) => !column.isId && !batchColumns.includes(index);
  const needsAll = (column: Column) => resolution === 'replace' || column.isConstrained;
  if (table.columns.some((column, index) => isMissing(column, index) && needsAll(column))) return null;
  if (version !== undefined && !table.columns.some(({ name }) => name === version)) return null;
  const columns = key.map((name) => table.columns.findIndex((column) => column.name === name));
  const params = rows.columnArrays(table.columns);
  if (params === null || columns.some((index) => !batchColumns.includes(index))) return null;

  const names = join(batchColumns.map((index) => columnName(table, index)));
  const alias = (index: number) => sql`v.${ident(`c${index}`)}`;
  const arrays = batchColumns.map((index, i) => {
    const { type = null } = table.columns[index] ?? {};
    return trusted(`pg_catalog.unnest($${i + 1}::${type === null ? 'pg_catalog.uuid' : POSTGRES_TYPES[type]}[])`);
  });
  const aliases = join([...batchColumns.map((index) => ident(`c${index}`)), ident('n')]);
  const keyOrder = join(columns.map((index) => sorted(table, index, alias(index))));
  const rowsKey = { columns, identifying: new Set(['id']) };
  const clause = onConflict(table, batchColumns, rowsKey, rule);
  const all = sql`ROWS FROM (${join(arrays)}) WITH ORDINALITY AS v (${aliases})`;
  const unchanged = staysAsItIs(table, batchColumns, rowsKey, rule, sql`t`, alias);
  // As withoutUnchanged, but keys that occur twice are found here.
  const source =
    unchanged === null
      ? all
      : sql`(SELECT v.*, pg_catalog.count(*) OVER (PARTITION BY ${keyOrder}) AS same FROM ${all}) AS v
        WHERE v.same > 1::pg_catalog.int8 OR NOT EXISTS (SELECT FROM ${ident(table.schema, table.name)} AS t
          WHERE ${hasKey(table, { columns, nullsAreEqual: false }, sql`t`, alias)} AND ${unchanged})`;
  const { text } = sql`WITH result AS (
      INSERT INTO ${ident(table.schema, table.name)} AS stored (${names})
      SELECT ${join(batchColumns.map(alias))} FROM ${source}
      ORDER BY ${keyOrder}, v.n ${clause} RETURNING ${IS_NEW} AS is_new)
    SELECT pg_catalog.count(*) FILTER (WHERE is_new), pg_catalog.count(*) FROM result`;
  return { text, params };
}

/**
 * A sort expression with the collation of the column: under a nondeterministic collation, different texts may be the
 * same key.
 */
function sorted(table: Table, index: number, value: Fragment): Fragment {
  if (table.columns[index]?.type !== 'TEXT') return value;
  const { schema, name } = table;
  return sql`COALESCE(${value}, (SELECT t.${columnName(table, index)} FROM ${ident(schema, name)} AS t WHERE false))`;
}
