/**
 * One Postgres server by address, shared by projects: each has a database, cloned from a template, and two login
 * roles with random names and derived passwords. Nobody reads or changes another project's data; who can run SQL can slow
 * or crash the server for all on it (docs/security.md).
 */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Fragment,
  ident,
  literal,
  PostgresError,
  type ServerAddress,
  type Session,
  sql,
  SQLSTATE,
  trusted,
} from '../pg/index.js';
import { DEFAULT_SERVER } from '../contract/servers.js';
import { ADVISORY_LOCKS } from './advisory-locks.js';
import type { ProjectRow } from './control-rows.js';
import type { Credentials } from './credentials.js';
import { installedExtensions } from './extensions.js';
import { isSuperuser } from './own-schemas.js';
import { type AddedServer, dumpRole, type Placement } from './placement.js';
import { rollBackPrepared } from './prepared-transactions.js';
import type { ProjectDatabases } from './project-databases.js';
import { ensureRoles, grant } from './project-rights.js';
import { databaseSize, serverMajor } from './server-facts.js';
import { withServiceSession } from './service-pool.js';
import { serviceWork } from './service-work.js';
import { connectionsTo, type Server, type Tenancy } from './tenancy.js';

/** Hides what Postgres shows to everybody about the whole server, as far as the service's role may. */
const REVOKES = readFileSync(new URL('./shared-tenancy.sql', import.meta.url), 'utf8');

/**
 * Connections one role may hold, over all instances of the service together. An instance opens at most 14 for a project (8
 * for inserts and schema calls, 6 for free SQL), so this leaves room for nine of them.
 */
const CONNECTION_LIMIT = 128;

/** Connections of the service's own role, apart from those to the control database: the watchdog's, and for sizes. */
const POOL_SIZE = 6;

/** What all servers of an installation have in common. */
export interface Common {
  readonly databases: ProjectDatabases;
  readonly credentials: Credentials;
  /** Of the secret that is being replaced; null: none is. */
  readonly previous: Credentials | null;
  /** The name of the database that new ones are cloned from. */
  readonly template: string;
}

export interface Marked {
  /** With the number of their sessions. */
  readonly databases: readonly { readonly name: string; readonly sessions: number }[];
  readonly roles: readonly string[];
}

export class SharedTenancy implements Tenancy {
  readonly running = 1;
  private readonly server: Server;
  private readonly databases: ProjectDatabases;
  private readonly template: string;
  private preparing: Promise<void> | null = null;
  /** Known once the template is prepared. */
  private isSuperuser = false;

  /** @param added null: the installation began with this server */
  constructor(
    private readonly address: ServerAddress,
    private readonly common: Common,
    private readonly name: string = DEFAULT_SERVER,
    private readonly added: AddedServer | null = null,
  ) {
    ({ databases: this.databases, template: this.template } = common);
    // Only the operator starts and stops it.
    this.server = { ...connectionsTo(address, POOL_SIZE, null), acquire: () => undefined, release: () => {} };
  }

  /**
   * Makes the template if it is missing, and brings it up to date, as one instance at a time. Done once per process.
   * @throws Error if the service's role lacks a right, PostgresError, ConnectionLost
   */
  prepare(): Promise<void> {
    this.preparing ??= this.prepareTemplate().catch((error: unknown) => {
      this.preparing = null;
      throw error;
    });
    return this.preparing;
  }

  async newPlacement(): Promise<Placement> {
    const ownSchemas = await this.mayOwnSchemas();
    const hex = () => randomBytes(10).toString('hex');
    const [database, writer, reader] = [`d_${hex()}`, `w_${hex()}`, `r_${hex()}`];
    const { name: server, added } = this;
    return { server, added, database, schema: 'data', writer, reader, ownSchemas };
  }

  /** Only if the service's role is a superuser. */
  async mayOwnSchemas(): Promise<boolean> {
    await serviceWork(() => this.prepare());
    return this.isSuperuser;
  }

  major(): Promise<number> {
    return serverMajor(this.server.pool);
  }

  runs(): boolean {
    return true;
  }

  serverOf(): Server {
    return this.server;
  }

  async create(placement: Placement): Promise<void> {
    const { database } = placement;
    await this.asService(this.address.database, async (session) => {
      await lockDatabase(session, database);
      await ensureRoles(session, placement, (role) => this.roleOptions(role));
      for (const role of [placement.writer, placement.reader]) await this.mark(session, sql`ROLE ${ident(role)}`);
      await this.cloneTemplate(session, database);
      await this.mark(session, sql`DATABASE ${ident(database)}`);
      await session.query(sql`REVOKE ALL ON DATABASE ${ident(database)} FROM PUBLIC`);
    });
    await this.asService(database, (session) => grant(session, placement));
    await this.databases.grantDefaults(this, placement);
  }

  async drop(placement: Placement): Promise<void> {
    const { database, writer, reader } = placement;
    await rollBackPrepared(this, [placement]);
    await this.dropDatabase(database);
    // Until version 0.2 a group role was called like the database.
    await this.dropRoles([dumpRole({ writer }), writer, reader, database]);
  }

  dropDatabase(database: string): Promise<void> {
    return this.asService(this.address.database, async (session) => {
      await lockDatabase(session, database);
      await dropDatabase(session, database);
    });
  }

  dropRoles(roles: readonly string[]): Promise<void> {
    return this.asService(this.address.database, async (session) => {
      for (const role of roles) await session.query(sql`DROP ROLE IF EXISTS ${ident(role)}`);
    });
  }

  /** Databases and roles that this installation has made for projects. */
  async marked(): Promise<Marked> {
    const { pool } = this.server;
    const databases = await pool.query(
      sql`SELECT datname, (SELECT count(*) FROM pg_stat_activity a WHERE a.datid = d.oid)
          FROM pg_database d WHERE shobj_description(oid, 'pg_database') = ${this.template} ORDER BY 1`,
    );
    const roles = await pool.query(
      sql`SELECT rolname FROM pg_roles WHERE shobj_description(oid, 'pg_authid') = ${this.template} ORDER BY 1`,
    );
    return {
      databases: databases.map(([name, sessions]) => ({ name: name ?? '', sessions: Number(sessions) })),
      roles: roles.map(([name]) => name ?? ''),
    };
  }

  /** Whose it is: several installations may share a server. */
  private async mark(session: Session, what: Fragment): Promise<void> {
    await session.query(sql`COMMENT ON ${what} IS ${literal(this.template)}`);
  }

  roleOptions(role: string): Fragment {
    const verifier = literal(this.common.credentials.scramVerifier(role));
    return sql`CONNECTION LIMIT ${trusted(String(CONNECTION_LIMIT))} PASSWORD ${verifier}`;
  }

  password(role: string): string {
    return this.common.credentials.password(role);
  }

  previousPassword(role: string): string | null {
    return this.common.previous?.password(role) ?? null;
  }

  async hideOthers(session: Session): Promise<void> {
    await session.script(REVOKES);
  }

  sizeOf({ placement }: Pick<ProjectRow, 'placement'>): Promise<number | null> {
    return databaseSize(this.server.pool, placement.database);
  }

  extensions(): Promise<string[]> {
    return serviceWork(async () => {
      await this.prepare();
      return this.asService(this.template, installedExtensions);
    });
  }

  async close(): Promise<void> {
    this.server.staleConnections.close();
    await this.server.pool.close();
  }

  private asService<T>(database: string, work: (session: Session) => Promise<T>): Promise<T> {
    return this.server.breaker.during((away) => withServiceSession(this.address, database, work, away));
  }

  private async prepareTemplate(): Promise<void> {
    await this.asService(this.address.database, async (locking) => {
      // The end of the session gives the lock back.
      await locking.query(sql`SELECT pg_advisory_lock(${ADVISORY_LOCKS.template})`);
      const found = await locking.query(sql`SELECT 1 FROM pg_database WHERE datname = ${this.template}`);
      if (found.length === 0) await this.makeTemplate(locking);
      await locking.query(sql`REVOKE ALL ON DATABASE ${ident(this.template)} FROM PUBLIC`);
      await this.asService(this.template, async (session) => {
        this.isSuperuser = await isSuperuser(session);
        await this.databases.prepare(session);
        await this.hideOthers(session);
      });
    });
  }

  private async makeTemplate(session: Session): Promise<void> {
    await requireRights(session);
    await session.query(sql`CREATE DATABASE ${ident(this.template)} TEMPLATE template0 ENCODING 'UTF8'`);
  }

  /** CREATE DATABASE refuses while another instance is connected to the template to upgrade it. */
  private async cloneTemplate(session: Session, database: string): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await session.query(sql`CREATE DATABASE ${ident(database)} TEMPLATE ${ident(this.template)}`);
        return;
      } catch (error) {
        if (!(error instanceof PostgresError && error.sqlstate === SQLSTATE.OBJECT_IN_USE) || attempt === 20)
          throw error;
        await sleep(250);
      }
    }
  }
}

/** One at a time makes or drops it, until the end of the session. */
export async function lockDatabase(session: Session, database: string): Promise<void> {
  await session.query(sql`SELECT pg_advisory_lock(hashtextextended(${database}, ${ADVISORY_LOCKS.database}))`);
}

/** Said at the first start, not at the first project. */
async function requireRights(session: Session): Promise<void> {
  const [[isEnough] = []] = await session.query(
    sql`SELECT rolsuper OR (rolcreatedb AND rolcreaterole) FROM pg_roles WHERE rolname = current_user`,
  );
  if (isEnough === 't') return;
  throw new Error('The role of DATABASE_URL may not create databases and roles: ALTER ROLE … CREATEDB CREATEROLE');
}

/**
 * Drops a database and ends what uses it. While autovacuum, which is the superuser's, works there, Postgres refuses FORCE
 * to anybody else. Without FORCE it ends autovacuum itself, and waits some seconds for sessions that end.
 */
async function dropDatabase(session: Session, database: string): Promise<void> {
  try {
    await session.query(sql`DROP DATABASE IF EXISTS ${ident(database)} WITH (FORCE)`);
  } catch (error) {
    if (!(error instanceof PostgresError && error.sqlstate === SQLSTATE.INSUFFICIENT_PRIVILEGE)) throw error;
    await session.query(
      sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE datname = ${database} AND backend_type = 'client backend'`,
    );
    await session.query(sql`DROP DATABASE IF EXISTS ${ident(database)}`);
  }
}
