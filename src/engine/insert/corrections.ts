/**
 * How a replay corrects quarantined records: keys left out and renamed, values from other keys, from SQL expressions, and fixed
 * ones. All of them see the record as it is kept.
 */
import { readRecords, type RecordBatch, type Steps } from '../../codec/index.js';
import { ErrorCollector } from '../../contract/error-collector.js';
import { EngineError } from '../../contract/errors.js';
import { cut, quoted } from '../../contract/message-text.js';
import type { QueryRunner } from '../../db/query-runner.js';
import { join, PostgresError, sql, trusted } from '../../pg/index.js';
import { detailsOf } from '../../tenancy/postgres-errors.js';
import type { Table } from '../catalog/catalog.js';
import { requireColumns } from '../catalog/find-table.js';
import { PAGE_BYTES } from './quarantine.js';

export interface Corrections {
  readonly rename?: Readonly<Record<string, string>> | undefined;
  readonly drop?: readonly string[] | undefined;
  /** The key whose value a column takes. */
  readonly setFrom?: Readonly<Record<string, string>> | undefined;
  /** The expression whose value a column takes. */
  readonly setSql?: Readonly<Record<string, string>> | undefined;
  /** JSON values by column. */
  readonly set: ReadonlyMap<string, string>;
  /** JSON of the record that takes the place of the only one; null: it stays. */
  readonly record: string | null;
}

export const areNone = ({ rename = {}, drop = [], setFrom = {}, setSql = {}, set, record }: Corrections): boolean =>
  record === null &&
  [rename, setFrom, setSql].every((one) => Object.keys(one).length === 0) &&
  drop.length + set.size === 0;

/** @throws EngineError unknown_column; invalid_request for a column that takes two values */
export function requirePossible({ rename = {}, setFrom = {}, setSql = {}, set }: Corrections, table: Table): void {
  const columns = [...Object.keys(setFrom), ...Object.keys(setSql), ...set.keys()];
  requireColumns(table, [...Object.values(rename), ...columns]);
  const errors = new ErrorCollector();
  for (const column of new Set(columns.filter((name, i) => columns.indexOf(name) !== i))) {
    errors.add('invalid_request', () => ({
      column: cut(column),
      message: `Column ${quoted(column)} would take two values`,
    }));
  }
  errors.throwIfAny();
}

/**
 * The value of each expression for each record, as JSON, by column. It runs code of the project, so the session is reset.
 * @param texts JSON of the records
 * @throws EngineError invalid_request with what Postgres said of the expressions
 */
export async function evaluated(
  db: QueryRunner,
  { setSql = {} }: Corrections,
  texts: readonly string[],
): Promise<ReadonlyMap<string, readonly (string | null)[]>> {
  const columns = Object.keys(setSql);
  if (columns.length === 0) return new Map();
  db.resetAfterUse();
  // A comment at the end of an expression ends with its line.
  const values = columns.map(
    (column) => sql`pg_catalog.to_jsonb((${trusted(`${setSql[column] ?? ''}\n`)}))::pg_catalog.text`,
  );
  const all = sql`
    WITH records AS MATERIALIZED (
      SELECT r.text::pg_catalog.jsonb AS record, r.n FROM pg_catalog.unnest(${texts}::pg_catalog.text[]) WITH ORDINALITY AS r (text, n)),
    given AS MATERIALIZED (SELECT n, ARRAY[${join(values)}]::pg_catalog.text[] AS made FROM records)
    SELECT CASE WHEN pg_catalog.sum(pg_catalog.octet_length(made::pg_catalog.text)) OVER () <= ${PAGE_BYTES}::pg_catalog.int8
      THEN pg_catalog.to_json(made) END FROM given ORDER BY n`;
  const rows = await db.query(all).catch((error: unknown) => {
    if (!(error instanceof PostgresError) || !/^(22|42)/.test(error.sqlstate)) throw error;
    throw new EngineError('invalid_request', `set_sql: ${error.message}`, { postgres: detailsOf(error), cause: error });
  });
  if (rows.some(([made]) => made == null))
    throw new EngineError('invalid_request', `set_sql: the values have more than ${PAGE_BYTES} bytes`, {
      hint: 'Replay fewer records at a time, by a filter.',
    });
  const made = rows.map(([values]) => JSON.parse(values ?? '[]') as (string | null)[]);
  return new Map(columns.map((column, i) => [column, made.map((values) => values[i] ?? null)]));
}

/** @param values as {@link evaluated} returns them */
export function* correctedRecords(
  texts: readonly string[],
  corrections: Corrections,
  values: ReadonlyMap<string, readonly (string | null)[]>,
): Steps<RecordBatch> {
  const kept = corrections.record === null ? texts : [corrections.record];
  const sent = yield* readAgain(kept);
  const made: string[] = [];
  for (const record of sent.records.keys()) {
    made.push(corrected(sent, record, corrections, values));
    yield;
  }
  return yield* readAgain(made);
}

const readAgain = (texts: readonly string[]): Steps<RecordBatch> =>
  readRecords(Buffer.from(`[${texts.join(',')}]`), { apart: true, isLimited: false });

/** Anything but an object stays as it is. */
function corrected(
  { membersOf, textOf }: RecordBatch,
  record: number,
  { rename = {}, drop = [], setFrom = {}, set }: Corrections,
  values: ReadonlyMap<string, readonly (string | null)[]>,
): string {
  const text = textOf(record);
  if (!text.startsWith('{')) return text;
  const members = membersOf(record);
  const dropped = new Set(drop);
  const added = new Map<string, string>();
  for (const [column, key] of Object.entries(setFrom)) {
    const json = members.findLast(([name]) => name === key)?.[1];
    if (json !== undefined) added.set(column, json);
  }
  for (const [column, made] of values) added.set(column, made[record] ?? 'null');
  for (const [column, json] of set) added.set(column, json);
  const others = members
    .filter(([key]) => !dropped.has(key))
    .map(([key, json]) => [Object.hasOwn(rename, key) ? (rename[key] ?? key) : key, json] as const)
    .filter(([key]) => !added.has(key));
  return `{${[...others, ...added].map(([key, json]) => `${JSON.stringify(key)}:${json}`).join(',')}}`;
}
