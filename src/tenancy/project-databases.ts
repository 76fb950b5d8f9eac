/**
 * Sets up the service's part of a project's database, in every tenancy: migrations, extensions, rights. It is repaired
 * if the project, a half restored backup or an older program has changed it.
 */
import { type Session, sql, trusted, withSession } from '../pg/index.js';
import { retryOnContention } from './contention.js';
import { isFenced, moving } from './fence.js';
import { installedExtensions, installExtensions } from './extensions.js';
import { migrate, type Migration, newestVersion } from './migrations/migrate.js';
import { type Placement, SHARD_BY_SHARD } from './placement.js';
import {
  endIdleSessions,
  ensureRoles,
  ensureSchema,
  findDrift,
  giveToWriter,
  grant,
  grantBookkeeping,
  grantDefaults,
  grantOwn,
  resetRoles,
} from './project-rights.js';
import { takeRepairLock } from './repair-lock.js';
import { type Logins, roleLogin } from './role-login.js';
import { inDatabase, type Tenancy } from './tenancy.js';

/** The time limit for a statement of a repair, which may have to wait for locks of the project. */
const REPAIR_STATEMENT_MS = 5_000;
const LIMIT_STATEMENTS = sql`SET statement_timeout = ${trusted(String(REPAIR_STATEMENT_MS))}`;

export class ProjectDatabases {
  constructor(
    private readonly migrations: readonly Migration[],
    /** Extensions that the operator wants in every project's database. */
    readonly extensions: readonly string[],
    /** Asks the control database whether a project lives there and has no open move. */
    private readonly isAtRest: (placement: Placement) => Promise<boolean>,
  ) {}

  get schemaVersion(): number {
    return newestVersion(this.migrations);
  }

  /** Migrates the connected database to this program's version. */
  async prepare(session: Session): Promise<void> {
    await takeRepairLock(session);
    await migrate(session, '_cdp', this.migrations);
    await installExtensions(session, this.extensions);
  }

  upgrade(tenancy: Tenancy, placement: Placement): Promise<void> {
    return this.asService(tenancy, placement, async (session) => {
      await this.prepare(session);
      await grantBookkeeping(session, placement);
    });
  }

  /**
   * Undoes what a project did to its roles and their rights: passwords, `ALTER ROLE … SET`, `DROP OWNED` and the like.
   * @param isHealthy checks again if another instance has just made a repair, which usually suffices
   * @throws PostgresError, also if the project keeps interfering; EngineError database_unavailable while it is moved
   */
  restoreRights(
    tenancy: Tenancy,
    placement: Placement,
    isHealthy = (): Promise<boolean> => Promise.resolve(false),
  ): Promise<void> {
    return this.asService(tenancy, placement, async (session) => {
      // The wait for other sessions is limited like a request, not like a statement of a repair.
      if (!(await takeRepairLock(session)) && (await isHealthy())) return;
      // Removes a fence that a move has left behind, but not that of an open move, or of a place where the project no
      // longer lives.
      if ((await isFenced(session, placement)) && !(await this.isAtRest(placement))) throw moving();
      await session.query(LIMIT_STATEMENTS);
      await installExtensions(session, this.extensions);
      await resetRoles(session, placement, (role) => tenancy.roleOptions(role));
      await grant(session, placement);
      await this.grantDefaults(tenancy, placement);
    });
  }

  /**
   * Restores everything that belongs to a placement: roles, schema, migrations, rights. Ends the project's idle
   * sessions, so that new ones see the repair. Does not change the contents of tables.
   * @returns the repaired faults, as text
   * @throws Error if the database itself is gone
   */
  async repair(tenancy: Tenancy, placement: Placement): Promise<string[]> {
    const wrong = await this.asService(tenancy, placement, async (session) => {
      const missing = await ensureRoles(session, placement, (role) => tenancy.roleOptions(role));
      await migrate(session, '_cdp', this.migrations);
      await tenancy.hideOthers(session);
      await session.query(LIMIT_STATEMENTS);
      const schema = await ensureSchema(session, placement.schema);
      const drifted = await findDrift(session, placement, this.extensions);
      const owned = await giveToWriter(session, placement);
      return [...missing.map((role) => `the role ${role} was missing`), ...schema, ...drifted, ...owned];
    });
    await this.restoreRights(tenancy, placement);
    await this.asService(tenancy, placement, async (session) => {
      await this.asWriter(tenancy, placement, (writing) => grantOwn(writing, placement));
      await endIdleSessions(session, placement);
    });
    return wrong;
  }

  /** The faults that {@link repair} would repair, as text. @throws PostgresError if the database or a role is gone */
  examine(tenancy: Tenancy, placement: Placement): Promise<string[]> {
    return this.asService(tenancy, placement, (session) => findDrift(session, placement, this.extensions));
  }

  /** Names of the extensions in a project's database. */
  extensionsOf(tenancy: Tenancy, placement: Placement): Promise<string[]> {
    return this.asService(tenancy, placement, installedExtensions);
  }

  /** Lets the reader see everything that the writer creates. */
  grantDefaults(tenancy: Logins, placement: Placement): Promise<void> {
    return this.asWriter(tenancy, placement, (writing) => grantDefaults(writing, placement));
  }

  /** Runs `work` as the writer: only the writer itself, or a superuser, may set the rights of its objects. */
  private asWriter<T>(tenancy: Logins, placement: Placement, work: (session: Session) => Promise<T>): Promise<T> {
    const settings = { search_path: 'pg_catalog', statement_timeout: String(REPAIR_STATEMENT_MS), ...SHARD_BY_SHARD };
    return withSession(roleLogin(tenancy, placement, placement.writer, settings), work);
  }

  /** @param work runs again if another session conflicted with it */
  private asService<T>(tenancy: Tenancy, placement: Placement, work: (session: Session) => Promise<T>): Promise<T> {
    const repeated = (session: Session) => retryOnContention(() => work(session));
    const { breaker } = tenancy.serverOf(placement);
    return breaker.during((signal) => inDatabase(tenancy, placement, repeated, signal));
  }
}
