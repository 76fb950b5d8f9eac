/**
 * Making and unmaking what a project consists of on a server: a database cloned from the hardened template, a group
 * role of the same name that may connect to it, a writer and a reader. All of it is the service's own work; nothing
 * here touches what a project made.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { ADVISORY_LOCKS } from './advisory-locks.js';
import type { Credentials } from './credentials.js';
import { dumpRole } from '../backup/logical/dump-role.js';
import { adoptPreparation, prepare, type Preparation } from '../postgres/hardening/hardening.js';
import { migrate, type Migration, newestVersion } from './migrate.js';
import { bindAutovacuum, bindAutovacuumEverywhere } from '../postgres/projects/autovacuum-settings.js';
import { insist } from './contention.js';
import type { Placement } from './placement.js';
import {
  endIdleSessions,
  ensureSchema,
  giveBack,
  grant,
  grantDefaults,
  grantOwn,
  spoiltThings,
} from './project-rights.js';
import { type ServerAddress, startupOptions, withClient, WRITES } from '../postgres/server.js';
import { withServiceClient } from './service-pool.js';
import { literal, quotedName } from '../postgres/sql.js';
import { INSUFFICIENT_PRIVILEGE, OBJECT_IN_USE } from '../postgres/sqlstate.js';

/**
 * Connections one role may hold, over all instances of the service together. An instance opens at most 14 for a project (8
 * for inserts and schema calls, 6 for free SQL), so this leaves room for nine of them.
 */
const CONNECTION_LIMIT = 128;

/** A statement of the mending that takes longer waits for something that the project holds, and is given up. */
const MEND_STATEMENT_MS = 5_000;

/** Fresh opaque names: whoever sees one of them learns nothing. */
export function newPlacement(): Placement {
  const hex = () => randomBytes(10).toString('hex');
  return { database: `d_${hex()}`, schema: 'data', writer: `w_${hex()}`, reader: `r_${hex()}` };
}

export class Provisioning {
  constructor(
    private readonly address: ServerAddress,
    private readonly credentials: Credentials,
    /** The template's name. */
    private readonly template: string,
    private readonly migrations: readonly Migration[],
    readonly preparation: Preparation,
  ) {}

  get schemaVersion(): number {
    return newestVersion(this.migrations);
  }

  /**
   * Makes the template where it is missing, brings it up to date, and looks that it is hardened. Callers hold the start
   * lock.
   * @param version of the template that the control database knows; 0 where there is none
   * @returns what the template shows of the whole server, where the operator accepts that
   * @throws Unhardened, and Error where the service's role lacks a right
   */
  async ensureTemplate(version: number): Promise<string[]> {
    if (version < this.schemaVersion) await this.makeTemplate();
    return this.upgrade(this.template);
  }

  private async makeTemplate(): Promise<void> {
    await this.asService(this.address.database, async (client) => {
      await requireRights(client);
      const found = await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [this.template]);
      if (found.rowCount === 0) {
        await client.query(`CREATE DATABASE ${quotedName(this.template)} TEMPLATE template0 ENCODING 'UTF8'`);
      }
      await client.query(`REVOKE ALL ON DATABASE ${quotedName(this.template)} FROM PUBLIC`);
    });
  }

  /** Brings the template or a project's database up to date with this program and this Postgres. */
  async upgrade(database: string): Promise<string[]> {
    return this.asService(database, async (client) => {
      await client.query('SELECT pg_advisory_lock($1)', [ADVISORY_LOCKS.mending]);
      await migrate(client, '_cdp', this.migrations);
      return prepare(client, this.preparation);
    });
  }

  /** Makes everything of a placement. After a failure or a crash in between, {@link drop} clears what is there. */
  async create(placement: Placement): Promise<void> {
    const { database } = placement;
    await this.asService(this.address.database, async (client) => {
      await this.ensureRoles(client, placement);
      await this.cloneTemplate(client, database);
      await client.query(`REVOKE ALL ON DATABASE ${quotedName(database)} FROM PUBLIC`);
      await bindAutovacuum(client, database);
    });
    await this.asService(database, async (client) => {
      await adoptPreparation(client);
      await grant(client, placement);
      await this.asWriter(placement, (writing) => grantDefaults(writing, placement));
    });
  }

  /**
   * Undoes what a project did to its roles and their rights: passwords, `ALTER ROLE … SET`, `DROP OWNED` and the like.
   * Prepares the database where that does not hold any more, as after an upgrade of Postgres.
   * @param isSound looks again where another instance was at it, which has mostly put right all there was
   * @throws Unhardened; pg.DatabaseError, also where the project goes on getting in the way
   */
  async mend(placement: Placement, isSound = () => Promise.resolve(false)): Promise<void> {
    await this.asService(placement.database, async (client) => {
      // Whoever stands behind others waits as long as its requests do, not as long as one statement may take.
      if (!(await isFirst(client)) && (await isSound())) return;
      await client.query(`SET statement_timeout = ${MEND_STATEMENT_MS}`);
      await bindAutovacuum(client, placement.database);
      await prepare(client, this.preparation);
      await this.resetRoles(client, placement);
      await grant(client, placement);
      await this.asWriter(placement, (writing) => grantDefaults(writing, placement));
    });
  }

  /**
   * Puts everything back that belongs to a placement, whatever the project or a half restored backup did to it: roles,
   * schema, migrations, hardening, rights; and ends the project's idle sessions, so that the next ones see it. What is in
   * the project's tables stays as it is.
   * @returns what was wrong, in words
   * @throws Error where the database itself is gone
   */
  async repair(placement: Placement): Promise<string[]> {
    const missing = await this.asService(this.address.database, (client) => this.ensureRoles(client, placement));
    const spoilt = await this.asService(placement.database, async (client) => {
      await migrate(client, '_cdp', this.migrations);
      await client.query(`SET statement_timeout = ${MEND_STATEMENT_MS}`);
      const schema = await ensureSchema(client, placement.schema);
      const spoilt = await spoiltThings(client, placement, this.preparation);
      return [...schema, ...spoilt, ...(await giveBack(client, placement))];
    });
    await this.mend(placement);
    await this.asService(this.address.database, async (client) => {
      await this.asWriter(placement, (writing) => grantOwn(writing, placement));
      await endIdleSessions(client, placement);
    });
    return [...missing.map((role) => `the role ${role} was missing`), ...spoilt];
  }

  /** See {@link bindAutovacuumEverywhere}. */
  bindAutovacuum(): Promise<void> {
    return this.asService(this.address.database, bindAutovacuumEverywhere);
  }

  /** What mending would put right, in words. @throws pg.DatabaseError where the database or a role is gone */
  examine(placement: Placement): Promise<string[]> {
    return this.asService(placement.database, (client) => spoiltThings(client, placement, this.preparation));
  }

  /** Names of the extensions in a project's database; without one, those that a new project will have. */
  async extensions(database = this.template): Promise<string[]> {
    return this.asService(database, async (client) => {
      const { rows } = await client.query<{ name: string }>(
        `SELECT extname AS name FROM pg_extension WHERE extname <> 'plpgsql' ORDER BY 1`,
      );
      return rows.map(({ name }) => name);
    });
  }

  /** Takes everything of a placement away. Every step may have been done before. */
  async drop(placement: Placement): Promise<void> {
    const { database, writer, reader } = placement;
    await this.asService(this.address.database, async (client) => {
      await dropDatabase(client, database);
      for (const role of [dumpRole(placement), writer, reader, database])
        await client.query(`DROP ROLE IF EXISTS ${quotedName(role)}`);
    });
  }

  /** @returns those that were missing */
  private async ensureRoles(client: pg.Client, { database, writer, reader }: Placement): Promise<string[]> {
    const all = [database, writer, reader];
    const { rows } = await client.query<{ rolname: string }>('SELECT rolname FROM pg_roles WHERE rolname = ANY ($1)', [
      all,
    ]);
    const missing = all.filter((role) => !rows.some(({ rolname }) => rolname === role));
    for (const role of missing) {
      await client.query(
        role === database
          ? `CREATE ROLE ${quotedName(role)} NOLOGIN`
          : `CREATE ROLE ${quotedName(role)} LOGIN CONNECTION LIMIT ${CONNECTION_LIMIT} PASSWORD ${this.verifier(role)}`,
      );
    }
    await client.query(`GRANT ${quotedName(database)} TO ${quotedName(writer)}, ${quotedName(reader)}`);
    // A member of a role may see and end its sessions, without being a superuser.
    await client.query(`GRANT ${quotedName(writer)}, ${quotedName(reader)} TO CURRENT_USER`);
    return missing;
  }

  private async resetRoles(client: pg.Client, { database, writer, reader }: Placement): Promise<void> {
    for (const role of [writer, reader]) {
      await client.query(
        `ALTER ROLE ${quotedName(role)} LOGIN CONNECTION LIMIT ${CONNECTION_LIMIT} PASSWORD ${this.verifier(role)}`,
      );
      await client.query(`ALTER ROLE ${quotedName(role)} RESET ALL`);
      await client.query(`ALTER ROLE ${quotedName(role)} IN DATABASE ${quotedName(database)} RESET ALL`);
    }
  }

  private verifier(role: string): string {
    return literal(this.credentials.scramVerifier(role)).text;
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

  /** Only the writer itself, or a superuser, may set the rights of its objects. */
  private asWriter<T>({ database, writer }: Placement, work: (client: pg.Client) => Promise<T>): Promise<T> {
    const login = {
      ...this.address,
      database,
      user: writer,
      password: this.credentials.password(writer),
      options: startupOptions({ search_path: 'pg_catalog', statement_timeout: String(MEND_STATEMENT_MS), ...WRITES }),
    };
    return withClient(login, work);
  }

  /** @param work is run again where another session was in its way */
  private asService<T>(database: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
    return withServiceClient(this.address, database, (client) => insist(() => work(client)));
  }
}

/** Takes the lock. @returns false where it had to be waited for */
async function isFirst(client: pg.Client): Promise<boolean> {
  const { rows } = await client.query<{ taken: boolean }>('SELECT pg_try_advisory_lock($1) AS taken', [
    ADVISORY_LOCKS.mending,
  ]);
  if (rows[0]?.taken) return true;
  await client.query('SELECT pg_advisory_lock($1)', [ADVISORY_LOCKS.mending]);
  return false;
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
 * Drops a database and ends what uses it. Where autovacuum is at work there, which is the superuser's, Postgres refuses FORCE
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
