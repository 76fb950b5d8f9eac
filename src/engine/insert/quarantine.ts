/** The quarantine of a project: records that were refused, each with what is wrong with it, until they are too old. */
import type { ErrorDetail } from '../../contract/errors.js';
import type { DropQuarantineQuery, QuarantinedRecord, QuarantineQuery } from '../../contract/wire/quarantine.js';
import { BEGIN, type Fragment, join, type Row, sql, type Statement } from '../../pg/index.js';
import { typedDeadline } from '../limits/deadline.js';
import type { Project } from '../project.js';
import { EQUALS } from '../write/idempotency.js';
import { commit } from '../write/transaction.js';

/** Which records; all of it must hold. */
type QuarantineFilter = Pick<QuarantineQuery, 'table' | 'error' | 'column' | 'since' | 'until' | 'id' | 'after'>;

interface NewQuarantinedRecord {
  /** JSON, as it was sent. */
  readonly text: string;
  readonly errors: readonly ErrorDetail[];
}

/** Records too old that one request clears away. */
const PURGED_AT_ONCE = 1_000;

/** Bytes of the records of one page; a larger record comes alone. */
export const PAGE_BYTES = 8 * 1024 * 1024;

/** Clears away some records that are too old. */
export const purgeExpired = (days: number): Statement =>
  sql`DELETE FROM _cdp.quarantine WHERE ctid ${EQUALS} ANY (ARRAY(
    SELECT ctid FROM _cdp.quarantine WHERE NOT ${isUnexpired(days)} LIMIT ${PURGED_AT_ONCE} FOR UPDATE SKIP LOCKED))`;

/** Keeps refused records, and clears some away that are too old. */
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

/** What is wrong now with a record that is in the quarantine. */
export const updateErrors = (id: string, errors: readonly ErrorDetail[]): Statement =>
  sql`UPDATE _cdp.quarantine SET errors = ${storedErrors(errors)}::pg_catalog.jsonb WHERE id ${EQUALS} ${id}::pg_catalog.uuid`;

/** The records of a table go with it. */
export const renameQuarantinedTable = (name: string, newName: string): Statement =>
  sql`UPDATE _cdp.quarantine SET table_name = ${newName} WHERE table_name ${EQUALS} ${name}`;

export const removeRecords = (ids: readonly string[]): Statement =>
  sql`DELETE FROM _cdp.quarantine WHERE id ${EQUALS} ANY (${ids}::pg_catalog.uuid[])`;

const storedErrors = (errors: readonly ErrorDetail[]): string =>
  JSON.stringify(errors.map((place) => withStorableName(withoutNumber(place))));

/** jsonb takes no U+0000 and no lone surrogate: a key that has one is written with its escapes. */
function withStorableName(place: ErrorDetail): ErrorDetail {
  const { column } = place;
  return column !== undefined && /[\0\p{Cs}]/u.test(column)
    ? { ...place, column: JSON.stringify(column).slice(1, -1) }
    : place;
}

/** By itself, a record has no number. */
export function withoutNumber({ record: _, ...place }: ErrorDetail): ErrorDetail {
  const message = place.message
    .replace(/^Record \d+ /, 'The record ')
    .replace(/^Record \d+[,:] (.)/, (_, first: string) => first.toUpperCase());
  return { ...place, message };
}

interface Page {
  readonly records: QuarantinedRecord[];
  /** The last of them, if there are more. */
  readonly next: string | null;
}

/** The oldest first. */
export function listQuarantine(
  project: Project,
  filter: QuarantineFilter,
  limit: number,
  signal: AbortSignal,
): Promise<Page> {
  const found = selectPage(filter, limit, project.quarantineDays);
  return project.use(
    'typed-read',
    typedDeadline(signal),
    async ({ session }) => readPage(await session.query(found)),
    'none',
  );
}

/**
 * @param lock the rows stay as they are until the end of the transaction; those that others have locked are left out
 */
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

/** Those that are too old go, too. @returns how many there were */
export function dropFromQuarantine(
  project: Project,
  filter: Omit<DropQuarantineQuery, 'all'>,
  signal: AbortSignal,
): Promise<number> {
  const chosen = sql`DELETE FROM _cdp.quarantine WHERE ${conditions(filter)}`;
  return project.use(
    'typed',
    typedDeadline(signal),
    async ({ session }) => {
      await session.run([BEGIN]);
      const count = await session.change(chosen);
      await commit(session, [purgeExpired(project.quarantineDays)], false, project.rehearsal);
      return count;
    },
    'none',
  );
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
