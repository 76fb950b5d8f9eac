/** The quarantine of a project: refused records with their errors, kept until they expire. */
import type { ErrorDetail } from '../../contract/errors.js';
import type { DropQuarantineQuery, QuarantinedRecord, QuarantineQuery } from '../../contract/wire/quarantine.js';
import { type Fragment, join, type Row, sql, type Statement } from '../../pg/index.js';
import { typedDeadline } from '../limits/deadline.js';
import type { Project } from '../project.js';
import { EQUALS } from '../write/idempotency.js';
import { runWrite } from '../write/write.js';

/** Selects records that meet all conditions. */
type QuarantineFilter = Pick<QuarantineQuery, 'table' | 'error' | 'column' | 'since' | 'until' | 'id' | 'after'>;

interface NewQuarantinedRecord {
  /** The JSON as it was sent. */
  readonly text: string;
  readonly errors: readonly ErrorDetail[];
}

/** Maximum number of expired records that one request deletes. */
const PURGED_AT_ONCE = 1_000;

/** Maximum bytes of records in a page; a larger record is a page by itself. */
export const PAGE_BYTES = 8 * 1024 * 1024;

/** Deletes some expired records. */
export const purgeExpired = (days: number): Statement =>
  sql`DELETE FROM _cdp.quarantine WHERE ctid ${EQUALS} ANY (ARRAY(
    SELECT ctid FROM _cdp.quarantine WHERE NOT ${isUnexpired(days)} LIMIT ${PURGED_AT_ONCE} FOR UPDATE SKIP LOCKED))`;

/** Stores refused records, and deletes some expired ones. */
export function quarantineRecords(
  table: string,
  refused: readonly NewQuarantinedRecord[],
  key: string | null,
  days: number,
): Statement[] {
  if (refused.length === 0) return [];
  const texts = refused.map(({ text }) => text);
  const errors = refused.map((record) => storedErrors(record.errors));
  return [
    purgeExpired(days),
    sql`INSERT INTO _cdp.quarantine (table_name, record, errors, idempotency_key)
      SELECT ${table}, r.record, r.errors::pg_catalog.jsonb, ${key}
      FROM ROWS FROM (pg_catalog.unnest(${texts}::pg_catalog.text[]), pg_catalog.unnest(${errors}::pg_catalog.text[]))
        WITH ORDINALITY AS r (record, errors, n) ORDER BY r.n`,
  ];
}

/** Replaces the errors of a quarantined record. */
export const updateErrors = (id: string, errors: readonly ErrorDetail[]): Statement =>
  sql`UPDATE _cdp.quarantine SET errors = ${storedErrors(errors)}::pg_catalog.jsonb WHERE id ${EQUALS} ${id}::pg_catalog.uuid`;

/** Quarantined records follow the renaming of their table. */
export const renameQuarantinedTable = (name: string, newName: string): Statement =>
  sql`UPDATE _cdp.quarantine SET table_name = ${newName} WHERE table_name ${EQUALS} ${name}`;

export const removeRecords = (ids: readonly string[]): Statement =>
  sql`DELETE FROM _cdp.quarantine WHERE id ${EQUALS} ANY (${ids}::pg_catalog.uuid[])`;

const storedErrors = (errors: readonly ErrorDetail[]): string =>
  JSON.stringify(errors.map((place) => withStorableName(withoutNumber(place))));

/** jsonb accepts no U+0000 and no lone surrogate: a name that contains one is written with escapes. */
function withStorableName(place: ErrorDetail): ErrorDetail {
  const { column } = place;
  return column !== undefined && /[\0\p{Cs}]/u.test(column)
    ? { ...place, column: JSON.stringify(column).slice(1, -1) }
    : place;
}

/** Removes the record's number, which has no meaning outside its batch. */
export function withoutNumber({ record: _, ...place }: ErrorDetail): ErrorDetail {
  const message = place.message
    .replace(/^Record \d+ /, 'The record ')
    .replace(/^Record \d+[,:] (.)/, (_, first: string) => first.toUpperCase());
  return { ...place, message };
}

interface Page {
  readonly records: QuarantinedRecord[];
  /** The id of the last one, if there are more. */
  readonly next: string | null;
}

/** The oldest first. */
export function listQuarantine(
  project: Project,
  filter: QuarantineFilter,
  limit: number,
  signal: AbortSignal,
): Promise<Page> {
  const found = selectPage(filter, limit, project.shared.quarantineDays);
  const use = { connection: 'typed-read', deadline: typedDeadline(signal), growth: 'none' } as const;
  return project.use(use, async ({ session }) => readPage(await session.query(found)));
}

/** @param lock locks the rows until the end of the transaction, and skips those that others have locked */
export function selectPage(filter: QuarantineFilter, limit: number, days: number, lock = false): Statement {
  const locked = lock ? sql`FOR UPDATE SKIP LOCKED` : sql``;
  return sql`
    WITH found AS (
      SELECT id, quarantined_at, table_name, record, errors, idempotency_key FROM _cdp.quarantine
      WHERE ${isUnexpired(days)} AND ${conditions(filter)} ORDER BY id LIMIT ${limit + 1} ${locked})
    SELECT id, pg_catalog.to_char(quarantined_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), table_name, record, errors,
      idempotency_key, total
    FROM (
      SELECT *, pg_catalog.count(*) OVER () AS total, pg_catalog.row_number() OVER o AS n,
        pg_catalog.sum(pg_catalog.octet_length(record) + pg_catalog.octet_length(errors::pg_catalog.text)) OVER o AS bytes
      FROM found WINDOW o AS (ORDER BY id)) AS numbered
    WHERE n = 1 OR n <= ${limit} AND bytes <= ${PAGE_BYTES}
    ORDER BY id`;
}

/** Reads the rows of {@link selectPage}. */
export function readPage(rows: readonly Row[]): Page {
  const records = rows.map(([id, time, table, record, errors, key]) => ({
    id: id ?? '',
    time: time ?? '',
    table: table ?? '',
    record: record ?? '',
    errors: JSON.parse(errors ?? '[]') as ErrorDetail[],
    idempotency_key: key ?? null,
  }));
  const total = Number(rows[0]?.at(-1) ?? 0);
  return { records, next: total > records.length ? (records.at(-1)?.id ?? null) : null };
}

/** Deletes expired records, too. @returns how many were deleted */
export async function dropFromQuarantine(
  project: Project,
  filter: Omit<DropQuarantineQuery, 'all'>,
  signal: AbortSignal,
): Promise<number> {
  const chosen = sql`DELETE FROM _cdp.quarantine WHERE ${conditions(filter)}`;
  const options = { deadline: typedDeadline(signal), growth: 'none' } as const;
  return runWrite(project, options, async ({ lease: { session }, begin, commit }) => {
    await session.run(begin);
    const count = await session.rowCount(chosen);
    return commit([purgeExpired(project.shared.quarantineDays)], count);
  });
}

function conditions({ table, error, column, since, until, id, after }: QuarantineFilter): Fragment {
  const has = (place: object) => sql`errors OPERATOR(pg_catalog.@>) ${JSON.stringify([place])}::pg_catalog.jsonb`;
  const all = [
    sql`true`,
    ...(table === undefined ? [] : [sql`table_name = ${table}`]),
    ...(error === undefined ? [] : [has({ error })]),
    ...(column === undefined ? [] : [sql`(${has({ column })} OR ${has({ columns: [column] })})`]),
    ...(since === undefined ? [] : [sql`quarantined_at >= ${since}::pg_catalog.timestamptz`]),
    ...(until === undefined ? [] : [sql`quarantined_at < ${until}::pg_catalog.timestamptz`]),
    ...(id === undefined ? [] : [sql`id = ${id}::pg_catalog.uuid`]),
    ...(after === undefined ? [] : [sql`id > ${after}::pg_catalog.uuid`]),
  ];
  return join(all, ' AND ');
}

const isUnexpired = (days: number): Fragment =>
  sql`quarantined_at OPERATOR(pg_catalog.>)
    (pg_catalog.now() OPERATOR(pg_catalog.-) ${`${days} days`}::pg_catalog.interval)`;
