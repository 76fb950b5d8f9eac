/**
 * One home: the places where the service itself keeps what callers have sent, besides their tables. An erasure visits each of
 * them. `docs/places.md` lists all places, also those that cannot be erased.
 */
import { ident, literal, type Row, sql } from '../../pg/index.js';
import { SEGMENT_TABLES } from '../segments/segment-sql.js';
import type { Runner } from './subject-tables.js';
import type { Traces } from './traces.js';

interface Visit {
  /** As the writer of the project, in the transaction of the erasure. */
  readonly db: Runner;
  /** That of the API. */
  readonly schema: string;
  readonly traces: Traces;
  /** false: only counts. */
  readonly erases: boolean;
}

interface Place {
  /** As in docs/places.md. */
  readonly name: string;
  readonly holds: string;
  /** @returns how many things there hold the person */
  readonly erase: (visit: Visit) => Promise<number>;
}

const PLACES: readonly Place[] = [
  { name: 'quarantine', holds: 'Refused records, with errors and keys', erase: visitQuarantine },
  { name: 'idempotency keys', holds: 'Keys, and stored responses', erase: visitKeys },
  { name: 'segments', holds: 'Keys of members, and how they changed', erase: visitSegments },
];

/** How many things in each place hold the person. */
export async function visitPlaces(visit: Visit): Promise<{ place: string; count: number }[]> {
  const places: { place: string; count: number }[] = [];
  for (const { name, erase } of PLACES) places.push({ place: name, count: await erase(visit) });
  return places;
}

/** How much of a place is looked through at once. */
const ROWS = 500;
const BYTES = 8 * 1024 * 1024;

async function visitQuarantine({ db, traces, erases }: Visit): Promise<number> {
  let found = 0;
  for (let after = '00000000-0000-0000-0000-000000000000'; ;) {
    const rows = await db.query(sql`
      SELECT id, table_name, record, errors, key FROM (
        SELECT *, pg_catalog.row_number() OVER o AS n, pg_catalog.sum(pg_catalog.octet_length(record)) OVER o AS bytes FROM (
          SELECT id, table_name, record, errors::pg_catalog.text AS errors, COALESCE(idempotency_key, '') AS key
          FROM _cdp.quarantined WHERE id OPERATOR(pg_catalog.>) ${after}::pg_catalog.uuid AND (${traces.mayBeIn(sql`record`, true)}
            OR ${traces.mayBeIn(sql`errors::pg_catalog.text`)} OR ${traces.mayBeIn(sql`COALESCE(idempotency_key, '')`)})
          ORDER BY id LIMIT ${ROWS}) AS candidates WINDOW o AS (ORDER BY id)) AS page
      WHERE n OPERATOR(pg_catalog.=) 1 OR bytes OPERATOR(pg_catalog.<=) ${BYTES} ORDER BY id`);
    const last = rows.at(-1)?.[0];
    if (last == null) return found;
    const ids = rows.filter((row) => isQuarantined(row, traces)).map(([id]) => id ?? '');
    found += ids.length;
    if (erases && ids.length > 0)
      await db.query(sql`DELETE FROM _cdp.quarantined WHERE id OPERATOR(pg_catalog.=) ANY (${ids}::pg_catalog.uuid[])`);
    after = last;
  }
}

const isQuarantined = ([, table, record, errors, key]: Row, traces: Traces): boolean =>
  traces.isInRecord(table ?? '', record ?? '') || traces.isInJson(errors ?? '') || traces.isIn(key ?? '');

/**
 * A key that names the person is removed: a repeat of its request would be executed again. One whose response does stays, so
 * that a repeat is refused, and neither executed nor answered.
 */
async function visitKeys({ db, traces, erases }: Visit): Promise<number> {
  let found = 0;
  for (let after: readonly [string, string] = ['', '']; ;) {
    const [afterKey, afterPath] = after;
    const rows = await db.query(sql`
      SELECT key, path, COALESCE(answer, '') FROM _cdp.idempotency_keys
      WHERE (key, path) OPERATOR(pg_catalog.>) (${afterKey}::pg_catalog.text, ${afterPath}::pg_catalog.text)
        AND (${traces.mayBeIn(sql`key`)} OR ${traces.mayBeIn(sql`COALESCE(answer, '')`)})
      ORDER BY key, path LIMIT ${ROWS}`);
    const [lastKey, lastPath] = rows.at(-1) ?? [];
    if (lastKey == null || lastPath == null) return found;
    const named = rows.filter(([key]) => traces.isIn(key ?? ''));
    const answered = rows.filter((row) => !named.includes(row) && traces.isInJson(row[2] ?? ''));
    found += named.length + answered.length;
    const rowsOf = (some: readonly Row[]) => sql`(key, path) IN (SELECT * FROM ROWS FROM (
      pg_catalog.unnest(${some.map(([key]) => key ?? '')}::pg_catalog.text[]),
      pg_catalog.unnest(${some.map(([, path]) => path ?? '')}::pg_catalog.text[])))`;
    if (erases && named.length > 0) {
      await db.run([
        sql`DELETE FROM _cdp.stream_chunks WHERE ${rowsOf(named)}`,
        sql`DELETE FROM _cdp.idempotency_keys WHERE ${rowsOf(named)}`,
      ]);
    }
    if (erases && answered.length > 0)
      await db.query(
        sql`UPDATE _cdp.idempotency_keys SET answer = ${ERASED}, body_sha256 = NULL WHERE ${rowsOf(answered)}`,
      );
    after = [lastKey, lastPath];
  }
}

/** No response has this shape, so that a repeat is refused as one with another body. */
const ERASED = '{"erased":true}';

/** Whoever is no member any more does not leave with the next run either: that would be a new change. */
async function visitSegments({ db, schema, traces, erases }: Visit): Promise<number> {
  let found = 0;
  for (const name of SEGMENT_TABLES) {
    const table = ident(schema, name);
    // A project that has run no segment may have a table of this name that is for something else.
    const [row] = await db.query(sql`SELECT pg_catalog.count(*) FROM pg_catalog.pg_attribute
      WHERE attrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(${literal(table.text)})
        AND attname IN ('segment', 'key') AND NOT attisdropped`);
    if (row?.[0] !== '2') continue;
    const condition = sql`_cdp.caseless_1(key::pg_catalog.text) OPERATOR(pg_catalog.=) ANY (${traces.all}::pg_catalog.text[])`;
    if (erases) found += await db.rowCount(sql`DELETE FROM ${table} WHERE ${condition}`);
    else
      found += Number((await db.query(sql`SELECT pg_catalog.count(*) FROM ${table} WHERE ${condition}`))[0]?.[0] ?? 0);
  }
  return found;
}
