/**
 * Sets up the service's part of a project's database, in every tenancy: migrations, extensions, rights. It is repaired
 * if the project, a half restored backup or an older program has changed it.
 */
import { EngineError } from '../contract/errors.js';
import {
  ident,
  type LoginOptions,
  PostgresError,
  type Session,
  sql,
  SQLSTATE,
  trusted,
  withSession,
} from '../pg/index.js';
import { keyPathsOf, type Placement, postgresRole, roleKnownAs } from './placement.js';
import { projectMovingError } from './postgres-errors.js';
import {
  dropOwnedElsewhere,
  dropRole,
  ensureRoles,
  grantAccess,
  madeRoles,
  rolesAreLocked,
  ensureSchema,
  findDrift,
  giveToWriter,
  grantProjectRights,
  grantBookkeeping,
  grantOwnObjects,
  grantReaderDefaults,
  grantReading,
  grantWriterDefaults,
  resetRoles,
} from './project-rights.js';
import { SHARD_BY_SHARD } from './connections/session-settings.js';
import { retryOnContention, withMaintenanceLock } from './locks.js';
import { installedExtensions, installExtensions } from './extensions.js';
import { grantOwnSchemas } from './own-schemas.js';
import { migrate, type Migration, newestVersion } from './migrations/migrate.js';
import { endSessions, endIdleSessions } from './drain.js';
import { roleLogin, type LoginSource } from './role-login.js';
import { inDatabase, type Tenancy } from './tenancy.js';

/** The time limit for a statement of a repair, which may have to wait for locks of the project. */
const REPAIR_STATEMENT_MS = 5_000;
const LIMIT_STATEMENTS = sql`SET statement_timeout = ${trusted(String(REPAIR_STATEMENT_MS))}`;

/** Rights that are the project's, and that an operator asks to give again. */
export interface RequestedRights {
  /** The reader sees everything that the writer has created, and will create. */
  readonly reader: boolean;
  /** The writer has all rights to its own objects. */
  readonly writer: boolean;
}

const NONE: RequestedRights = { reader: false, writer: false };

export class ProjectDatabaseSetup {
  constructor(
    private readonly migrations: readonly Migration[],
    /** Extensions that the operator wants in every project's database. */
    readonly extensions: readonly string[],
    /** Asks the control database whether a project lives there and has no open move. */
    private readonly isAtRest: (placement: Placement) => Promise<boolean>,
    /** Told what {@link restoreRights} has restored, as text. */
    private readonly onRestored: (placement: Placement, restored: readonly string[]) => void,
  ) {}

  get schemaVersion(): number {
    return newestVersion(this.migrations);
  }

  /** Migrates the connected database to this program's version. */
  async prepare(session: Session): Promise<void> {
    await migrate(session, '_cdp', this.migrations);
    await withMaintenanceLock(session, () => installExtensions(session, this.extensions));
  }

  upgrade(tenancy: Tenancy, placement: Placement): Promise<void> {
    return this.asService(tenancy, placement, async (session) => {
      await this.prepare(session);
      await grantBookkeeping(session, placement);
    });
  }

  /**
   * Restores what a project can lose but not revoke: passwords, and what `DROP OWNED` has taken from its roles. What it
   * has revoked stays revoked.
   * @param isHealthy checks again if another instance has just made a repair, which usually suffices
   * @param role one that the project has made, and that could not log in
   * @throws PostgresError, also if the project keeps interfering; EngineError database_unavailable while it is moved
   */
  async restoreRights(
    tenancy: Tenancy,
    placement: Placement,
    isHealthy = (): Promise<boolean> => Promise.resolve(false),
    role: string | null = null,
  ): Promise<void> {
    const restored = await this.restore(tenancy, placement, isHealthy, role);
    if (restored.length > 0) this.onRestored(placement, restored);
  }

  /** @returns what was restored, as text */
  private restore(
    tenancy: Tenancy,
    placement: Placement,
    isHealthy: () => Promise<boolean>,
    role: string | null,
  ): Promise<string[]> {
    return this.asService(tenancy, placement, async (session) => {
      const restored = await withMaintenanceLock(session, async (waited) => {
        if (waited && (await isHealthy())) return null;
        await this.requireNoMove(session, placement);
        // Not before the wait for other sessions, which has a limit of its own.
        await session.query(LIMIT_STATEMENTS);
        const drift = await findDrift(session, placement, this.extensions);
        const passwords = await this.changedPasswords(tenancy, placement, role);
        await installExtensions(session, this.extensions);
        await resetRoles(session, placement, (role) => tenancy.roleOptions(role));
        await grantProjectRights(session, placement);
        return { drift, passwords };
      });
      if (restored === null) return [];
      const { drift, passwords } = restored;
      // Whoever knows a password that the project has set may have logged in with it, past the service.
      if (passwords.length > 0) await endSessions(session, passwords);
      // After the commit, with the right password.
      await this.asWriter(tenancy, placement, (writing) => grantWriterDefaults(writing, placement));
      return [...drift, ...passwords.map((name) => `the role ${name} had another password`)];
    });
  }

  /**
   * Removes a fence that a move has left behind, but not that of an open move, or of a place where the project no longer
   * lives.
   */
  private async requireNoMove(session: Session, placement: Placement): Promise<void> {
    if ((await rolesAreLocked(session, placement)) && !(await this.isAtRest(placement))) throw projectMovingError();
  }

  /**
   * Those of the writer, the reader and `made` whose password is not of the service, where the server asks for
   * passwords.
   */
  private async changedPasswords(tenancy: Tenancy, placement: Placement, made: string | null): Promise<string[]> {
    const { writer, reader } = placement;
    const changed: string[] = [];
    for (const role of [writer, reader, ...(made === null ? [] : [postgresRole(placement, made)])]) {
      const login = await roleLogin(tenancy, placement, role, {});
      const previous = tenancy.previousPassword(role);
      const isRefused = previous !== null && (await refusesPassword({ ...login, password: previous }));
      if ((previous === null || isRefused) && (await refusesPassword(login))) changed.push(role);
    }
    return changed;
  }

  /** Gives the writer the right to create schemas, or takes it away, as the placement says. */
  applyOwnSchemas(tenancy: Tenancy, placement: Placement): Promise<void> {
    return this.asService(tenancy, placement, async (session) => {
      // The limits need a function of a later version than the project's database may have.
      if (placement.ownSchemas) await migrate(session, '_cdp', this.migrations);
      await withMaintenanceLock(session, async () => {
        await this.requireNoMove(session, placement);
        await session.query(LIMIT_STATEMENTS);
        await grantOwnSchemas(session, placement);
      });
    });
  }

  /**
   * Restores everything that belongs to a placement: roles, schema, migrations, rights. Ends the project's idle
   * sessions, so that new ones see the repair. Does not change the contents of tables.
   * @param requested rights to give again although the project has revoked them
   * @returns the repaired faults, and the rights given again, as text
   * @throws Error if the database itself is gone
   */
  async repair(tenancy: Tenancy, placement: Placement, requested: RequestedRights = NONE): Promise<string[]> {
    const wrong = await this.asService(tenancy, placement, async (session) => {
      const own = [placement.writer, placement.reader];
      const missing = await ensureRoles(session, own, (role) => tenancy.roleOptions(role));
      await migrate(session, '_cdp', this.migrations);
      await tenancy.hideOthers(session);
      await session.query(LIMIT_STATEMENTS);
      const schema = await ensureSchema(session, placement.schema);
      const owned = await giveToWriter(session, placement);
      return [...missing.map((role) => `the role ${role} was missing`), ...schema, ...owned];
    });
    const restored = await this.restore(tenancy, placement, () => Promise.resolve(false), null);
    const restoredRights = await this.giveRequested(tenancy, placement, requested);
    await this.asService(tenancy, placement, (session) => endIdleSessions(session, placement));
    return [...wrong, ...restored, ...restoredRights];
  }

  private async giveRequested(
    tenancy: LoginSource,
    placement: Placement,
    requested: RequestedRights,
  ): Promise<string[]> {
    const restored: string[] = [];
    if (!requested.writer && !requested.reader) return restored;
    await this.asWriter(tenancy, placement, async (writing) => {
      if (requested.writer) {
        await grantOwnObjects(writing, placement);
        restored.push('the writer has all rights to its objects, as requested');
      }
      if (requested.reader) {
        await grantReading(writing, placement);
        restored.push('the reader sees all objects, as requested');
      }
    });
    return restored;
  }

  /**
   * Creates roles of the project that do not exist yet, which can log in, and name its tables.
   * @param names as the project knows them
   * @throws EngineError database_unavailable while the project is moved
   */
  createRoles(tenancy: Tenancy, placement: Placement, names: readonly string[]): Promise<void> {
    const roles = names.map((name) => postgresRole(placement, name));
    if (roles.length === 0) return Promise.resolve();
    return this.asService(tenancy, placement, (session) =>
      withMaintenanceLock(session, async () => {
        await this.requireNoMove(session, placement);
        for (const role of await ensureRoles(session, roles, (name) => tenancy.roleOptions(name)))
          await tenancy.markRole(session, role);
        const made = await madeRoles(session, placement);
        for (const role of roles) if (!made.includes(role)) throw notMade(role);
        await grantAccess(session, placement, roles);
      }),
    );
  }

  /**
   * Drops a role that the project has made, if it exists: ends its sessions, and drops what it owns, and its rights.
   * @param name as the project knows it
   * @returns the number of large objects that went with it
   * @throws EngineError database_unavailable while the project is moved
   */
  dropRole(tenancy: Tenancy, placement: Placement, name: string): Promise<number> {
    const role = postgresRole(placement, name);
    return this.asService(tenancy, placement, async (session) => {
      // A later role of the name must not get its responses.
      const deleteKeys = sql`WITH chunks AS (DELETE FROM _cdp.stream_chunks WHERE starts_with(path, ${keyPathsOf(name)}))
        DELETE FROM _cdp.idempotency_keys WHERE starts_with(path, ${keyPathsOf(name)})`;
      await session.query(LIMIT_STATEMENTS);
      if (!(await madeRoles(session, placement)).includes(role)) {
        await session.query(deleteKeys);
        return 0;
      }
      await withMaintenanceLock(session, async () => {
        await this.requireNoMove(session, placement);
        await session.query(sql`REVOKE CONNECT ON DATABASE ${ident(placement.database)} FROM ${ident(role)}`);
      });
      // What still runs may hold locks that the next steps need.
      await session.query(sql`SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity WHERE usename = ${role}`);
      const [largeObjects] = await session.row(
        sql`SELECT count(*) FROM pg_largeobject_metadata WHERE lomowner = ${role}::regrole`,
      );
      await dropOwnedElsewhere(session, tenancy.serverOf(placement).address, role);
      await withMaintenanceLock(session, () => dropRole(session, role));
      await session.query(deleteKeys);
      return Number(largeObjects);
    });
  }

  /** The roles that the project has made, by the names that it knows. */
  async madeRoles(tenancy: Tenancy, placement: Placement): Promise<string[]> {
    const roles = await this.asService(tenancy, placement, (session) => madeRoles(session, placement));
    return roles.map((role) => roleKnownAs(placement, role));
  }

  /** The faults that {@link repair} would repair, as text. @throws PostgresError if the database or a role is gone */
  examine(tenancy: Tenancy, placement: Placement): Promise<string[]> {
    return this.asService(tenancy, placement, (session) => findDrift(session, placement, this.extensions));
  }

  /** Names of the extensions in a project's database. */
  extensionsOf(tenancy: Tenancy, placement: Placement): Promise<string[]> {
    return this.asService(tenancy, placement, installedExtensions);
  }

  /** Lets the reader of a new project see everything that the writer creates. */
  grantDefaults(tenancy: LoginSource, placement: Placement): Promise<void> {
    return this.asWriter(tenancy, placement, (writing) => grantReaderDefaults(writing, placement));
  }

  /** Runs `work` as the writer: only the writer itself, or a superuser, may set the rights of its objects. */
  private async asWriter<T>(
    tenancy: LoginSource,
    placement: Placement,
    work: (session: Session) => Promise<T>,
  ): Promise<T> {
    const settings = { search_path: 'pg_catalog', statement_timeout: String(REPAIR_STATEMENT_MS), ...SHARD_BY_SHARD };
    return withSession(await roleLogin(tenancy, placement, placement.writer, settings), work);
  }

  /** @param work runs again if another session conflicted with it */
  private asService<T>(tenancy: Tenancy, placement: Placement, work: (session: Session) => Promise<T>): Promise<T> {
    const repeated = (session: Session) => retryOnContention(() => work(session));
    const { breaker } = tenancy.serverOf(placement);
    return breaker.runWhileUp((signal) => inDatabase(tenancy, placement, repeated, signal));
  }
}

/** An operator has made it. */
const notMade = (role: string) =>
  new EngineError('unique_violation', `The server has a role "${role}" that the project has not made`);

/** Any other failure is not about the password. */
const refusesPassword = (login: LoginOptions): Promise<boolean> =>
  withSession(login, () => Promise.resolve(false)).catch(
    (error: unknown) => error instanceof PostgresError && error.sqlstate === SQLSTATE.INVALID_PASSWORD,
  );
