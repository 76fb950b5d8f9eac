/** The control database: its start, its tables and its health. The rules of what it stores are in `engine/`. */
import { randomBytes } from 'node:crypto';
import {
  BEGIN,
  fixed,
  type Pool,
  PostgresError,
  ROLLBACK,
  type ServerAddress,
  type Session,
  sql,
} from '../../pg/index.js';
import { ADVISORY_LOCKS, START_WAIT_MS, takeAdvisoryLock } from '../locks.js';
import { closeToPublic } from '../database-privileges.js';
import { migrate, readMigrations } from '../migrations/migrate.js';
import { withServiceSession } from '../service-pool.js';
import { serviceWork } from '../postgres-errors.js';
import { awaitStandby } from '../standby-wait.js';
import { BackupRows } from './backup-rows.js';
import { ControlPool } from './control-pool.js';
import { ProjectRows } from './project-rows.js';
import { QueryRows } from './query-rows.js';
import { RoleRows } from './role-rows.js';
import { ScheduleRows } from './schedule-rows.js';
import { ServerRows } from './server-rows.js';
import { SubjectRows } from './subject-rows.js';
import { TokenRows } from './token-rows.js';
import { UsageRows } from './usage-rows.js';
import { WebhookRows } from './webhook-rows.js';

/** About 300 kB, for which Postgres uses a temporary file if `work_mem` is smaller. */
const LARGE_RESULT = fixed('SELECT count(*) FROM generate_series(1, 10000)');

/** Fingerprints of the secret and of the previous one; null: there is none. */
type Fingerprints = readonly [string, string | null];

export class ControlDatabase {
  readonly projects: ProjectRows;
  readonly roles: RoleRows;
  readonly tokens: TokenRows;
  readonly servers: ServerRows;
  readonly backups: BackupRows;
  readonly schedules: ScheduleRows;
  readonly queries: QueryRows;
  readonly usage: UsageRows;
  readonly subjects: SubjectRows;
  readonly webhooks: WebhookRows;
  private readonly controlPool: ControlPool;

  private constructor(
    readonly address: ServerAddress,
    private readonly pool: Pool,
    /** Random id of the installation. */
    readonly instanceId: string,
  ) {
    this.controlPool = new ControlPool(pool);
    this.projects = new ProjectRows(this.controlPool);
    this.roles = new RoleRows(this.controlPool);
    this.tokens = new TokenRows(this.controlPool);
    this.servers = new ServerRows(this.controlPool);
    this.backups = new BackupRows(this.controlPool);
    this.schedules = new ScheduleRows(this.controlPool);
    this.queries = new QueryRows(this.controlPool);
    this.usage = new UsageRows(this.controlPool);
    this.subjects = new SubjectRows(this.controlPool);
    this.webhooks = new WebhookRows(this.controlPool);
  }

  /**
   * Migrates the control schema and checks that this instance has the installation's secret, or replaces the previous
   * one.
   * @param pool of the service's own role on the control database, at `address`
   * @param prepare prepares the source of new projects, on one instance at a time; its result is returned
   * @param waiting told, in words, if no commit returns
   * @param signal if aborted, the waits for another instance and for a standby end with its reason
   * @throws Error if the secret differs or the schema is newer than this program; LockHeld, StandbyMissing
   */
  static async open<T>(
    address: ServerAddress,
    pool: Pool,
    [fingerprint, previous]: Fingerprints,
    prepare: (control: ControlDatabase) => Promise<T>,
    waiting: (what: string) => void,
    signal?: AbortSignal,
  ): Promise<{ control: ControlDatabase; prepared: T }> {
    // Not a session of the pool: the wait for another instance may be long. The end of the session releases the lock.
    const open = async (session: Session) => {
      await awaitStandby(session, START_WAIT_MS, waiting);
      // Before the lock, which a role of a project could hold that can log in here.
      await closeToPublic(session);
      await takeAdvisoryLock(session, sql`${ADVISORY_LOCKS.start}`, {
        name: 'The lock for starts in the control database',
        ms: START_WAIT_MS,
      });
      await migrate(session, 'cdp', readMigrations('control'));
      const newId = randomBytes(5).toString('hex');
      const [, stored] = await session.run([
        sql`INSERT INTO cdp.instance (id, secret_fingerprint) VALUES (${newId}, ${fingerprint}) ON CONFLICT DO NOTHING`,
        sql`SELECT id, secret_fingerprint FROM cdp.instance`,
      ]);
      const [id, secret] = stored?.rows[0] ?? [];
      if (secret === previous) await session.query(sql`UPDATE cdp.instance SET secret_fingerprint = ${fingerprint}`);
      else if (secret !== fingerprint) {
        throw new Error('CDP_SECRET is not the secret that this control database was created with');
      }
      const control = new ControlDatabase(address, pool, id ?? '');
      return { control, prepared: await prepare(control) };
    };
    return withServiceSession(address, address.database, open, signal);
  }

  /** Whether the first project has not been shown to the operator yet. */
  async isFirstStart(): Promise<boolean> {
    const rows = await this.controlPool.query(sql`SELECT 1 FROM cdp.instance WHERE welcomed_at IS NULL`);
    return rows.length === 1;
  }

  async endFirstStart(): Promise<void> {
    await this.controlPool.query(sql`UPDATE cdp.instance SET welcomed_at = now()`);
  }

  /**
   * Whether Postgres can write a temporary file, which it cannot on a full disk. @throws EngineError
   * database_unavailable
   */
  async canWriteFiles(): Promise<boolean> {
    const steps = [BEGIN, fixed(`SET LOCAL work_mem = '64kB'`), LARGE_RESULT, ROLLBACK];
    const isFull = (error: unknown) => error instanceof PostgresError && error.sqlstate.startsWith('53');
    return serviceWork(() =>
      this.pool.run(steps).then(
        () => true,
        (error: unknown) => {
          if (isFull(error)) return false;
          throw error;
        },
      ),
    );
  }

  async ping(): Promise<void> {
    await this.controlPool.query(sql`SELECT 1 FROM cdp.instance`);
  }

  /** Runs a query about the server. @throws EngineError database_unavailable */
  ask<T>(question: (pool: Pool) => Promise<T>): Promise<T> {
    return serviceWork(() => question(this.pool));
  }

  /** A counter that changes with every change of a project or token, except for the last use of a token. */
  async changes(): Promise<string> {
    const [changes] = await this.controlPool.row(sql`SELECT changes FROM cdp.instance`);
    return changes ?? '';
  }

  close(): Promise<void> {
    return this.pool.close();
  }
}
