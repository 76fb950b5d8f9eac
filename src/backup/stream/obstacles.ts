/** Reasons why a project cannot be streamed to another server. It is then copied while writes are refused. */
import { type Fragment, type Session, sql } from '../../pg/index.js';
import { CitusTenancy } from '../../tenancy/citus-tenancy.js';
import type { Placement } from '../../tenancy/placement.js';
import { isOfProject } from '../../tenancy/project-rights.js';
import { withServiceSession } from '../../tenancy/service-pool.js';
import { inDatabase, type Tenancy } from '../../tenancy/tenancy.js';
import { areCopied } from '../copy/tables.js';

/** If {@link mayReplicate}, the session that applies changes runs no triggers. */
const REPLICA = 'session_replication_role';

/** All tables whose changes are streamed, as rows `c` of pg_class and `cn` of pg_namespace. */
export const streamedTables = (placement: Placement): Fragment =>
  sql`pg_class c JOIN pg_namespace cn ON cn.oid = c.relnamespace
    WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND ${areCopied(placement)}`;

/**
 * Returns messages; none: the project can be streamed. Changes nothing.
 * @throws PostgresError, ConnectionLost
 */
export function streamObstacles(from: Tenancy, source: Placement, to: Tenancy, target: Pick<Placement, 'server'>) {
  return inDatabase(from, source, async (session) => [
    ...(to instanceof CitusTenancy ? ['the target is a Citus cluster'] : []),
    ...(await ofServer(session, from)),
    ...(await ofContents(session, source)),
    ...(await ofTriggers(session, source, to, target)),
  ]);
}

async function ofServer(session: Session, tenancy: Tenancy): Promise<string[]> {
  const [isLogical, mayReplicate] = await session.row(
    sql`SELECT current_setting('wal_level') = 'logical', rolsuper OR rolreplication FROM pg_roles WHERE rolname = current_user`,
  );
  // A project's own server is restarted for the move.
  const isReady = isLogical === 't' || tenancy.fleet !== null;
  return [
    ...(isReady ? [] : ['the setting wal_level of its server is not logical']),
    ...(mayReplicate === 't' ? [] : ["the service's role on its server is neither SUPERUSER nor REPLICATION"]),
  ];
}

/** Objects whose changes the stream does not contain, or cannot assign to a row. */
export async function ofContents(session: Session, placement: Placement): Promise<string[]> {
  const ofProject = sql`relnamespace IN (SELECT oid FROM pg_namespace WHERE ${isOfProject(placement)})`;
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
async function ofTriggers(
  session: Session,
  placement: Placement,
  to: Tenancy,
  target: Pick<Placement, 'server'>,
): Promise<string[]> {
  if (!(await hasTriggers(session, placement)) || (await mayReplicate(to, target))) return [];
  return [
    `it has foreign keys, triggers or rules, and the service's role on the target may not set ${REPLICA} (GRANT SET ON PARAMETER ${REPLICA} TO it)`,
  ];
}

export async function hasTriggers(session: Session, placement: Placement): Promise<boolean> {
  const of = sql`IN (SELECT pg_class.oid FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace
    WHERE ${isOfProject(placement)} AND relkind IN ('r', 'p'))`;
  const [has] = await session.row(
    sql`SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid ${of}) OR EXISTS (SELECT FROM pg_rewrite WHERE ev_class ${of})`,
  );
  return has === 't';
}

/** On a project's own server, which may not be running yet, the service is superuser. */
function mayReplicate(tenancy: Tenancy, target: Pick<Placement, 'server'>): Promise<boolean> {
  if (tenancy.fleet !== null) return Promise.resolve(true);
  const { address } = tenancy.serverOf(target);
  return withServiceSession(address, address.database, async (session) => {
    const [may] = await session.row(sql`SELECT has_parameter_privilege(${REPLICA}, 'SET')`);
    return may === 't';
  });
}
