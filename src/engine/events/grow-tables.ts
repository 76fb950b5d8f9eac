/** Makes the tables and columns that events need. */
import { LRUCache } from 'lru-cache';
import { ErrorCollector } from '../../contract/error-collector.js';
import { EngineError, type ErrorCode, type ErrorDetail } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { Type } from '../../contract/schema.js';
import type { EventSettings } from '../../contract/wire/events.js';
import type { Project } from '../../db/project.js';
import { planCommit } from '../../db/transaction.js';
import type { QueryRunner } from '../../db/query-runner.js';
import { type Fragment, ident, join, type Raw, type Row, sql, type Statement, trusted } from '../../pg/index.js';
import { POSTGRES_TYPES, readTables, schemaOid, type Table, tablesToWrite } from '../catalog/catalog.js';
import { findKey } from '../catalog/unique-key.js';
import { NO_RECORDS_FAULT } from '../insert/refused-records.js';
import { alterColumn } from '../schema/columns.js';
import { schemaChange, type SchemaOptions } from '../schema/schema-change.js';
import { ONE_TABLE_AT_A_TIME } from '../schema/tables.js';
import type { Wanted } from './event-rows.js';
import { type Columns, columnsOfNew, fixedTables, isFixed } from './event-tables.js';

/**
 * Makes the tables that every project with events has, and what they lack.
 * @throws EngineError table_exists naming every table that is another one; table_busy, quota_exceeded
 */
export async function makeFixedTables(
  project: Project,
  settings: EventSettings,
  options: SchemaOptions,
): Promise<void> {
  const fixed = fixedTables(settings);
  const errors = await project.read(options, async (db) => {
    const found = new ErrorCollector();
    const rows = await db.query(tablesToWrite(project.schema, [...fixed.keys()]));
    for (const table of readTables(project.schema, rows)) {
      for (const { error, ...detail } of await whatEventsLack(db, table, fixed.get(table.name) ?? {}))
        found.add(error, () => detail);
    }
    return found;
  });
  const hint =
    'The project has tables of its own by names that events need. Rename them, or take events in another project.';
  const error = errors.toError({ hint });
  if (error !== undefined) throw error;
  await change(project, fixed, settings, options);
}

/** Why a relation is not the table that events need. */
async function whatEventsLack(db: QueryRunner, table: Table, fixed: Columns): Promise<ErrorDetail[]> {
  const { name, kind, columns } = table;
  const taken = (message: string, column?: string): ErrorDetail[] => [
    { error: 'table_exists', ...(column !== undefined && { column }), message },
  ];
  if (kind !== 'table') return taken(`"${name}" is a ${kind.replace('_', ' ')}, and events need a table of that name`);
  const types = new Map(columns.map((column) => [column.name, column.displayType]));
  const errors = Object.entries({ id: 'TEXT', ...fixed }).flatMap(([column, needed]) => {
    const type = types.get(column);
    if (type === needed || (type === undefined && column !== 'id')) return [];
    return taken(`Table "${name}": column "${column}" is ${type ?? 'missing'}, and events need ${needed}`, column);
  });
  if (errors.length > 0) return errors;
  return findKey(db, table, 'events', ['id']).then(
    () => [],
    (error: unknown) => {
      if (!(error instanceof EngineError)) throw error;
      return taken(`Table "${name}": column "id" is no primary key, and events need one`, 'id');
    },
  );
}

/** Tables whose INTEGER columns could not become FLOAT, so that not every event tries again. */
const NOT_WIDENED = new LRUCache<string, true>({ max: 1_000, ttl: 600_000 });

/** Tables that a project could not have, so that not every event tries again. */
const NOT_MADE = new LRUCache<string, true>({ max: 10_000, ttl: 60_000 });

/** How long a change of type may hold a table of events. */
const WIDEN_MS = 1_000;

/**
 * Makes what the tables lack.
 * @param refusedTables told how many tables could not be made, since the project has as many as it may have
 * @returns whether anything may have changed
 * @throws EngineError table_busy, quota_exceeded
 */
export async function grow(
  project: Project,
  { columns, wider }: Wanted,
  refusedTables: (count: number) => void,
  settings: EventSettings,
  options: SchemaOptions,
): Promise<boolean> {
  const makeable = [...columns].filter(([table]) => !NOT_MADE.get(`${project.cacheKey} ${table}`));
  let hasChanged = makeable.length > 0;
  if (hasChanged) {
    const asColumns = makeable.map(([table, names]): [string, Columns] => [table, Object.fromEntries(names)]);
    const left = await change(project, new Map(asColumns), settings, options).catch((error: unknown) => {
      // Such as a type of the same name, or an event trigger that refuses. The values have no column then.
      if (!(error instanceof EngineError) || TEMPORARY.has(error.code)) throw error;
      return makeable.map(([table]) => table);
    });
    for (const table of left) NOT_MADE.set(`${project.cacheKey} ${table}`, true);
    refusedTables(left.length);
    hasChanged = left.length < makeable.length;
  }
  for (const [table, names] of wider) {
    for (const name of names) {
      if (await widen(project, table, name, options)) hasChanged = true;
    }
  }
  return hasChanged;
}

/** Makes an INTEGER column one of FLOAT, if that loses nothing. @returns whether it did */
async function widen(project: Project, table: string, column: string, options: SchemaOptions): Promise<boolean> {
  const key = `${project.cacheKey} ${table} ${column}`;
  if (NOT_WIDENED.get(key)) return false;
  try {
    await alterColumn(project, table, column, { new_type: 'FLOAT' }, { ...options, holdMs: WIDEN_MS });
    return true;
  } catch (error) {
    // Such as a large table, a view, or an integer that FLOAT would round. The value has no column then.
    if (!(error instanceof EngineError)) throw error;
    NOT_WIDENED.set(key, true);
    return false;
  }
}

/** The reasons for which nothing can be made now, and may be later. */
const TEMPORARY: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  ...NO_RECORDS_FAULT,
  'quota_exceeded',
  'outcome_unknown',
]);

/** @returns the tables that were not made: their name is taken, or the project has as many as it may have */
async function change(
  project: Project,
  wanted: ReadonlyMap<string, Columns>,
  settings: EventSettings,
  options: SchemaOptions,
): Promise<string[]> {
  const { schema } = project;
  const { response } = await schemaChange(project, options, Type.Array(Type.String()), 'grows', async (db) => {
    const names = [...wanted.keys()];
    const queries = [tablesToWrite(schema, names), relationsNamed(schema, names), countNamed(schema)];
    const [, tables, relations, count] = await db.run([ONE_TABLE_AT_A_TIME, ...queries]);
    const existing = new Set(eventTablesIn(schema, tables?.rows ?? []).map(({ name }) => name));
    const taken = new Set(relations?.rows.map(([name]) => name));
    const named = Number(count?.rows[0]?.[0] ?? 0);
    let free = Math.min(LIMITS.eventTables - named, LIMITS.eventTablesAtOnce);
    const statements: Statement[] = [];
    const left: string[] = [];
    for (const [table, columns] of wanted) {
      if (existing.has(table)) statements.push(...addColumns(ident(schema, table), columns));
      else if (!taken.has(table) && (isFixed(table) || free-- > 0))
        statements.push(createTable(ident(schema, table), { ...columnsOfNew(table, settings), ...columns }));
      else left.push(table);
    }
    return planCommit(left, statements);
  });
  return response;
}

/** The tables among relations; nothing can be stored in a view as events are. */
export const eventTablesIn = (schema: string, rows: readonly Row[]): Table[] =>
  readTables(schema, rows).filter(({ kind }) => kind === 'table');

/** The lower-case names of relations that have one of these in any case: tables, views, indexes and sequences share one namespace. */
const relationsNamed = (schema: string, names: readonly string[]): Statement => sql`
  SELECT pg_catalog.lower(relname) FROM pg_catalog.pg_class
  WHERE relnamespace = ${schemaOid(schema)} AND pg_catalog.lower(relname) = ANY (${names}::pg_catalog.text[])`;

/** How many tables for names of events there are, besides that of all. */
const countNamed = (schema: string): Statement => sql`
  SELECT pg_catalog.count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
  WHERE c.relnamespace = ${schemaOid(schema)} AND c.relkind = 'r' AND c.relname <> 'tracks'
    AND a.attname = 'event_text' AND NOT a.attisdropped`;

const createTable = (table: Raw, columns: Columns): Statement =>
  sql`CREATE TABLE ${table} (id pg_catalog.text PRIMARY KEY, ${join(Object.entries(columns).map(definition))})`;

const addColumns = (table: Raw, columns: Columns): Statement[] => {
  const added = Object.entries(columns).map((column) => sql`ADD COLUMN IF NOT EXISTS ${definition(column)}`);
  return added.length === 0 ? [] : [sql`ALTER TABLE ${table} ${join(added)}`];
};

const definition = ([name, type]: [string, keyof typeof POSTGRES_TYPES]): Fragment =>
  sql`${ident(name)} ${trusted(POSTGRES_TYPES[type])}`;
