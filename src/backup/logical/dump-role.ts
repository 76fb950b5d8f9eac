/**
 * A role for the length of one dump: it may read everything of one project and a few catalogs that are closed to projects, and
 * nothing else. pg_dump needs those catalogs, so it cannot run as the project's writer; and whatever a project might
 * slip under it must not run as the service's own role, which may be a superuser.
 */
import type pg from 'pg';
import { ADVISORY_LOCKS } from '../../tenancy/advisory-locks.js';
import { retryOnContention } from '../../tenancy/contention.js';
import { dumpRole, type Placement } from '../../tenancy/placement.js';
import { type LoginOptions, startupOptions } from '../../postgres/server.js';
import { withServiceClient } from '../../tenancy/service-pool.js';
import type { Tenancy } from '../../tenancy/tenancy.js';
import { quotedName } from '../../postgres/sql.js';

/** A project's own requests hold locks for 60 s at most; whoever waits longer waits for something else. */
export const LOCK_WAIT_MS = 90_000;

/** What `tenancy/shared-server.sql` takes from everybody and pg_dump asks for. */
const CATALOGS = [
  'pg_database',
  'pg_db_role_setting',
  'pg_roles',
  'pg_shdescription',
  'pg_shseclabel',
  'pg_tablespace',
];
const FUNCTIONS = ['shobj_description(oid, name)', 'pg_export_snapshot()'];

/** A session whose client has gone ends within a second, on servers of others too. */
const SETTINGS = {
  search_path: 'pg_catalog',
  row_security: 'off',
  jit: 'off',
  client_connection_check_interval: '1s',
};

/**
 * Runs `work` with the role's login, and takes the role away.
 * @param signal ends the waiting for another dump; afterwards `work` has to end by itself, and the role is taken away
 * @throws Error where the service's role may not lend what pg_dump needs; pg.DatabaseError; what `work` throws
 */
export async function withDumpRole<T>(
  tenancy: Tenancy,
  placement: Placement,
  signal: AbortSignal,
  work: (login: LoginOptions) => Promise<T>,
): Promise<T> {
  const role = dumpRole(placement);
  const { address } = tenancy.serverOf(placement);
  return withServiceClient(address, placement.database, async (client) => {
    await client.query(`SET lock_timeout = ${LOCK_WAIT_MS}`);
    await unlessAborted(client.query('SELECT pg_advisory_lock($1)', [ADVISORY_LOCKS.dump]), signal);
    try {
      await drop(client, role);
      await inTransaction(client, () => make(client, role, tenancy.roleOptions(role), placement));
      const options = startupOptions(SETTINGS);
      return await work({
        ...address,
        database: placement.database,
        user: role,
        password: tenancy.password(role),
        application_name: 'cdp backup',
        options,
      });
    } finally {
      // Where the connection has gone, so has what the role could be used for: the next dump begins with dropping it.
      await drop(client, role).catch(() => {});
    }
  });
}

/** The end of the connection ends what it still waits for. */
async function unlessAborted(waiting: Promise<unknown>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  waiting.catch(() => {});
  let abort = () => {};
  const aborted = new Promise<never>((_, reject) => (abort = () => reject(signal.reason as Error)));
  signal.addEventListener('abort', abort);
  await Promise.race([waiting, aborted]).finally(() => signal.removeEventListener('abort', abort));
}

/** A role that was half made would not be seen by {@link drop}: it shows itself as a member of the project's group. */
const inTransaction = (client: pg.Client, work: () => Promise<void>): Promise<void> =>
  retryOnContention(async () => {
    await client.query('BEGIN');
    try {
      await work();
      await client.query('COMMIT');
    } catch (error) {
      await client.query('ROLLBACK');
      throw error;
    }
  });

async function make(client: pg.Client, role: string, options: string, placement: Placement): Promise<void> {
  const { rows } = await client.query<{ superuser: boolean; bypass: boolean }>(
    `SELECT rolsuper AS superuser,
       rolsuper OR rolbypassrls AND current_setting('server_version_num')::integer >= 160000 AS bypass
     FROM pg_roles WHERE rolname = current_user`,
  );
  const { superuser = false, bypass = false } = rows[0] ?? {};
  await client.query(`CREATE ROLE ${quotedName(role)} LOGIN ${bypass ? 'BYPASSRLS' : ''} ${options}`);
  await client.query(`GRANT ${quotedName(placement.writer)} TO ${quotedName(role)}`);
  await client.query(`GRANT ${quotedName(role)} TO CURRENT_USER`);
  await client.query(`GRANT SELECT ON ALL TABLES IN SCHEMA _cdp TO ${quotedName(role)}`);
  if (superuser) {
    await client.query(`GRANT SELECT ON ${CATALOGS.join(', ')} TO ${quotedName(role)}`);
    await client.query(`GRANT EXECUTE ON FUNCTION ${FUNCTIONS.join(', ')} TO ${quotedName(role)}`);
  }
  const lent = await client.query<{ enough: boolean }>(
    `SELECT bool_and(has_table_privilege($1, t, 'SELECT')) AND has_function_privilege($1, 'pg_export_snapshot()', 'EXECUTE')
       AS enough FROM unnest($2::text[]) t`,
    [role, CATALOGS],
  );
  if (lent.rows[0]?.enough) return;
  throw new Error(
    'pg_dump has to read catalogs that are closed to everybody on this server: the role of DATABASE_URL must be ' +
      'SUPERUSER for this command',
  );
}

async function drop(client: pg.Client, role: string): Promise<void> {
  const { rowCount } = await client.query('SELECT FROM pg_roles WHERE rolname = $1', [role]);
  if (rowCount === 0) return;
  await inTransaction(client, async () => {
    await client.query(`DROP OWNED BY ${quotedName(role)}`);
    await client.query(`DROP ROLE ${quotedName(role)}`);
  });
}
