/** Finds the tables of a project, and copies their rows from one server to another. */
import { type Fragment, ident, type Session, sql, trusted } from '../../pg/index.js';
import type { Placement } from '../../tenancy/placement.js';
import { isOfProject } from '../../tenancy/project-rights.js';
import { type ProjectTable, shownName } from '../logical/snapshot.js';

/** Tables of the service with rows of the project: the responses by Idempotency-Key, the receipts and the quarantine. */
const OF_SERVICE = ['idempotency_keys', 'quarantine'];

/**
 * A table with its own rows, or a partitioned one with all of its partitions: the partition of a row may depend on the
 * server, for instance on the collation of its operating system.
 */
export interface CopiedTable extends ProjectTable {
  /** The name that people are shown. */
  readonly shown: string;
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
      const shown = shownName({ schema, name }, placement);
      tables.push({ schema, name, shown, columns, parts: [part] });
    }
  }
  return tables;
}

export const areCopied = (placement: Placement): Fragment =>
  sql`(c.relnamespace IN (SELECT oid FROM pg_namespace WHERE ${isOfProject(placement)})
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
  async function* counted(part: ProjectTable): AsyncGenerator<Buffer> {
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
  let stored = 0;
  for (const part of table.parts) stored += await target.copyIn(into, counted(part));
  report(rows, bytes);
  return stored;
}

/** Counts newlines, which COPY's text format escapes inside values. */
function linesIn(data: Buffer): number {
  let count = 0;
  for (let at = data.indexOf(10); at >= 0; at = data.indexOf(10, at + 1)) count++;
  return count;
}
