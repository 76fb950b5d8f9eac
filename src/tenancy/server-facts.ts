/** What a server says of itself, for `cdp doctor` and backups: nothing here changes anything. */
import type { ServerAddress } from '../postgres/server.js';
import { withServiceClient } from './service-pool.js';
import { serviceWork } from './service-work.js';

export interface ServerFacts {
  /** Major version: 18. */
  readonly major: number;
  /** For people: `18.1 (Debian 18.1-1)`. */
  readonly version: string;
  readonly isSuperuser: boolean;
  /** May make databases and roles. */
  readonly canProvision: boolean;
  /** Settings by name, as `SHOW` tells them; one that this server does not have is left out. */
  readonly settings: ReadonlyMap<string, string>;
  /** Connections that ordinary roles can have. */
  readonly connections: number;
  /** True where this connection is encrypted, or does not leave the machine. */
  readonly isPrivate: boolean;
  /** Milliseconds by which the server's clock is ahead of ours. */
  readonly clockAheadMs: number;
  /** Version of the control schema; 0 where there is none. */
  readonly controlVersion: number;
  /** True on a standby, which takes no writes. */
  readonly isStandby: boolean;
}

const SETTINGS = ['fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum', 'password_encryption'];

/** @throws EngineError database_unavailable; the driver's error where the server cannot be reached */
export async function serverFacts(address: ServerAddress): Promise<ServerFacts> {
  return serviceWork(() =>
    withServiceClient(address, address.database, async (client) => {
      const { rows: settings } = await client.query<{ name: string; setting: string }>(
        'SELECT name, setting FROM pg_settings WHERE name = ANY ($1)',
        [SETTINGS],
      );
      const asked = Date.now();
      const { rows } = await client.query<{
        version: string;
        number: number;
        superuser: boolean;
        provisions: boolean;
        connections: number;
        encrypted: boolean;
        now_ms: number;
        standby: boolean;
        migrated: boolean;
      }>(
        `SELECT current_setting('server_version') AS version,
           current_setting('server_version_num')::integer AS number,
           rolsuper AS superuser,
           rolsuper OR (rolcreatedb AND rolcreaterole) AS provisions,
           current_setting('max_connections')::integer
             - current_setting('superuser_reserved_connections')::integer
             - coalesce(current_setting('reserved_connections', true)::integer, 0) AS connections,
           inet_client_addr() IS NULL OR inet_client_addr() <<= '127.0.0.0/8' OR inet_client_addr() = '::1'
             OR coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS encrypted,
           extract(epoch FROM clock_timestamp())::float8 * 1000 AS now_ms,
           pg_is_in_recovery() AS standby,
           to_regclass('cdp.migrations') IS NOT NULL AS migrated
         FROM pg_roles WHERE rolname = current_user`,
      );
      const answered = Date.now();
      const [row] = rows;
      if (row === undefined) throw new Error('The role of the service is not in pg_roles');
      const { rows: migrations } = row.migrated
        ? await client.query<{ version: number }>('SELECT coalesce(max(version), 0) AS version FROM cdp.migrations')
        : { rows: [] };
      return {
        major: Math.floor(row.number / 10_000),
        version: row.version,
        isSuperuser: row.superuser,
        canProvision: row.provisions,
        settings: new Map(settings.map(({ name, setting }) => [name, setting])),
        connections: row.connections,
        isPrivate: row.encrypted,
        // The server read its clock at some moment in between.
        clockAheadMs: row.now_ms - (asked + answered) / 2,
        controlVersion: migrations[0]?.version ?? 0,
        isStandby: row.standby,
      };
    }),
  );
}
