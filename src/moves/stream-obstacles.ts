/**
 * Reasons why a project cannot be streamed to another server, before the stream begins and while it runs. The project is
 * then copied while writes are refused.
 */
import { type Fragment, ident, join, type Session, sql } from '../pg/index.js';
import type { Placement } from '../tenancy/placement.js';
import { belongsToProject } from '../tenancy/project-rights.js';
import { inDatabase, type ProjectDatabase, type Tenancy } from '../tenancy/tenancy.js';
import { areCopied } from './contents.js';
import { type CopyResult, schemaEntries } from './copy.js';
import { differentEntries } from './verify.js';

/** The project can only be copied while writes are refused. The message says why. */
export class NotStreamable extends Error {}

/** Where the service may set it, the session that applies changes runs no triggers. */
const REPLICA = 'session_replication_role';

/** All tables whose changes are streamed, as rows `c` of pg_class and `cn` of pg_namespace. */
export const streamedTables = (placement: Placement): Fragment =>
  sql`pg_class c JOIN pg_namespace cn ON cn.oid = c.relnamespace
    WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND ${areCopied(placement)}`;

/**
 * Returns messages; none: the project can be streamed. Changes nothing.
 * @throws PostgresError, ConnectionLost
 */
export function streamObstacles(from: Tenancy, source: Placement, to: Tenancy) {
  return inDatabase(from, source, async (session) => [
    ...(to.obstacleToStream === null ? [] : [to.obstacleToStream]),
    ...(await ofServer(session, from)),
    ...(await ofContents(session, source)),
    ...(await ofTriggers(session, source, to)),
  ]);
}

async function ofServer(session: Session, tenancy: Tenancy): Promise<string[]> {
  const [isLogical, mayReplicate] = await session.row(
    sql`SELECT current_setting('wal_level') = 'logical', rolsuper OR rolreplication FROM pg_roles WHERE rolname = current_user`,
  );
  // Otherwise the server is restarted for the move.
  const isReady = isLogical === 't' || tenancy.canRestart;
  return [
    ...(isReady ? [] : ['the setting wal_level of its server is not logical']),
    ...(mayReplicate === 't' ? [] : ["the service's role on its server is neither SUPERUSER nor REPLICATION"]),
  ];
}

/** Objects whose changes the stream does not contain, or cannot assign to a row. */
async function ofContents(session: Session, placement: Placement): Promise<string[]> {
  const ofProject = sql`relnamespace IN (SELECT oid FROM pg_namespace WHERE ${belongsToProject(placement)})`;
  const rows = await session.query(sql`
    SELECT 'table ' || c.oid::regclass || ' has no primary key' FROM ${streamedTables(placement)}
      AND c.relpersistence = 'p' AND NOT (c.relreplident = 'd' AND EXISTS (
        SELECT FROM pg_index WHERE indrelid = c.oid AND indisprimary AND indisvalid AND indimmediate))
    UNION ALL SELECT 'table ' || c.oid::regclass || ' is unlogged' FROM ${streamedTables(placement)} AND c.relpersistence = 'u'
    UNION ALL SELECT 'table ' || c.oid::regclass || ' inherits from another one' FROM ${streamedTables(placement)}
      AND NOT c.relispartition AND EXISTS (SELECT FROM pg_inherits WHERE inhrelid = c.oid)
    UNION ALL SELECT 'materialized view ' || oid::regclass || ' has rows' FROM pg_class
      WHERE ${ofProject} AND relkind = 'm' AND relispopulated
    UNION ALL SELECT 'row security of table ' || oid::regclass || ' is forced' FROM pg_class
      WHERE ${ofProject} AND relforcerowsecurity
    UNION ALL SELECT 'trigger ' || tgname || ' is enabled for replicas' FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
      WHERE ${ofProject} AND tgenabled IN ('A', 'R')
    UNION ALL SELECT 'rule ' || rulename || ' is enabled for replicas' FROM pg_rewrite JOIN pg_class ON pg_class.oid = ev_class
      WHERE ${ofProject} AND relkind IN ('r', 'p') AND ev_enabled IN ('A', 'R')
    UNION ALL SELECT 'it has large objects' WHERE EXISTS (
      SELECT FROM pg_largeobject_metadata WHERE lomowner = ${placement.writer}::regrole)
    ORDER BY 1`);
  return rows.map(([what]) => what ?? '');
}

/** Triggers and rules must not run again where changes are applied. Every foreign key has triggers. */
async function ofTriggers(session: Session, placement: Placement, to: Tenancy): Promise<string[]> {
  if (!(await hasTriggers(session, placement)) || (await to.maySet(REPLICA))) return [];
  return [
    `it has foreign keys, triggers or rules, and the service's role on the target may not set ${REPLICA} (GRANT SET ON PARAMETER ${REPLICA} TO it)`,
  ];
}

export async function hasTriggers(session: Session, placement: Placement): Promise<boolean> {
  const of = sql`IN (SELECT pg_class.oid FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace
    WHERE ${belongsToProject(placement)} AND relkind IN ('r', 'p'))`;
  const [has] = await session.row(
    sql`SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid ${of}) OR EXISTS (SELECT FROM pg_rewrite WHERE ev_class ${of})`,
  );
  return has === 't';
}

/**
 * @param columns {@link columnsOf} before the copy
 * @returns a function that throws if the schema is no longer that of the copy, or the project has an obstacle now
 * @throws NotStreamable
 */
export function schemaCheck(
  session: Session,
  source: ProjectDatabase,
  columns: string,
  copied: CopyResult,
  signal: AbortSignal,
) {
  let lastState = '';
  return async (): Promise<void> => {
    const catalogs = await catalogsOf(session);
    if (catalogs === lastState) return;
    const { placement } = source;
    const changes =
      (await columnsOf(session, placement)) === columns
        ? differentEntries(copied.schema, await schemaEntries(source, signal), true)
        : ['columns of its tables have changed'];
    const obstacles = await ofContents(session, placement);
    if (changes.length + obstacles.length > 0) {
      throw new NotStreamable(`its schema was changed meanwhile: ${[...changes, ...obstacles].slice(0, 5).join('; ')}`);
    }
    lastState = catalogs;
  };
}

/** Columns of pg_class that change when rows do, or later by VACUUM. */
const VOLATILE = [
  ...['relfilenode', 'relpages', 'reltuples', 'relallvisible', 'relallfrozen', 'relfrozenxid', 'relminmxid'],
  ...['relhasindex', 'relhasrules', 'relhastriggers', 'relhassubclass'],
];

/**
 * The service's tables, which projects cannot change. A dump grants and revokes rights on them, which rewrites the rows
 * of columns that have their own rights.
 */
const BOOKKEEPING = sql`SELECT oid FROM pg_class WHERE relnamespace = '_cdp'::regnamespace`;

/**
 * Returns a hash over all catalogs, which differs after any change of the schema. This takes milliseconds, and needs no
 * dump. It may also differ without a change, for instance after a temporary table was created. A dump grants rights to
 * its role and revokes them, so pg_class and pg_proc are hashed by content, other catalogs by the versions of their rows.
 */
export async function catalogsOf(session: Session): Promise<string> {
  const catalogs = await session.query(sql`SELECT relname FROM pg_class
    WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'r' AND NOT relisshared
      AND relname NOT IN ('pg_statistic', 'pg_statistic_ext_data', 'pg_largeobject')
      AND has_table_privilege(oid, 'SELECT') ORDER BY 1`);
  const rowsOf = ([name]: (string | null)[]) => {
    const row = ['pg_class', 'pg_proc'].includes(name ?? '')
      ? sql`(to_jsonb(c) - ${VOLATILE}::text[])::text`
      : sql`ctid::text || ' ' || xmin`;
    const condition = name === 'pg_attribute' ? sql`WHERE attrelid NOT IN (${BOOKKEEPING})` : sql``;
    return sql`SELECT ${name ?? ''} || ' ' || count(*) || ' ' || sum(hashtextextended(${row}, 0)) AS one FROM ${ident(name ?? '')} c ${condition}`;
  };
  const [text] = await session.row(
    sql`SELECT md5(string_agg(one, ' ' ORDER BY one)) FROM (${join(catalogs.map(rowsOf), ' UNION ALL ')}) AS all_of_them`,
  );
  return text ?? '';
}

/**
 * Returns a hash over the columns of all streamed tables, which differs after any change of them or of the set of
 * tables. If a column was changed and then changed back, parts of its values may be lost, but the stream does not show
 * that.
 */
export async function columnsOf(session: Session, placement: Placement): Promise<string> {
  const [text] = await session.row(sql`
    SELECT md5(string_agg(concat_ws(' ', attrelid, attnum, a.xmin), ',' ORDER BY attrelid, attnum))
    FROM pg_attribute a WHERE attrelid IN (SELECT c.oid FROM ${streamedTables(placement)}) AND attrelid NOT IN (${BOOKKEEPING})`);
  return text ?? '';
}
