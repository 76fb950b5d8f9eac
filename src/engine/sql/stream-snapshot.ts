/** Streams the rows of a table with the cursor from which its changes go on: none is missing, and none comes twice. */
import { EngineError } from '../../contract/errors.js';
import type { Project } from '../../db/project.js';
import type { Feed } from '../../feed/feed.js';
import { PUBLICATIONS } from '../../feed/set-up.js';
import { fixed, ident, join, sql } from '../../pg/index.js';
import type { OwnedBuffer } from '../../codec/index.js';
import type { SqlServices } from './run-sql.js';
import { RowStream, type StreamEnd } from './stream-sql.js';

interface SnapshotRequest {
  /** As the API names it: with its schema, unless that is the project's. */
  readonly table: string;
  /** The role that reads, by its name on the server. */
  readonly role: string;
  /** Whose login is used. */
  readonly connection: 'sql-read' | 'sql-write';
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

const BEGIN = fixed('BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY');

/**
 * @throws EngineError table_not_found, permission_denied, database_unavailable if the feed does not get as far as the snapshot
 */
export async function streamSnapshot(
  services: Pick<SqlServices, 'throttle'>,
  project: Project,
  feed: Feed,
  { table, role, connection, timeoutMs, signal }: SnapshotRequest,
  write: (chunk: OwnedBuffer) => Promise<void> | undefined,
): Promise<StreamEnd> {
  const options = { format: 'ndjson', rowMode: 'object', columns: false } as const;
  const [schema, name] = table.includes('.') ? (table.split('.', 2) as [string, string]) : [project.schema, table];
  return project.read({ connection, preamble: [BEGIN], timeoutMs, signal }, async (db) => {
    const [found] = await db.query(sql`SELECT c.oid::bigint, pg_catalog.pg_current_snapshot(), to_jsonb(ARRAY(
        SELECT attname FROM pg_catalog.pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped ORDER BY attnum)),
        (SELECT pg_catalog.to_jsonb(pg_catalog.array_agg(a.attname ORDER BY k.position)) FROM pg_catalog.pg_index i,
          pg_catalog.unnest(i.indkey) WITH ORDINALITY AS k (number, position), pg_catalog.pg_attribute a
          WHERE i.indrelid = c.oid AND i.indisprimary AND a.attrelid = c.oid AND a.attnum OPERATOR(pg_catalog.=) k.number),
        EXISTS (SELECT FROM pg_catalog.pg_publication_rel r JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid
          WHERE p.pubname = ANY (${[...PUBLICATIONS]}::pg_catalog.name[]) AND (r.prrelid = c.oid
            OR r.prrelid IN (SELECT relid FROM pg_catalog.pg_partition_ancestors(c.oid))))
      FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = ${schema} AND c.relname = ${name} AND c.relkind IN ('r', 'p')`);
    const [oid, snapshot, names, key, isInFeed] = found ?? [];
    if (oid == null || snapshot == null || names == null)
      throw new EngineError('table_not_found', `There is no table "${table}"`);
    if (isInFeed !== 't')
      throw new EngineError('table_not_found', `The feed does not have the changes of "${table}"`, {
        hint: 'GET /api/cdp/feed lists its tables; those that are UNLOGGED have no changes.',
      });
    const visible = await feed.visibleTo(role, Number(oid));
    if (visible === null)
      throw new EngineError('permission_denied', `The token's role may not read the changes of "${table}"`, {
        hint: 'It needs SELECT, and row security must not apply to it.',
      });
    const columns = (JSON.parse(names) as string[]).filter((column) => visible === 'all' || visible.has(column));
    const cursor = await feed.cursorAfter(snapshot);
    const head = Buffer.from(
      `${JSON.stringify({ cursor, table, key: JSON.parse(key ?? 'null') as string[] | null })}\n`,
    );
    const text = sql`SELECT ${join(columns.map((column) => ident(column)))} FROM ${ident(schema, name)}`.text;
    const rows = new RowStream(services, project, options, write);
    const end = await rows.send({ db, text, params: [], ...(await db.describe(text)) }, head);
    rows.flush();
    return { ...end, warnings: [] };
  });
}
