/**
 * Stores an encoded batch with one INSERT … ON CONFLICT that takes an array per column, and checks the schema as for
 * a COPY. It accepts batches whose records have the same columns and change no row twice; others take the checked path.
 */
import type { EncodedBatch } from '../../codec/index.js';
import { BatchAnswer } from '../../contract/wire/batch.js';
import { type Fragment, ident, join, PostgresError, sql, type Step, trusted } from '../../pg/index.js';
import type { Lease } from '../../tenancy/connections/connections.js';
import { type Column, POSTGRES_TYPES, type Table } from '../catalog/catalog.js';
import type { IdempotencyKey } from '../write/idempotency.js';
import type { Deadline } from '../limits/deadline.js';
import type { Project } from '../project.js';
import { writeOnce } from '../write/write.js';
import { type Inserted, rowsChanged, upsertAnswer } from './insert-answer.js';
import { columnName } from './insert-statement.js';
import { type CachedSchema, mayBeARecord, storeAndCheck } from './schema-cache.js';
import { IS_NEW, onConflict, type UpsertRule } from './upsert.js';

/** @throws EngineError as `insertRecords`. If nothing was stored, the checked path finds the reason. */
export async function storeByUpsert(
  project: Project,
  schema: CachedSchema,
  rows: EncodedBatch,
  upsert: UpsertRule,
  deadline: Deadline,
  idempotency: IdempotencyKey | null,
): Promise<Inserted | 'refused' | 'outdated'> {
  const statement = upsertStatement(schema.table, rows, upsert);
  if (statement === null) return 'refused';
  const store = async (lease: Lease): Promise<Inserted | 'refused' | 'outdated'> => {
    if (schema.table.updateRunsProjectCode) lease.resetAfterUse();
    const { outcome, results } = await storeAndCheck(lease, schema, statement);
    if (outcome !== 'stored') return outcome;
    const [inserted = 0, stored = 0] = (results[0]?.rows[0] ?? []).map(Number);
    return upsertAnswer(rows.records, { inserted, updated: stored - inserted });
  };
  // Without a key, the statement is a transaction by itself.
  if (idempotency === null) return project.use('typed', deadline, store);
  return writeOnce(project, { deadline, idempotency, stored: BatchAnswer }, async ({ lease, commit }) => {
    const outcome = await store(lease);
    if (typeof outcome === 'string') return outcome;
    try {
      await commit([], outcome.answer, rowsChanged(outcome.answer));
    } catch (error) {
      // Deferred constraints are checked now.
      if (error instanceof PostgresError && !lease.session.closed && mayBeARecord(error)) return 'refused';
      throw error;
    }
    return outcome;
  });
}

/**
 * The statement returns the number of rows inserted, and of all rows stored. Rows are sorted by key, so that
 * concurrent requests lock them in the same order, and within a key by their order in the batch.
 * @returns null: the batch needs the checked path
 */
function upsertStatement(table: Table, rows: EncodedBatch, { columns: key, resolution }: UpsertRule): Step | null {
  const given = rows.columns;
  const isMissing = (column: Column, index: number) => !column.isId && !given.includes(index);
  if (resolution === 'replace' && table.columns.some(isMissing)) return null;
  const columns = key.map((name) => table.columns.findIndex((column) => column.name === name));
  const params = rows.columnArrays(table.columns);
  if (params === null || columns.some((index) => !given.includes(index))) return null;

  const names = join(given.map((index) => columnName(table, index)));
  const alias = (index: number) => sql`v.${ident(`c${index}`)}`;
  const arrays = given.map((index, i) => {
    const { type = null } = table.columns[index] ?? {};
    return trusted(`pg_catalog.unnest($${i + 1}::${type === null ? 'pg_catalog.uuid' : POSTGRES_TYPES[type]}[])`);
  });
  const aliases = join([...given.map((index) => ident(`c${index}`)), ident('n')]);
  const order = join([...columns.map((index) => sorted(table, index, alias(index))), sql`v.n`]);
  const clause = onConflict(table, given, { columns, identifying: new Set(['id']) }, resolution);
  const { text } = sql`WITH result AS (
      INSERT INTO ${ident(table.schema, table.name)} AS stored (${names})
      SELECT ${join(given.map(alias))} FROM ROWS FROM (${join(arrays)}) WITH ORDINALITY AS v (${aliases})
      ORDER BY ${order} ${clause} RETURNING ${IS_NEW} AS is_new)
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
