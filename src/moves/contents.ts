/**
 * Finds the contents of a project, and copies them from one server to another: the rows of its tables, the values of
 * its sequences, and its large objects. Its schema is in `copy.ts`.
 */
import { type ProjectTable, shownName } from '../backup/logical/snapshot.js';
import { type Fragment, ident, literal, type Session, sql, trusted, withSession } from '../pg/index.js';
import type { Placement } from '../tenancy/placement.js';
import { belongsToProject } from '../tenancy/project-rights.js';
import { roleLogin } from '../tenancy/role-login.js';
import type { Tenancy } from '../tenancy/tenancy.js';
import { withServer } from '../tenancy/postgres-server.js';

/** Tables of the service with rows of the project: the responses by Idempotency-Key, the receipts, the quarantine and erasures. */
const OF_SERVICE = ['idempotency_keys', 'quarantined', 'stream_chunks', 'erasures'];

/**
 * A table with its own rows, or a partitioned one with all of its partitions: the partition of a row may depend on the
 * server, for instance on the collation of its operating system.
 */
export interface CopiedTable extends ProjectTable {
  /** The name that people are shown. */
  readonly displayName: string;
  /** A list of the stored columns; null: there are none. */
  readonly columns: string | null;
  /** The table itself, or its partitions that hold rows. */
  readonly parts: readonly ProjectTable[];
}

/**
 * Returns the tables in the order of their names.
 * @param session of a role that can read all of them
 */
export async function tablesOf(session: Session, placement: Placement): Promise<CopiedTable[]> {
  const rows = await session.query(sql`
    SELECT rn.nspname, r.relname, cn.nspname, c.relname, columns
    FROM pg_class c
    JOIN pg_namespace cn ON cn.oid = c.relnamespace
    JOIN pg_class r ON r.oid = coalesce(pg_partition_root(c.oid), c.oid)
    JOIN pg_namespace rn ON rn.oid = r.relnamespace
    CROSS JOIN LATERAL (
      SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FILTER (WHERE attgenerated = '') AS columns
      FROM pg_attribute WHERE attrelid = r.oid AND attnum > 0 AND NOT attisdropped) a
    WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND ${areCopied(placement)}
    ORDER BY rn.nspname <> ${placement.schema}, rn.nspname COLLATE "C", r.relname COLLATE "C", c.relname COLLATE "C"`);
  const tables: (CopiedTable & { parts: ProjectTable[] })[] = [];
  for (const [schema = '', name = '', partSchema = '', partName = '', columns = null] of rows as string[][]) {
    const part = { schema: partSchema, name: partName };
    const last = tables.at(-1);
    if (last?.schema === schema && last.name === name) last.parts.push(part);
    else {
      const displayName = shownName({ schema, name }, placement);
      tables.push({ schema, name, displayName, columns, parts: [part] });
    }
  }
  return tables;
}

export const areCopied = (placement: Placement): Fragment =>
  sql`(c.relnamespace IN (SELECT oid FROM pg_namespace WHERE ${belongsToProject(placement)})
    OR cn.nspname = '_cdp' AND c.relname = ANY (${OF_SERVICE}))`;

/** The rows of a table, or of one of its partitions, in COPY's text format. */
export function rowsOf(session: Session, { columns }: CopiedTable, part: ProjectTable): AsyncIterable<Buffer> {
  return session.copyOut(sql`COPY ${ident(part.schema, part.name)} ${listOf(columns)} TO STDOUT`);
}

const listOf = (columns: string | null): Fragment => (columns === null ? sql`` : sql`(${trusted(columns)})`);

/**
 * @param report called about once per MiB with the rows and bytes so far
 * @returns the number of rows
 */
export async function copyTable(
  source: Session,
  target: Session,
  table: CopiedTable,
  report: (rows: number, bytes: number) => void,
): Promise<number> {
  let [rows, bytes, reported] = [0, 0, 0];
  async function* countingRows(part: ProjectTable): AsyncGenerator<Buffer> {
    for await (const data of rowsOf(source, table, part)) {
      yield data;
      rows += linesIn(data);
      bytes += data.length;
      if (bytes < reported + 1024 * 1024) continue;
      reported = bytes;
      report(rows, bytes);
    }
  }
  const into = sql`COPY ${ident(table.schema, table.name)} ${listOf(table.columns)} FROM STDIN`;
  let storedRows = 0;
  for (const part of table.parts) storedRows += await target.copyIn(into, countingRows(part));
  report(rows, bytes);
  return storedRows;
}

/** Counts newlines, which COPY's text format escapes inside values. */
function linesIn(data: Buffer): number {
  let count = 0;
  for (let at = data.indexOf(10); at >= 0; at = data.indexOf(10, at + 1)) count++;
  return count;
}

interface Sequence {
  readonly schema: string;
  readonly name: string;
  readonly value: string;
  readonly isCalled: boolean;
}

/** Snapshots do not apply to sequences. */
export async function sequencesOf(session: Session, placement: Placement): Promise<Sequence[]> {
  const rows = await session.query(
    sql`SELECT nspname, relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
        WHERE ${belongsToProject(placement)} AND relkind = 'S' ORDER BY 1, 2`,
  );
  const sequences: Sequence[] = [];
  for (const [schema, name] of rows as string[][]) {
    const [value, isCalled] = await session.row(
      sql`SELECT last_value, is_called FROM ${ident(schema ?? '', name ?? '')}`,
    );
    sequences.push({ schema: schema ?? '', name: name ?? '', value: value ?? '', isCalled: isCalled === 't' });
  }
  return sequences;
}

/** Sets every sequence to the current value of the source's. */
export async function copySequences(source: Session, target: Session, placement: Placement): Promise<void> {
  for (const { schema, name, value, isCalled } of await sequencesOf(source, placement)) {
    await target.query(sql`SELECT pg_catalog.setval(${ident(schema, name).text}, ${value}, ${isCalled})`);
  }
}

const PART_BYTES = 1024 * 1024;

interface LargeObject {
  readonly oid: string;
  readonly comment: string | null;
}

/** Large objects are in no schema, and belong to the writer. */
export async function largeObjects(session: Session, { writer }: Placement): Promise<LargeObject[]> {
  const rows = await session.query(
    sql`SELECT oid, obj_description(oid, 'pg_largeobject') FROM pg_largeobject_metadata WHERE lomowner = ${writer}::regrole ORDER BY oid`,
  );
  return rows.map(([oid, comment]) => ({ oid: oid ?? '', comment: comment ?? null }));
}

/** The contents in hex, as Postgres writes `bytea`, with the offset of each part. */
export async function* partsOf(session: Session, oid: string): AsyncGenerator<{ at: number; part: string }> {
  for (let at = 0; ; at += PART_BYTES) {
    const [part] = await session.row(sql`SELECT lo_get(${oid}::oid, ${at}::bigint, ${PART_BYTES}::integer)`);
    if (part == null || part === '\\x') return;
    yield { at, part };
  }
}

/**
 * Copies contents and comments.
 * @param target a session of the writer
 */
export async function copyLargeObjects(source: Session, target: Session, from: Placement): Promise<void> {
  for (const { oid, comment } of await largeObjects(source, from)) {
    await target.query(sql`SELECT pg_catalog.lo_create(${oid}::oid)`);
    for await (const { at, part } of partsOf(source, oid)) {
      await target.query(sql`SELECT pg_catalog.lo_put(${oid}::oid, ${at}::bigint, ${part}::bytea)`);
    }
    if (comment === null) continue;
    await target.query(sql`COMMENT ON LARGE OBJECT ${trusted(oid)} IS ${literal(comment)}`);
  }
}

/**
 * Collects statistics on the target: a copy has none, and until autovacuum runs, the planner would guess. Runs as the
 * writer, because index expressions may call the project's code.
 * @throws PostgresError, ConnectionLost, EngineError database_unavailable; the signal's reason
 */
export async function analyze(tenancy: Tenancy, placement: Placement, signal: AbortSignal): Promise<void> {
  const login = await roleLogin(tenancy, placement, placement.writer, { search_path: 'pg_catalog' }, 'cdp move');
  return withServer(tenancy.serverOf(placement), () =>
    withSession(login, async (session) => void (await session.query(sql`ANALYZE`)), signal),
  );
}
