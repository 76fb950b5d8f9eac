/**
 * A Postgres server by address that projects share: each has a database, cloned from a template, and two login roles
 * with random names and derived passwords. No project can read or change another's data, but SQL of one can slow or
 * crash the server for all (docs/security.md).
 */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { memoized } from '../promises.js';
import { type Fragment, ident, literal, PostgresError, type Session, sql, SQLSTATE } from '../pg/index.js';
import { ADVISORY_LOCKS, START_WAIT_MS, takeAdvisoryLock } from './locks.js';
import type { ProjectRow } from './control/control-rows.js';
import { closeToPublic, OF_INITDB } from './database-privileges.js';
import { installedExtensions } from './extensions.js';
import { isSuperuser } from './own-schemas.js';
import { dumpRole, type Placement } from './placement.js';
import { rollBackPrepared } from './prepared-transactions.js';
import { dropOwnedElsewhere, ensureRoles, grantProjectRights, madeRoles } from './project-rights.js';
import { databaseSize } from './server-facts.js';
import { serviceWork } from './postgres-errors.js';
import type { CreatedObject } from './tenancy.js';
import { lockDatabase, randomName, TenancyByAddress } from './tenancy-by-address.js';

/** Hides information about the whole server that Postgres shows to every role, as far as the service's role may. */
const REVOKES = readFileSync(new URL('./own-database-tenancy.sql', import.meta.url), 'utf8');

/**
 * The connection limit of a role, across all instances of the service. An instance opens at most 14 for a project (8 for
 * inserts and schema calls, 6 for free SQL), so this leaves room for nine instances.
 */
const CONNECTION_LIMIT = 128;

export class OwnDatabaseTenancy extends TenancyByAddress {
  readonly distributesTables = false;
  readonly obstacleToStream = null;
  protected override readonly connectionLimit = CONNECTION_LIMIT;
  /** Known once the template is prepared. */
  private isSuperuser = false;

  /**
   * Creates or migrates the template, on one instance at a time. Done once per process.
   * @throws Error if the service's role lacks a right, PostgresError, ConnectionLost
   */
  readonly prepare = memoized(() => this.prepareTemplate());

  async newPlacement(): Promise<Placement> {
    return this.placementIn(randomName('d'), await this.allowsOwnSchemas());
  }

  /** True only if the service's role is a superuser. */
  async allowsOwnSchemas(): Promise<boolean> {
    await serviceWork(() => this.prepare());
    return this.isSuperuser;
  }

  async create(placement: Placement): Promise<void> {
    const { database } = placement;
    await this.asService(async (session) => {
      await lockDatabase(session, database);
      const roles = [placement.writer, placement.reader];
      await ensureRoles(session, roles, (role) => this.roleOptions(role));
      for (const role of roles) await this.markRole(session, role);
      await this.cloneTemplate(session, database);
      await this.mark(session, sql`DATABASE ${ident(database)}`);
      await session.query(sql`REVOKE ALL ON DATABASE ${ident(database)} FROM PUBLIC`);
    });
    await this.asService((session) => grantProjectRights(session, placement), database);
    await this.provisioning.databaseSetup.grantDefaults(this, placement);
  }

  async drop(placement: Placement): Promise<void> {
    const { database, writer, reader } = placement;
    await this.rollBackPrepared([placement], 0);
    await this.dropDatabase(database);
    // Until version 0.2, a group role had the name of the database.
    const others = [dumpRole({ writer }), writer, reader, database];
    await this.dropRoles([...(await this.asService((session) => madeRoles(session, placement))), ...others]);
  }

  private dropDatabase(database: string): Promise<void> {
    return this.asService(async (session) => {
      await lockDatabase(session, database);
      await dropDatabase(session, database);
    });
  }

  private dropRoles(roles: readonly string[]): Promise<void> {
    return this.asService(async (session) => {
      for (const role of roles) {
        await dropOwnedElsewhere(session, this.address, role);
        await session.query(sql`DROP ROLE IF EXISTS ${ident(role)}`);
      }
    });
  }

  createdObjects(): Promise<CreatedObject[]> {
    const { pool } = this.server;
    return serviceWork(async () => {
      const databases = await pool.query(
        sql`SELECT datname, (SELECT count(*) FROM pg_stat_activity a WHERE a.datid = d.oid)
            FROM pg_database d WHERE shobj_description(oid, 'pg_database') = ${this.provisioning.template} ORDER BY 1`,
      );
      const roles = await pool.query(
        sql`SELECT rolname FROM pg_roles WHERE shobj_description(oid, 'pg_authid') = ${this.provisioning.template} ORDER BY 1`,
      );
      return [
        ...databases.map(([name, sessions]): CreatedObject => {
          const drop = () => this.dropDatabase(name ?? '');
          return { kind: 'database', name: name ?? '', sessions: Number(sessions), drop };
        }),
        ...roles.map(([name]): CreatedObject => {
          const drop = () => this.dropRoles([name ?? '']);
          return { kind: 'role', name: name ?? '', sessions: 0, drop };
        }),
      ];
    });
  }

  rollBackPrepared(placements: readonly Placement[], olderThanMs: number): Promise<void> {
    return rollBackPrepared(this, placements, olderThanMs);
  }

  /** The server prepares nothing itself. */
  recoverPrepared(): Promise<void> {
    return Promise.resolve();
  }

  markRole(session: Session, role: string): Promise<void> {
    return this.mark(session, sql`ROLE ${ident(role)}`);
  }

  /** Marks an object as this installation's: several installations may share a server. */
  private async mark(session: Session, what: Fragment): Promise<void> {
    await session.query(sql`COMMENT ON ${what} IS ${literal(this.provisioning.template)}`);
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
      return this.asService(installedExtensions, this.provisioning.template);
    });
  }

  private async prepareTemplate(): Promise<void> {
    await this.asService(async (locking) => {
      // The databases of initdb belong to the operator; `cdp doctor` names them.
      if (!OF_INITDB.includes(this.address.database)) await closeToPublic(locking);
      // The end of the session releases the lock.
      const key = sql`${ADVISORY_LOCKS.template}`;
      await takeAdvisoryLock(locking, key, { name: 'The lock for the template of new projects', ms: START_WAIT_MS });
      const rows = await locking.query(sql`SELECT 1 FROM pg_database WHERE datname = ${this.provisioning.template}`);
      if (rows.length === 0) await this.makeTemplate(locking);
      await locking.query(sql`REVOKE ALL ON DATABASE ${ident(this.provisioning.template)} FROM PUBLIC`);
      await this.asService(async (session) => {
        this.isSuperuser = await isSuperuser(session);
        await this.provisioning.databaseSetup.prepare(session);
        await this.hideOthers(session);
      }, this.provisioning.template);
    });
  }

  private async makeTemplate(session: Session): Promise<void> {
    await requireRights(session);
    await session.query(sql`CREATE DATABASE ${ident(this.provisioning.template)} TEMPLATE template0 ENCODING 'UTF8'`);
  }

  /** CREATE DATABASE fails while another instance is connected to the template to migrate it. */
  private async cloneTemplate(session: Session, database: string): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await session.query(sql`CREATE DATABASE ${ident(database)} TEMPLATE ${ident(this.provisioning.template)}`);
        return;
      } catch (error) {
        if (!(error instanceof PostgresError && error.sqlstate === SQLSTATE.OBJECT_IN_USE) || attempt === 20)
          throw error;
        await sleep(250);
      }
    }
  }
}

/** Checked at the first start, not at the first project. */
async function requireRights(session: Session): Promise<void> {
  const [isEnough] = await session.row(
    sql`SELECT rolsuper OR (rolcreatedb AND rolcreaterole) FROM pg_roles WHERE rolname = current_user`,
  );
  if (isEnough === 't') return;
  throw new Error('The role of DATABASE_URL may not create databases and roles: ALTER ROLE … CREATEDB CREATEROLE');
}

/**
 * Drops a database and ends its sessions. While autovacuum, which belongs to the superuser, runs there, Postgres
 * refuses FORCE to other roles. Without FORCE, it ends autovacuum itself, and waits some seconds for ending sessions.
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
