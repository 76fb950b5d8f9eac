/**
 * A role for one dump. It can read everything in one project, and a few catalogs that projects may not read. The
 * project's writer cannot read those catalogs, and a dump as a superuser could be tricked into running the project's
 * code as a superuser.
 */
import {
  fixed,
  type Fragment,
  ident,
  inTransaction,
  type LoginOptions,
  type Session,
  sql,
  trusted,
} from '../../pg/index.js';
import { beginWithTableLock, LockHeld, retryOnContention } from '../../tenancy/locks.js';
import { dumpRole, type Placement } from '../../tenancy/placement.js';
import { SHARD_BY_SHARD } from '../../tenancy/connections/session-settings.js';
import { dropRole } from '../../tenancy/project-rights.js';
import { roleLogin } from '../../tenancy/role-login.js';
import { inDatabase, type Tenancy } from '../../tenancy/tenancy.js';

/** Requests of a project hold locks for at most 60 s. */
export const LOCK_WAIT_MS = 90_000;

const END_MS = 5_000;

export const LOCK_TIMEOUT = fixed(`SET lock_timeout = ${LOCK_WAIT_MS}`);

/** pg_dump reads these; `tenancy/own-database-tenancy.sql` revokes them from PUBLIC. */
const CATALOGS = [
  'pg_database',
  'pg_db_role_setting',
  'pg_roles',
  'pg_shdescription',
  'pg_shseclabel',
  'pg_tablespace',
];
const FUNCTIONS = ['shobj_description(oid, name)', 'pg_export_snapshot()'];

const SETTINGS = {
  search_path: 'pg_catalog',
  row_security: 'off',
  jit: 'off',
  client_connection_check_interval: '1s',
  ...SHARD_BY_SHARD,
};

/**
 * Creates a role, runs `work` with its login, and drops the role.
 * @param signal ends the wait for another dump of the database; `work` must end by itself
 * @throws LockHeld if the other dump takes longer than {@link LOCK_WAIT_MS}
 * @throws Error if the service's role may not grant what pg_dump needs; PostgresError; what `work` throws
 */
export async function withDumpRole<T>(
  tenancy: Tenancy,
  placement: Placement,
  signal: AbortSignal,
  work: (login: LoginOptions) => Promise<T>,
): Promise<T> {
  const role = dumpRole(placement);
  return alone(tenancy, placement, { ms: LOCK_WAIT_MS, signal }, async (session) => {
    await session.query(LOCK_TIMEOUT);
    try {
      await transact(session, () => dropRole(session, role));
      await tenancy.recoverPrepared(session);
      await transact(session, () => make(session, role, tenancy.roleOptions(role), placement));
      return await work(await roleLogin(tenancy, placement, role, SETTINGS, 'cdp backup'));
    } finally {
      // If this fails, the next dump drops the role.
      await transact(session, () => dropRole(session, role)).catch(() => {});
    }
  });
}

/**
 * Drops the role that a killed process has left. A role in use is skipped: its own dump drops it.
 * @throws PostgresError, ConnectionLost
 */
export async function dropDumpRole(tenancy: Tenancy, placement: Placement): Promise<void> {
  try {
    // The session of a killed process may take a moment to end.
    await alone(tenancy, placement, { ms: END_MS }, (session) =>
      transact(session, () => dropRole(session, dumpRole(placement))),
    );
  } catch (error) {
    if (!(error instanceof LockHeld)) throw error;
  }
}

/**
 * Only one dump of a database runs at a time. The lock needs a session of its own: its transaction stays open, and the
 * role must be committed before it can log in.
 */
async function alone<T>(
  tenancy: Tenancy,
  placement: Placement,
  { ms, signal }: { ms: number; signal?: AbortSignal },
  work: (session: Session) => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted();
  const waiting = new AbortController();
  const giveUp = () => waiting.abort(signal?.reason);
  signal?.addEventListener('abort', giveUp);
  const hold = async (locking: Session): Promise<T> => {
    await beginWithTableLock(locking, DUMP_LOCK, { name: 'The lock for dumps of the project', ms });
    signal?.removeEventListener('abort', giveUp);
    return inDatabase(tenancy, placement, work);
  };
  return inDatabase(tenancy, placement, hold, waiting.signal).finally(() =>
    signal?.removeEventListener('abort', giveUp),
  );
}

const DUMP_LOCK = sql`${ident('_cdp', 'dump_lock')}`;

/** All or nothing: DROP OWNED would not see a role that has no rights yet. */
const transact = (session: Session, work: () => Promise<void>): Promise<void> =>
  retryOnContention(() => inTransaction(session, work));

/** A condition on the service's role in pg_roles: it can give BYPASSRLS to the role of a dump. */
export const GIVES_BYPASS = sql`rolsuper OR rolbypassrls AND current_setting('server_version_num')::integer >= 160000`;

async function make(session: Session, role: string, options: Fragment, { database, writer }: Placement): Promise<void> {
  const [superuser, bypass] = await session.row(
    sql`SELECT rolsuper, ${GIVES_BYPASS} FROM pg_roles WHERE rolname = current_user`,
  );
  const name = ident(role);
  await session.query(sql`CREATE ROLE ${name} LOGIN ${trusted(bypass === 't' ? 'BYPASSRLS' : '')} ${options}`);
  await session.query(sql`GRANT ${ident(writer)} TO ${name}`);
  await session.query(sql`GRANT ${name} TO CURRENT_USER`);
  // While a move has fenced off the writes, the writer may not connect.
  await session.query(sql`GRANT CONNECT ON DATABASE ${ident(database)} TO ${name}`);
  await session.query(sql`GRANT SELECT ON ALL TABLES IN SCHEMA _cdp TO ${name}`);
  if (superuser === 't') {
    await session.query(sql`GRANT SELECT ON ${trusted(CATALOGS.join(', '))} TO ${name}`);
    await session.query(sql`GRANT EXECUTE ON FUNCTION ${trusted(FUNCTIONS.join(', '))} TO ${name}`);
  }
  const [isEnough] = await session.row(
    sql`SELECT bool_and(has_table_privilege(${role}, t, 'SELECT'))
          AND has_function_privilege(${role}, 'pg_export_snapshot()', 'EXECUTE')
        FROM unnest(${CATALOGS}::text[]) t`,
  );
  if (isEnough === 't') return;
  throw new Error(
    'pg_dump needs catalogs that are closed to PUBLIC on this server: the role of DATABASE_URL must be SUPERUSER for this command',
  );
}
