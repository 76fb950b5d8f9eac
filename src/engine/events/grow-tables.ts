/** Makes the tables and columns that events need. */
import { LRUCache } from 'lru-cache';
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { Type } from '../../contract/schema.js';
import type { EventSettings } from '../../contract/wire/events.js';
import type { Project } from '../../db/project.js';
import { planCommit } from '../../db/transaction.js';
import { type Fragment, ident, join, type Raw, sql, type Statement, trusted } from '../../pg/index.js';
import { POSTGRES_TYPES, readTables, schemaOid, tablesToWrite } from '../catalog/catalog.js';
import { alterColumn } from '../schema/columns.js';
import { schemaChange, type SchemaOptions } from '../schema/schema-change.js';
import { ONE_TABLE_AT_A_TIME } from '../schema/tables.js';
import type { Wanted } from './event-rows.js';
import { type Columns, fixedTables } from './event-tables.js';

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
  const rows = await project.read(options, (db) => db.query(tablesToWrite(project.schema, [...fixed.keys()])));
  const others = readTables(project.schema, rows).flatMap(({ name, columns }) => {
    const types = new Map(columns.map((column) => [column.name, column.type]));
    const wrong = Object.entries({ id: 'TEXT', ...fixed.get(name) }).filter(
      ([column, type]) => (column === 'id' || types.has(column)) && types.get(column) !== type,
    );
    return wrong.map(([column, type]) => ({
      error: 'table_exists' as const,
      column,
      message: `Table "${name}": column "${column}" is ${types.get(column) ?? 'missing, or of another type'}, and events need ${type}`,
    }));
  });
  if (others.length > 0) {
    throw new EngineError('table_exists', others[0]?.message ?? '', {
      errors: others.slice(0, LIMITS.errorsListed),
      errorCount: others.length,
      hint: 'The project has tables of its own by names that events need. Rename them, or take events in another project.',
    });
  }
  await change(project, fixed, options);
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
  options: SchemaOptions,
): Promise<boolean> {
  const makeable = [...columns].filter(([table]) => !NOT_MADE.get(`${project.cacheKey} ${table}`));
  let hasChanged = makeable.length > 0;
  if (hasChanged) {
    const asColumns = makeable.map(([table, names]): [string, Columns] => [table, Object.fromEntries(names)]);
    const left = await change(project, new Map(asColumns), options);
    for (const table of left) NOT_MADE.set(`${project.cacheKey} ${table}`, true);
    refusedTables(left.length);
    hasChanged = left.length < makeable.length;
  }
  for (const [table, names] of wider) {
    for (const name of names) {
      const key = `${project.cacheKey} ${table} ${name}`;
      if (NOT_WIDENED.get(key)) continue;
      const widened = await alterColumn(
        project,
        table,
        name,
        { new_type: 'FLOAT' },
        { ...options, holdMs: WIDEN_MS },
      ).then(
        () => true,
        // Such as a large table, a view, or an integer that FLOAT would round. The value has no column then.
        (error: unknown) => {
          if (!(error instanceof EngineError)) throw error;
          NOT_WIDENED.set(key, true);
          return false;
        },
      );
      hasChanged ||= widened;
    }
  }
  return hasChanged;
}

/** @returns the tables that were not made, since the project has as many as it may have */
async function change(
  project: Project,
  wanted: ReadonlyMap<string, Columns>,
  options: SchemaOptions,
): Promise<string[]> {
  const { schema } = project;
  const { response } = await schemaChange(project, options, Type.Array(Type.String()), 'grows', async (db) => {
    const results = await db.run([ONE_TABLE_AT_A_TIME, tablesToWrite(schema, [...wanted.keys()]), countNamed(schema)]);
    const existing = new Set(readTables(schema, results[1]?.rows ?? []).map(({ name }) => name));
    const named = Number(results[2]?.rows[0]?.[0] ?? 0);
    let free = Math.min(LIMITS.eventTables - named, LIMITS.eventTablesAtOnce);
    const statements: Statement[] = [];
    const left: string[] = [];
    for (const [table, columns] of wanted) {
      if (existing.has(table)) statements.push(...addColumns(ident(schema, table), columns));
      else if (!('event_text' in columns) || table === 'tracks' || free-- > 0)
        statements.push(createTable(ident(schema, table), columns));
      else left.push(table);
    }
    return planCommit(left, statements);
  });
  return response;
}

/** How many tables for names of events there are. */
const countNamed = (schema: string): Statement => sql`
  SELECT pg_catalog.count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
  WHERE c.relnamespace = ${schemaOid(schema)} AND c.relkind = 'r' AND a.attname = 'event_text' AND NOT a.attisdropped`;

const createTable = (table: Raw, columns: Columns): Statement =>
  sql`CREATE TABLE ${table} (id pg_catalog.text PRIMARY KEY, ${join(Object.entries(columns).map(definition))})`;

const addColumns = (table: Raw, columns: Columns): Statement[] => {
  const added = Object.entries(columns).map((column) => sql`ADD COLUMN IF NOT EXISTS ${definition(column)}`);
  return added.length === 0 ? [] : [sql`ALTER TABLE ${table} ${join(added)}`];
};

const definition = ([name, type]: [string, keyof typeof POSTGRES_TYPES]): Fragment =>
  sql`${ident(name)} ${trusted(POSTGRES_TYPES[type])}`;
