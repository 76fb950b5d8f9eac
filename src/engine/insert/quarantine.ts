/** The quarantine of a project: refused records with their errors, kept until they expire. */
import type { ErrorDetail } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import type {
  DropQuarantineQuery,
  QuarantinedRecord,
  QuarantineGroup,
  QuarantineQuery,
} from '../../contract/wire/quarantine.js';
import type { Steps } from '../../codec/index.js';
import { type Fragment, join, type Row, sql, type Statement } from '../../pg/index.js';
import type { Project } from '../../db/project.js';
import { planCommit } from '../../db/transaction.js';
import { EQUALS } from '../../db/idempotency.js';
import { postgresRole } from '../../tenancy/placement.js';

/** Selects records that meet all conditions. */
type QuarantineFilter = Pick<QuarantineQuery, 'table' | 'error' | 'column' | 'since' | 'until' | 'id' | 'after'>;

/** Maximum number of expired records that one request deletes. */
const PURGED_AT_ONCE = 1_000;

/** Maximum bytes of records in a page; a larger record is a page by itself. */
export const PAGE_BYTES = 8 * 1024 * 1024;

/** Deletes some expired records. */
export const purgeExpired = (days: number): Statement =>
  sql`DELETE FROM _cdp.quarantined WHERE ctid ${EQUALS} ANY (ARRAY(
    SELECT ctid FROM _cdp.quarantined WHERE NOT ${isUnexpired(days)} LIMIT ${PURGED_AT_ONCE} FOR UPDATE SKIP LOCKED))`;

/**
 * Stores refused records, and deletes some expired ones. A role that the project has made stores them through the view,
 * which checks its right to the table, and deletes none.
 * @param refused the errors of each, by its number
 * @param textOf returns the JSON of a record as it was sent
 */
export function* quarantineRecords(
  { role }: Project,
  tableName: string,
  refused: ReadonlyMap<number, readonly ErrorDetail[]>,
  textOf: (record: number) => string,
  key: string | null,
  days: number,
): Steps<Statement[]> {
  if (refused.size === 0) return [];
  const texts: string[] = [];
  const errors: string[] = [];
  for (const [record, details] of refused) {
    texts.push(textOf(record));
    errors.push(storedErrors(details));
    yield;
  }
  const into = role === null ? sql`_cdp.quarantined` : sql`_cdp.quarantine`;
  return [
    ...(role === null ? [purgeExpired(days)] : []),
    sql`INSERT INTO ${into} (table_name, record, errors, idempotency_key)
      SELECT ${tableName}, r.record, r.errors::pg_catalog.jsonb, ${key}
      FROM ROWS FROM (pg_catalog.unnest(${texts}::pg_catalog.text[]), pg_catalog.unnest(${errors}::pg_catalog.text[]))
        WITH ORDINALITY AS r (record, errors, n) ORDER BY r.n`,
  ];
}

/** Replaces the errors of a quarantined record. */
export const updateErrors = (id: string, errors: readonly ErrorDetail[]): Statement =>
  sql`UPDATE _cdp.quarantined SET errors = ${storedErrors(errors)}::pg_catalog.jsonb WHERE id ${EQUALS} ${id}::pg_catalog.uuid`;

/** Quarantined records follow the renaming of their table. */
export const renameQuarantinedTable = (tableName: string, newName: string): Statement =>
  sql`UPDATE _cdp.quarantined SET table_name = ${newName} WHERE table_name ${EQUALS} ${tableName}`;

export const deleteQuarantined = (ids: readonly string[]): Statement =>
  sql`DELETE FROM _cdp.quarantined WHERE id ${EQUALS} ANY (${ids}::pg_catalog.uuid[])`;

const storedErrors = (errors: readonly ErrorDetail[]): string =>
  JSON.stringify(errors.map(({ redacted: _, ...detail }) => withStorableName(withoutNumber(detail))));

/** jsonb accepts no U+0000 and no lone surrogate: a name that contains one is written with escapes. */
function withStorableName(detail: ErrorDetail): ErrorDetail {
  const { column } = detail;
  return column !== undefined && /[\0\p{Cs}]/u.test(column)
    ? { ...detail, column: JSON.stringify(column).slice(1, -1) }
    : detail;
}

/** Removes the record's number, which has no meaning outside its batch. */
export function withoutNumber({ record: _, redacted, ...detail }: ErrorDetail): ErrorDetail {
  const plain = (message: string) =>
    message
      .replace(/^Record \d+ /, 'The record ')
      .replace(/^Record \d+[,:] (.)/, (_, first: string) => first.toUpperCase());
  const hidden = redacted && { redacted: { ...redacted, message: plain(redacted.message) } };
  return { ...detail, message: plain(detail.message), ...hidden };
}

interface Page {
  readonly records: QuarantinedRecord[];
  /** The id of the last one, if there are more. */
  readonly next: string | null;
}

interface ListOptions {
  readonly limit: number;
  /** How long they are kept. */
  readonly days: number;
  /** Only records of tables that the reader may read. */
  readonly asReader: boolean;
  readonly signal: AbortSignal;
}

/** The oldest first. */
export function listQuarantine(
  project: Project,
  filter: QuarantineFilter,
  { limit, days, asReader, signal }: ListOptions,
): Promise<Page> {
  const isReadable = asReader || project.role !== null ? mayRead(project, sql`table_name`) : sql`true`;
  const page = selectPage(filter, limit, days, isReadable);
  return project.read({ connection: 'write-unless-fenced', signal }, async (db) => readPage(await db.query(page)));
}

/** Maximum number of groups in a response. */
const MAX_GROUPS = 1_000;

/** How many records have which error in which column; the largest groups first. */
export async function groupQuarantine(
  project: Project,
  filter: QuarantineFilter,
  { days, asReader, signal }: Omit<ListOptions, 'limit'>,
): Promise<QuarantineGroup[]> {
  const isReadable = asReader || project.role !== null ? mayRead(project, sql`table_name`) : sql`true`;
  const time = (at: Fragment) => sql`pg_catalog.to_char(${at} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;
  const groups = sql`
    SELECT table_name, detail ->> 'error', detail ->> 'column', (detail -> 'columns')::pg_catalog.text,
      pg_catalog.count(DISTINCT id) AS records,
      (pg_catalog.array_agg(pg_catalog.left(detail ->> 'message', ${LIMITS.commentCharacters}) ORDER BY id))[1],
      ${time(sql`pg_catalog.min(quarantined_at)`)}, ${time(sql`pg_catalog.max(quarantined_at)`)}
    FROM _cdp.quarantine CROSS JOIN LATERAL pg_catalog.jsonb_array_elements(errors) AS detail
    WHERE ${isUnexpired(days)} AND ${conditions(filter)} AND ${isReadable}
    GROUP BY 1, 2, 3, 4 ORDER BY records DESC, 1, 2, 3, 4 LIMIT ${MAX_GROUPS}`;
  const rows = await project.read({ connection: 'write-unless-fenced', signal }, (db) => db.query(groups));
  return rows.map(([table, error, column, columns, count, message, oldest, newest]) => ({
    ...{ table: table ?? '', error: error ?? '', column: column ?? null },
    ...(columns == null ? {} : { columns: JSON.parse(columns) as string[] }),
    ...{ count: Number(count), message: message ?? '', oldest: oldest ?? '', newest: newest ?? '' },
  }));
}

/** A condition: the reader of the project, or the role as which the request acts, may read every row of the table. */
export const mayRead = ({ row: { placement }, role }: Project, table: Fragment): Fragment =>
  sql`_cdp.may_read(${role === null ? placement.reader : postgresRole(placement, role)}::pg_catalog.name, ${table})`;

/** For a replay: the rows are locked until the end of the transaction, without those that others have locked. */
export const lockPage = (filter: QuarantineFilter, limit: number, days: number): Statement =>
  selectPage(filter, limit, days, sql`true`, sql`FOR UPDATE SKIP LOCKED`);

function selectPage(
  filter: QuarantineFilter,
  limit: number,
  days: number,
  isReadable: Fragment,
  locked: Fragment = sql``,
): Statement {
  return sql`
    WITH found AS (
      SELECT id, quarantined_at, table_name, record, errors, idempotency_key FROM _cdp.quarantine
      WHERE ${isUnexpired(days)} AND ${conditions(filter)} AND ${isReadable} ORDER BY id LIMIT ${limit + 1} ${locked})
    SELECT id, pg_catalog.to_char(quarantined_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), table_name, record, errors,
      idempotency_key, total
    FROM (
      SELECT *, pg_catalog.count(*) OVER () AS total, pg_catalog.row_number() OVER o AS n,
        pg_catalog.sum(pg_catalog.octet_length(record) + pg_catalog.octet_length(errors::pg_catalog.text)) OVER o AS bytes
      FROM found WINDOW o AS (ORDER BY id)) AS numbered
    WHERE n = 1 OR n <= ${limit} AND bytes <= ${PAGE_BYTES}
    ORDER BY id`;
}

/** Reads the rows of a page. */
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
  days: number,
  signal: AbortSignal,
): Promise<number> {
  const chosen = sql`DELETE FROM _cdp.quarantined WHERE ${conditions(filter)}`;
  const { response } = await project.write({ signal, growth: 'none' }, async (db) =>
    planCommit(await db.rowCount(chosen), [purgeExpired(days)]),
  );
  return response;
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
