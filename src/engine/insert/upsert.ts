/**
 * The INSERTs of an upsert (Postgres manual, INSERT, ON CONFLICT): the result is the same as if the records came one
 * by one, in order.
 */
import type { Row } from '../../codec/index.js';
import { EngineError } from '../../contract/errors.js';
import { quoted } from '../../contract/message-text.js';
import type { Resolution } from '../../contract/wire/batch.js';
import {
  type Fragment,
  ident,
  join,
  readCommandTag,
  type Result,
  type Session,
  sql,
  type Statement,
} from '../../pg/index.js';
import type { Table } from '../catalog/catalog.js';
import { readUniqueKey, type UniqueKey, uniqueKey } from '../catalog/unique-key.js';
import { requireColumns } from '../catalog/find-table.js';
import { type BatchInsert, columnName, givenColumns, insertStatements, sourceRows } from './insert-statement.js';

export interface UpsertRule {
  /** The columns of a unique index. */
  readonly columns: readonly string[];
  readonly resolution: Resolution;
}

/**
 * The unique key that a rule or a request names.
 * @throws EngineError unknown_column, invalid_request
 */
export async function findKey(
  session: Session,
  table: Table,
  parameter: string,
  columns: readonly string[],
): Promise<UniqueKey> {
  requireColumns(table, columns, parameter);
  if (table.kind !== 'table') {
    throw new EngineError('invalid_request', `${parameter} needs a table, and ${quoted(table.name)} is not one`);
  }
  const key = readUniqueKey(table, columns, await session.query(uniqueKey(table, columns)));
  if (key !== null) return key;
  const list = columns.map((name) => quoted(name)).join(', ');
  throw new EngineError('invalid_request', `Table ${quoted(table.name)} has no unique index on ${list}`, {
    hint: `POST /api/cdp/schema/table/${table.name}/index ${JSON.stringify({ columns, unique: true })} creates one.`,
  });
}

interface StatementOptions {
  readonly returnIds: boolean;
  /** An upsert runs a statement for each record, even if all keys differ. */
  readonly oneByOne: boolean;
  readonly isOnCitus: boolean;
}

/**
 * Returns a function that makes the statements that store rows: INSERTs, or upserts by the key of the rule.
 * @throws EngineError unknown_column, invalid_request
 */
export async function storingStatements(
  session: Session,
  table: Table,
  upsert: UpsertRule | null,
  { returnIds, oneByOne, isOnCitus }: StatementOptions,
): Promise<(rows: readonly Row[]) => BatchInsert[]> {
  if (upsert === null) return (rows) => insertStatements(table, rows, { returnIds, isOnCitus });
  const key = await findKey(session, table, 'on_conflict', upsert.columns);
  const options = { returnIds, oneByOne: oneByOne || (returnIds && isOnCitus) };
  return (rows) => upsertStatements(table, rows, key, upsert.resolution, options);
}

/**
 * Each statement returns a row for each stored record: whether it was inserted, and with `returnIds` its id.
 * @param oneByOne a statement for each record, even if all keys differ
 */
function upsertStatements(
  table: Table,
  rows: readonly Row[],
  key: UniqueKey,
  resolution: Resolution,
  { returnIds, oneByOne }: { returnIds: boolean; oneByOne: boolean },
): BatchInsert[] {
  const findsIgnored = returnIds && resolution === 'ignore';
  return groups(rows, table, key, resolution, oneByOne || findsIgnored).flatMap((records) => {
    const group = records.map((record) => rows[record] as Row);
    const insert = { statement: checkedUpsert(table, group, key, resolution, returnIds), records };
    const [row = []] = group;
    const isKnown = key.columns.every((index) => row[index] !== undefined || !table.columns[index]?.hasDefault);
    return findsIgnored && isKnown ? [insert, { statement: selectId(table, row, key), records }] : [insert];
  });
}

/**
 * The records of a statement have the same columns and different keys: Postgres changes no row twice in a statement.
 * A group is sorted by key, so that concurrent requests lock rows in the same order; except if the first of two records
 * wins, and their texts do not show that their keys are equal.
 */
function groups(
  rows: readonly Row[],
  table: Table,
  key: UniqueKey,
  resolution: Resolution,
  oneByOne: boolean,
): number[][] {
  const seen = new Map<string, number>();
  const found = new Map<string, { turn: number; records: number[] }>();
  const keys = rows.map((row) => keyText(row, table, key));
  for (const [record, row] of rows.entries()) {
    const text = keys[record] ?? null;
    // The number of earlier records with this key.
    const turn = text === null ? 0 : (seen.get(text) ?? 0);
    if (text !== null) seen.set(text, turn + 1);
    const name = `${turn} ${givenColumns(table, [row]).join()}`;
    const group = found.get(name);
    if (group === undefined) found.set(name, { turn, records: [record] });
    else group.records.push(record);
  }
  const isSafe = found.size === 1 || (key.isComparedByText && keys.every((text) => text !== null));
  if (oneByOne || !isSafe) return rows.map((_, record) => [record]);
  const inTurn = [...found.values()].sort((a, b) => a.turn - b.turn).map(({ records }) => records);
  if (resolution === 'ignore' && !key.isComparedByText) return inTurn;
  const order = (a: number, b: number) => {
    const [one, other] = [keys[a] ?? '', keys[b] ?? ''];
    return one === other ? 0 : one < other ? -1 : 1;
  };
  return inTurn.map((records) => records.sort(order));
}

/** null: a part of the key is NULL or a default. */
function keyText(row: Row, { columns }: Table, key: UniqueKey): string | null {
  const cells = key.columns.map((index) => {
    const cell = row[index];
    return columns[index]?.isId === true ? cell?.toLowerCase() : cell;
  });
  return cells.some((cell) => cell == null) ? null : JSON.stringify(cells);
}

/** @param rows all have the same columns */
function checkedUpsert(
  table: Table,
  rows: readonly Row[],
  key: UniqueKey,
  resolution: Resolution,
  returnIds: boolean,
): Statement {
  const given = givenColumns(table, rows);
  const names = (columns: readonly number[]) => join(columns.map((index) => columnName(table, index)));
  const into = given.length === 0 ? sql`` : sql` (${names(given)})`;
  const source = sourceRows(table, given, rows);
  const target = sql`${ident(table.schema, table.name)} AS stored`;
  const isNew = key.isPartitioned ? wasNotThere(table, key) : IS_NEW;
  const returning = returnIds ? sql`${isNew}, stored.${ident('id')}` : isNew;
  return sql`INSERT INTO ${target}${into} ${source} ${onConflict(table, given, key, resolution)} RETURNING ${returning}`;
}

/** An updated row carries this transaction's lock in xmax; a new one has none. */
export const IS_NEW = sql`stored.xmax = '0'::pg_catalog.xid`;

/** By the statement's snapshot: a row that another request has inserted since counts as new. */
function wasNotThere(table: Table, key: UniqueKey): Fragment {
  const equal = hasKey(table, key, sql`before`, (index) => sql`stored.${columnName(table, index)}`);
  return sql`NOT EXISTS (SELECT FROM ${ident(table.schema, table.name)} AS before WHERE ${equal})`;
}

/** Whether a row has the values of a key. Not IS NOT DISTINCT FROM, for which Postgres uses no index. */
function hasKey(table: Table, key: UniqueKey, row: Fragment, valueOf: (index: number) => Fragment): Fragment {
  const equal = key.columns.map((index) => {
    const [cell, value] = [sql`${row}.${columnName(table, index)}`, valueOf(index)];
    return key.nullsAreEqual
      ? sql`(${cell} = ${value} OR (${cell} IS NULL AND ${value} IS NULL))`
      : sql`${cell} = ${value}`;
  });
  return join(equal, ' AND ');
}

/** The ON CONFLICT clause of an INSERT into `stored` with these columns. */
export function onConflict(
  table: Table,
  given: readonly number[],
  key: Pick<UniqueKey, 'columns' | 'identifying'>,
  resolution: Resolution,
): Fragment {
  const names = join(key.columns.map((index) => columnName(table, index)));
  if (resolution === 'ignore') return sql`ON CONFLICT (${names}) DO NOTHING`;
  return sql`ON CONFLICT (${names}) DO UPDATE SET ${join(changes(table, given, key, resolution))}`;
}

/**
 * The assignments to an existing row. It keeps its key: setting that would block transactions that refer to the row.
 */
function changes(
  table: Table,
  given: readonly number[],
  key: Pick<UniqueKey, 'columns' | 'identifying'>,
  resolution: Resolution,
): Fragment[] {
  const isGiven = new Set(given);
  const assignments = table.columns.flatMap(({ name }, index) => {
    if (key.columns.includes(index)) return [];
    if (isGiven.has(index)) return [sql`${ident(name)} = excluded.${ident(name)}`];
    return resolution === 'replace' && !key.identifying.has(name) ? [sql`${ident(name)} = DEFAULT`] : [];
  });
  if (assignments.length > 0) return assignments;
  const name = columnName(table, key.columns[0] ?? 0);
  return [sql`${name} = excluded.${name}`];
}

/** The id of the row that has the record's key. */
function selectId(table: Table, row: Row, key: UniqueKey): Statement {
  const equal = hasKey(table, key, sql`t`, (index) => sql`v.${ident(`c${index}`)}`);
  return sql`SELECT NULL, t.${ident('id')} FROM ${ident(table.schema, table.name)} AS t
    JOIN (${sourceRows(table, key.columns, [row])}) AS v ON ${equal}`;
}

export interface StoredRows {
  inserted: number;
  updated: number;
}

/** The sum of the counts in the command tags, such as `INSERT 0 250`. */
export const rowsStored = (results: readonly Result[]): number =>
  results.reduce((sum, { tag }) => sum + (readCommandTag(tag).count ?? 0), 0);

/** Counts the results of {@link upsertStatements}. */
export function countStored(results: readonly Result[]): StoredRows {
  const marks = results.flatMap(({ rows }) => rows.map(([mark]) => mark));
  return {
    inserted: marks.filter((mark) => mark === 't').length,
    updated: marks.filter((mark) => mark === 'f').length,
  };
}
