/**
 * One Postgres server by address, shared by all projects: each has a database, cloned from a template, and two login
 * roles with random names and derived passwords. Nobody reads or changes another project's data; who can run SQL can slow
 * or crash the server for all on it (docs/security.md).
 */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Credentials } from './credentials.js';
import { databaseSize } from './database-size.js';
import { dumpRole, type Placement, SHARED } from './placement.js';
import type { ProjectRow } from './control-rows.js';
import { ProjectDatabases } from './project-databases.js';
import { ensureRoles, grant } from './project-rights.js';
import type { ServerAddress } from '../postgres/server.js';
import { withServiceClient } from './service-pool.js';
import { serviceWork } from './service-work.js';
import { literal, quotedName } from '../postgres/sql.js';
import { INSUFFICIENT_PRIVILEGE, OBJECT_IN_USE } from '../postgres/sqlstate.js';
import { connectionsTo, type Server, type Tenancy } from './tenancy.js';

/** Hides what Postgres shows to everybody about the whole server, as far as the service's role may. */
const REVOKES = readFileSync(new URL('./shared-server.sql', import.meta.url), 'utf8');

/**
 * Connections one role may hold, over all instances of the service together. An instance opens at most 14 for a project (8
 * for inserts and schema calls, 6 for free SQL), so this leaves room for nine of them.
 */
const CONNECTION_LIMIT = 128;

/** Connections of the service's own role, apart from those to the control database: the watchdog's, and for sizes. */
const POOL_SIZE = 6;

export class SharedServer implements Tenancy {
  readonly own = false;
  readonly running = 1;
  private readonly server: Server;

  /** @param template the name of the database that new ones are cloned from */
  constructor(
    private readonly address: ServerAddress,
    private readonly credentials: Credentials,
    private readonly template: string,
    private readonly databases: ProjectDatabases,
  ) {
    // Only the operator starts and stops it.
    this.server = { ...connectionsTo(address, POOL_SIZE, null), acquire: () => undefined, release: () => {} };
  }

  /**
   * Makes the template if it is missing, and brings it up to date. Callers hold the start lock.
   * @param isCurrent the control database knows the template as one of this program
   * @throws Error if the service's role lacks a right
   */
  async prepareTemplate(isCurrent: boolean): Promise<void> {
    if (!isCurrent) await this.makeTemplate();
    await withServiceClient(this.address, this.template, async (client) => {
      await this.databases.prepare(client);
      await client.query(REVOKES);
    });
  }

  newPlacement(): Placement {
    const hex = () => randomBytes(10).toString('hex');
    return { server: SHARED, database: `d_${hex()}`, schema: 'data', writer: `w_${hex()}`, reader: `r_${hex()}` };
  }

  runs(): boolean {
    return true;
  }

  serverOf(): Server {
    return this.server;
  }

  async create(placement: Placement): Promise<void> {
    const { database } = placement;
    await withServiceClient(this.address, this.address.database, async (client) => {
      await ensureRoles(client, placement, (role) => this.roleOptions(role));
      await this.cloneTemplate(client, database);
      await client.query(`REVOKE ALL ON DATABASE ${quotedName(database)} FROM PUBLIC`);
    });
    await withServiceClient(this.address, database, (client) => grant(client, placement));
    await this.databases.grantDefaults(this, placement);
  }

  async drop({ database, writer, reader }: Placement): Promise<void> {
    await withServiceClient(this.address, this.address.database, async (client) => {
      await dropDatabase(client, database);
      // Until version 0.2 a group role was called like the database.
      for (const role of [dumpRole({ writer }), writer, reader, database])
        await client.query(`DROP ROLE IF EXISTS ${quotedName(role)}`);
    });
  }

  roleOptions(role: string): string {
    return `CONNECTION LIMIT ${CONNECTION_LIMIT} PASSWORD ${literal(this.credentials.scramVerifier(role)).text}`;
  }

  password(role: string): string {
    return this.credentials.password(role);
  }

  sizeOf({ placement }: Pick<ProjectRow, 'placement'>): Promise<number | null> {
    return databaseSize(this.server.pool, placement.database);
  }

  extensions(): Promise<string[]> {
    return serviceWork(() => withServiceClient(this.address, this.template, ProjectDatabases.extensionsIn));
  }

  async close(): Promise<void> {
    this.server.silence.close();
    await this.server.pool.end();
  }

  private async makeTemplate(): Promise<void> {
    await withServiceClient(this.address, this.address.database, async (client) => {
      await requireRights(client);
      const found = await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [this.template]);
      if (found.rowCount === 0) {
        await client.query(`CREATE DATABASE ${quotedName(this.template)} TEMPLATE template0 ENCODING 'UTF8'`);
      }
      await client.query(`REVOKE ALL ON DATABASE ${quotedName(this.template)} FROM PUBLIC`);
    });
  }

  /** CREATE DATABASE refuses while another instance is connected to the template to upgrade it. */
  private async cloneTemplate(client: pg.Client, database: string): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await client.query(`CREATE DATABASE ${quotedName(database)} TEMPLATE ${quotedName(this.template)}`);
        return;
      } catch (error) {
        if (!(error instanceof pg.DatabaseError && error.code === OBJECT_IN_USE) || attempt === 20) throw error;
        await sleep(250);
      }
    }
  }
}

/** Said at the first start, not at the first project. */
async function requireRights(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ enough: boolean }>(
    'SELECT rolsuper OR (rolcreatedb AND rolcreaterole) AS enough FROM pg_roles WHERE rolname = current_user',
  );
  if (rows[0]?.enough) return;
  throw new Error('The role of DATABASE_URL may not make databases and roles: ALTER ROLE … CREATEDB CREATEROLE');
}

/**
 * Drops a database and ends what uses it. While autovacuum, which is the superuser's, works there, Postgres refuses FORCE
 * to anybody else. Without FORCE it ends autovacuum itself, and waits some seconds for sessions that end.
 */
async function dropDatabase(client: pg.Client, database: string): Promise<void> {
  try {
    await client.query(`DROP DATABASE IF EXISTS ${quotedName(database)} WITH (FORCE)`);
  } catch (error) {
    if ((error as pg.DatabaseError).code !== INSUFFICIENT_PRIVILEGE) throw error;
    await client.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'`,
      [database],
    );
    await client.query(`DROP DATABASE IF EXISTS ${quotedName(database)}`);
  }
}
