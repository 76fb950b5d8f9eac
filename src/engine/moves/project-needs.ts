/** Finds what a project requires of a server, and obstacles to any move. */
import { GIVES_BYPASS } from '../../backup/logical/dump-role.js';
import { sql, type Session } from '../../pg/index.js';
import { installedExtensions } from '../../tenancy/extensions.js';
import type { Placement } from '../../tenancy/placement.js';
import { isOfProject, ownSchemasOf } from '../../tenancy/project-rights.js';
import { serviceWork } from '../../tenancy/service-work.js';
import { inDatabase, type Tenancy } from '../../tenancy/tenancy.js';

export interface ProjectNeeds {
  readonly extensions: readonly string[];
  /** Schemas that it has created. */
  readonly schemas: readonly string[];
  /** Roles other than its own that its row security policies name. */
  readonly roles: readonly string[];
  /** Obstacles to any move, as text. */
  readonly obstacles: readonly string[];
}

/** @throws EngineError database_unavailable */
export function needsOf(tenancy: Tenancy, placement: Placement): Promise<ProjectNeeds> {
  const { writer, reader } = placement;
  return serviceWork(() =>
    inDatabase(tenancy, placement, async (session) => ({
      extensions: await installedExtensions(session),
      schemas: await ownSchemasOf(session, placement),
      roles: await names(
        session,
        sql`SELECT DISTINCT r.rolname FROM pg_policy p JOIN pg_class c ON c.oid = polrelid JOIN pg_namespace n ON n.oid = relnamespace
              JOIN pg_roles r ON r.oid = ANY (polroles)
              WHERE ${isOfProject(placement)} AND r.rolname NOT IN (${writer}, ${reader}) ORDER BY 1`,
      ),
      obstacles: await obstaclesOf(session, placement),
    })),
  );
}

async function obstaclesOf(session: Session, placement: Placement): Promise<string[]> {
  const [prepared] = await session.row(sql`SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()`);
  const slots = await names(
    session,
    sql`SELECT slot_name FROM pg_replication_slots WHERE database = current_database() ORDER BY 1`,
  );
  const subscriptions = await names(
    session,
    sql`SELECT subname FROM pg_subscription WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY 1`,
  );
  const [isClosed, bypasses] = await session.row(
    sql`SELECT NOT rolsuper AND NOT has_table_privilege('public', 'pg_roles', 'SELECT'), ${GIVES_BYPASS}
        FROM pg_roles WHERE rolname = current_user`,
  );
  const forced = await names(
    session,
    sql`SELECT c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
        WHERE ${isOfProject(placement)} AND relforcerowsecurity AND relrowsecurity ORDER BY 1`,
  );
  return [
    ...(Number(prepared) > 0 ? [`it has ${prepared} prepared transactions: commit or roll them back`] : []),
    ...(slots.length > 0 ? [`it has the logical replication slots ${slots.join(', ')}: drop them`] : []),
    ...(subscriptions.length > 0 ? [`it has the subscriptions ${subscriptions.join(', ')}: drop them`] : []),
    ...(isClosed === 't'
      ? [
          "the service's role on the project's server must be SUPERUSER, because it may not read catalogs that a copy needs",
        ]
      : []),
    ...(forced.length > 0 && bypasses !== 't'
      ? [
          `row security is forced on ${forced.join(', ')} and would hide rows from the copy: the service's role on the project's server must be SUPERUSER, or BYPASSRLS on Postgres 16 or later`,
        ]
      : []),
  ];
}

const names = async (session: Session, question: Parameters<Session['query']>[0]): Promise<string[]> =>
  (await session.query(question)).map(([name]) => name ?? '');
