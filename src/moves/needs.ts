/** Finds what a project requires of a server, and obstacles to any move. */
import { GIVES_BYPASS } from '../backup/logical/dump-role.js';
import { rolesOfPolicies } from '../backup/logical/policies.js';
import { rightsOf } from '../backup/logical/rights.js';
import { tokensOf } from '../contract/sql-tokens.js';
import { PostgresError, sql, SQLSTATE, type Session } from '../pg/index.js';
import { installedExtensions } from '../tenancy/extensions.js';
import { FEED_SLOT, type Placement } from '../tenancy/placement.js';
import { belongsToProject, ownSchemasOf, rolesOf } from '../tenancy/project-rights.js';
import { serviceWork } from '../tenancy/postgres-errors.js';
import { inDatabase, type Tenancy } from '../tenancy/tenancy.js';

export interface ProjectNeeds {
  readonly extensions: readonly string[];
  /** Schemas that it has created. */
  readonly schemas: readonly string[];
  /** Roles other than its own that its policies and rights name, as Postgres quotes them. */
  readonly roles: readonly string[];
  /** Obstacles to any move, as text. */
  readonly obstacles: readonly string[];
}

/** @throws EngineError database_unavailable */
export function needsOf(tenancy: Tenancy, placement: Placement): Promise<ProjectNeeds> {
  return serviceWork(() =>
    inDatabase(tenancy, placement, async (session) => ({
      extensions: await installedExtensions(session),
      schemas: await ownSchemasOf(session, placement),
      roles: await otherRoles(session, placement),
      obstacles: await obstaclesOf(session, placement),
    })),
  );
}

async function otherRoles(session: Session, placement: Placement): Promise<string[]> {
  const named = [
    ...(await rolesOfPolicies(session, placement)),
    ...(await rightsOf(session, placement)).map(({ role }) => role),
  ];
  return [...new Set(named)].filter((role) => !role.startsWith('@')).sort();
}

async function obstaclesOf(session: Session, placement: Placement): Promise<string[]> {
  const [prepared] = await session.row(sql`SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()`);
  const slots = await names(
    session,
    sql`SELECT slot_name FROM pg_replication_slots WHERE database = current_database() ORDER BY 1`,
  );
  const others = slots.filter((slot) => slot !== FEED_SLOT);
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
        WHERE ${belongsToProject(placement)} AND relforcerowsecurity AND relrowsecurity ORDER BY 1`,
  );
  return [
    ...(Number(prepared) > 0 ? [`it has ${prepared} prepared transactions: commit or roll them back`] : []),
    ...(slots.includes(FEED_SLOT)
      ? ['it has a feed of changes, which needs a server of its own: turn it off (DELETE /api/cdp/feed)']
      : []),
    ...(others.length > 0 ? [`it has the logical replication slots ${others.join(', ')}: drop them`] : []),
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

/** To show code, Postgres locks the tables that it names, and a project may hold such a lock for any time. */
const CODE_WAIT_MS = 1_000;

/**
 * The code of a project that names its own roles as constants, which a move does not change: such as `policy p on
 * data.t`, where the policy compares `current_user` with 'writer'.
 * @returns null: not known, since a table is locked
 * @throws EngineError database_unavailable
 */
export function roleConstants(tenancy: Tenancy, placement: Placement): Promise<string[] | null> {
  return serviceWork(() =>
    inDatabase(tenancy, placement, async (session) => {
      await session.query(sql`SELECT set_config('lock_timeout', ${CODE_WAIT_MS}, false)`);
      try {
        return await constantsIn(session, placement);
      } catch (error) {
        if (error instanceof PostgresError && error.sqlstate === SQLSTATE.LOCK_NOT_AVAILABLE) return null;
        throw error;
      }
    }),
  );
}

/** @param session with the search path pg_catalog */
async function constantsIn(session: Session, placement: Placement): Promise<string[]> {
  const constants = (await rolesOf(session, placement)).map((role) => `'${role}'`);
  const contains = constants.map((constant) => `%${constant}%`);
  const schemas = sql`(SELECT oid FROM pg_namespace WHERE ${belongsToProject(placement)})`;
  const tables = sql`(SELECT oid FROM pg_class WHERE relnamespace IN ${schemas})`;
  const rows = await session.query(sql`
    SELECT what, code FROM (
      SELECT format('policy %I on %s', polname, polrelid::regclass),
        concat_ws(' ', pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))
      FROM pg_policy WHERE polrelid IN ${tables}
      UNION ALL SELECT format('view %s', oid::regclass), pg_get_viewdef(oid)
      FROM pg_class WHERE relnamespace IN ${schemas} AND relkind IN ('v', 'm')
      UNION ALL SELECT format('function %s', oid::regprocedure), concat_ws(' ', prosrc, pg_get_function_sqlbody(oid))
      FROM pg_proc WHERE pronamespace IN ${schemas} AND prokind <> 'a'
      UNION ALL SELECT format('default of %I in %s', attname, attrelid::regclass), pg_get_expr(adbin, adrelid)
      FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum WHERE adrelid IN ${tables}
      UNION ALL SELECT format('constraint %I on %s', conname, coalesce(nullif(conrelid, 0)::regclass::text, contypid::regtype::text)),
        pg_get_constraintdef(oid)
      FROM pg_constraint WHERE connamespace IN ${schemas} AND contype = 'c'
      UNION ALL SELECT format('trigger %I on %s', tgname, tgrelid::regclass), pg_get_triggerdef(oid)
      FROM pg_trigger WHERE tgrelid IN ${tables} AND NOT tgisinternal
      UNION ALL SELECT format('rule %I on %s', rulename, ev_class::regclass), pg_get_ruledef(oid)
      FROM pg_rewrite WHERE ev_class IN ${tables} AND rulename <> '_RETURN'
    ) AS found (what, code) WHERE code LIKE ANY (${contains}) ORDER BY what`);
  return rows.flatMap(([what, code]) => (hasConstant(code ?? '', constants) ? [what ?? ''] : []));
}

function hasConstant(code: string, constants: readonly string[]): boolean {
  for (const { kind, from, to } of tokensOf(code)) {
    if (kind === 'string' && constants.includes(code.slice(from, to))) return true;
  }
  return false;
}
