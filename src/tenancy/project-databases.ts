/**
 * What a project's database holds for the service, in either tenancy: migrations, extensions, rights. It is put right if
 * the project, a half restored backup or an older program left it otherwise.
 */
import type pg from 'pg';
import { ADVISORY_LOCKS } from './advisory-locks.js';
import { retryOnContention } from './contention.js';
import { installExtensions } from './extensions.js';
import { migrate, type Migration, newestVersion } from './migrate.js';
import type { Placement } from './placement.js';
import {
  driftedThings,
  endIdleSessions,
  ensureRoles,
  ensureSchema,
  giveBack,
  grant,
  grantDefaults,
  grantOwn,
  resetRoles,
} from './project-rights.js';
import { startupOptions, withClient } from '../postgres/server.js';
import { withServiceClient } from './service-pool.js';
import { type Server, type Tenancy, withServer } from './tenancy.js';

/** A statement of a repair that takes longer waits for something that the project holds, and is cancelled. */
const REPAIR_STATEMENT_MS = 5_000;

/** What a login as a project's role takes. */
interface Logins {
  password(role: string): string;
  serverOf(placement: Placement): Pick<Server, 'address'>;
}

export class ProjectDatabases {
  constructor(
    private readonly migrations: readonly Migration[],
    /** Extensions that the operator wants in every project's database. */
    readonly extensions: readonly string[],
  ) {}

  get schemaVersion(): number {
    return newestVersion(this.migrations);
  }

  /** Brings the connected database up to date with this program. */
  async prepare(client: pg.Client): Promise<void> {
    await client.query('SELECT pg_advisory_lock($1)', [ADVISORY_LOCKS.repair]);
    await migrate(client, '_cdp', this.migrations);
    await installExtensions(client, this.extensions);
  }

  upgrade(tenancy: Tenancy, placement: Placement): Promise<void> {
    return this.asService(tenancy, placement, (client) => this.prepare(client));
  }

  /**
   * Undoes what a project did to its roles and their rights: passwords, `ALTER ROLE … SET`, `DROP OWNED` and the like.
   * @param isSound looks again if another instance was at it, which has mostly put right all there was
   * @throws pg.DatabaseError, also if the project goes on getting in the way
   */
  restoreRights(
    tenancy: Tenancy,
    placement: Placement,
    isSound = (): Promise<boolean> => Promise.resolve(false),
  ): Promise<void> {
    return this.asService(tenancy, placement, async (client) => {
      // Whoever waits for others waits as long as its requests do, not as long as one statement may take.
      if (!(await isFirst(client)) && (await isSound())) return;
      await client.query(`SET statement_timeout = ${REPAIR_STATEMENT_MS}`);
      await installExtensions(client, this.extensions);
      await resetRoles(client, placement, (role) => tenancy.roleOptions(role));
      await grant(client, placement);
      await this.grantDefaults(tenancy, placement);
    });
  }

  /**
   * Puts everything back that belongs to a placement: roles, schema, migrations, rights; and ends the project's idle
   * sessions, so that the next ones see it. What is in the project's tables stays as it is.
   * @returns what was wrong, in words
   * @throws Error if the database itself is gone
   */
  async repair(tenancy: Tenancy, placement: Placement): Promise<string[]> {
    const wrong = await this.asService(tenancy, placement, async (client) => {
      const missing = await ensureRoles(client, placement, (role) => tenancy.roleOptions(role));
      await migrate(client, '_cdp', this.migrations);
      await client.query(`SET statement_timeout = ${REPAIR_STATEMENT_MS}`);
      const schema = await ensureSchema(client, placement.schema);
      const drifted = await driftedThings(client, placement, this.extensions);
      const owned = await giveBack(client, placement);
      return [...missing.map((role) => `the role ${role} was missing`), ...schema, ...drifted, ...owned];
    });
    await this.restoreRights(tenancy, placement);
    await this.asService(tenancy, placement, async (client) => {
      await this.asWriter(tenancy, placement, (writing) => grantOwn(writing, placement));
      await endIdleSessions(client, placement);
    });
    return wrong;
  }

  /** What {@link repair} would put right, in words. @throws pg.DatabaseError if the database or a role is gone */
  examine(tenancy: Tenancy, placement: Placement): Promise<string[]> {
    return this.asService(tenancy, placement, (client) => driftedThings(client, placement, this.extensions));
  }

  /** Names of the extensions in a project's database. */
  extensionsOf(tenancy: Tenancy, placement: Placement): Promise<string[]> {
    return this.asService(tenancy, placement, ProjectDatabases.extensionsIn);
  }

  static async extensionsIn(this: void, client: pg.Client): Promise<string[]> {
    const { rows } = await client.query<{ name: string }>(
      `SELECT extname AS name FROM pg_extension WHERE extname <> 'plpgsql' ORDER BY 1`,
    );
    return rows.map(({ name }) => name);
  }

  /** Lets the reader see whatever the writer makes. */
  grantDefaults(tenancy: Logins, placement: Placement): Promise<void> {
    return this.asWriter(tenancy, placement, (writing) => grantDefaults(writing, placement));
  }

  /** Only the writer itself, or a superuser, may set the rights of its objects. */
  private asWriter<T>(tenancy: Logins, placement: Placement, work: (client: pg.Client) => Promise<T>): Promise<T> {
    const { database, writer } = placement;
    const options = startupOptions({ search_path: 'pg_catalog', statement_timeout: String(REPAIR_STATEMENT_MS) });
    const { address } = tenancy.serverOf(placement);
    return withClient({ ...address, database, user: writer, password: tenancy.password(writer), options }, work);
  }

  /** @param work is run again if another session was in its way */
  private asService<T>(tenancy: Tenancy, placement: Placement, work: (client: pg.Client) => Promise<T>): Promise<T> {
    const server = tenancy.serverOf(placement);
    return withServer(server, () =>
      withServiceClient(server.address, placement.database, (client) => retryOnContention(() => work(client))),
    );
  }
}

/** Takes the lock. @returns false if it had to be waited for */
async function isFirst(client: pg.Client): Promise<boolean> {
  const { rows } = await client.query<{ taken: boolean }>('SELECT pg_try_advisory_lock($1) AS taken', [
    ADVISORY_LOCKS.repair,
  ]);
  if (rows[0]?.taken) return true;
  await client.query('SELECT pg_advisory_lock($1)', [ADVISORY_LOCKS.repair]);
  return false;
}
