/** The control database: stores projects and tokens. Their rules are in `engine/`. */
import { randomBytes } from 'node:crypto';
import type { ProjectStatus } from '../../contract/projects.js';
import {
  BEGIN,
  fixed,
  type Fragment,
  ident,
  type Pool,
  PostgresError,
  ROLLBACK,
  type Row,
  type ServerAddress,
  sql,
  type Statement,
} from '../../pg/index.js';
import { ADVISORY_LOCKS } from '../advisory-locks.js';
import { type AuditRow, withEntry } from './audit-log.js';
import {
  PROJECT_JSON,
  projectRow,
  type ProjectRow,
  type StoredToken,
  TOKEN_JSON,
  tokenRow,
  type TokenRow,
} from './control-rows.js';
import { migrate, readMigrations } from '../migrations/migrate.js';
import { withProjectLock } from './project-lock.js';
import { withServiceSession } from '../service-pool.js';
import { serviceChange, serviceWork } from '../service-work.js';

/** About 300 kB, for which Postgres uses a temporary file if `work_mem` is smaller. */
const LARGE_RESULT = fixed('SELECT count(*) FROM generate_series(1, 10000)');

/** Fingerprints of the secret and of the previous one; null: there is none. */
type Fingerprints = readonly [string, string | null];

export class ControlDatabase {
  private constructor(
    readonly address: ServerAddress,
    private readonly pool: Pool,
    /** Random id of the installation. */
    readonly instanceId: string,
  ) {}

  /**
   * Migrates the control schema and checks that this instance has the installation's secret, or replaces the previous
   * one.
   * @param pool of the service's own role on the control database, at `address`
   * @param prepare prepares the source of new projects, on one instance at a time; its result is returned
   * @throws Error if the secret differs or the schema is newer than this program
   */
  static async open<T>(
    address: ServerAddress,
    pool: Pool,
    [fingerprint, previous]: Fingerprints,
    prepare: (control: ControlDatabase) => Promise<T>,
  ): Promise<{ control: ControlDatabase; prepared: T }> {
    // Not a session of the pool: the wait for another instance may be long. The end of the session releases the lock.
    return withServiceSession(address, address.database, async (session) => {
      await session.query(sql`SELECT pg_advisory_lock(${ADVISORY_LOCKS.start})`);
      await migrate(session, 'cdp', readMigrations('control'));
      const newId = randomBytes(5).toString('hex');
      const [, found] = await session.run([
        sql`INSERT INTO cdp.instance (id, secret_fingerprint) VALUES (${newId}, ${fingerprint}) ON CONFLICT DO NOTHING`,
        sql`SELECT id, secret_fingerprint FROM cdp.instance`,
      ]);
      const [id, secret] = found?.rows[0] ?? [];
      if (secret === previous) await session.query(sql`UPDATE cdp.instance SET secret_fingerprint = ${fingerprint}`);
      else if (secret !== fingerprint) {
        throw new Error('CDP_SECRET is not the secret that this control database was created with');
      }
      const control = new ControlDatabase(address, pool, id ?? '');
      return { control, prepared: await prepare(control) };
    });
  }

  /** Whether the first project has not been shown to the operator yet. */
  async isFirstStart(): Promise<boolean> {
    const rows = await this.query(sql`SELECT 1 FROM cdp.instance WHERE welcomed_at IS NULL`);
    return rows.length === 1;
  }

  async endFirstStart(): Promise<void> {
    await this.query(sql`UPDATE cdp.instance SET welcomed_at = now()`);
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
    await this.query(sql`SELECT 1 FROM cdp.instance`);
  }

  /** Runs a query about the server. @throws EngineError database_unavailable */
  ask<T>(question: (pool: Pool) => Promise<T>): Promise<T> {
    return serviceWork(() => question(this.pool));
  }

  close(): Promise<void> {
    return this.pool.close();
  }

  // Projects

  projects(): Promise<ProjectRow[]> {
    return this.selectProjects(sql`ORDER BY name`);
  }

  /** `server`: the project on this embedded server. */
  async projectBy(column: 'id' | 'name' | 'server', value: string): Promise<ProjectRow | null> {
    const [project] = await this.selectProjects(sql`WHERE ${ident(column)} = ${value}`);
    return project ?? null;
  }

  private async selectProjects(which: Fragment): Promise<ProjectRow[]> {
    const rows = await this.query(sql`SELECT ${PROJECT_JSON} FROM cdp.projects ${which}`);
    return rows.map(([json]) => projectRow(json ?? ''));
  }

  /** @returns false if the project is no longer in one of the statuses `from` */
  async setProjectStatus(
    id: string,
    from: readonly ProjectStatus[],
    to: ProjectStatus,
    entry: AuditRow | null,
  ): Promise<boolean> {
    const rows = await this.change(
      sql`UPDATE cdp.projects SET status = ${to} WHERE id = ${id} AND status = ANY (${from}) RETURNING id AS project_id`,
      entry,
    );
    return rows.length === 1;
  }

  /** @returns null if another project has that name, and as {@link updateProject} */
  renameProject(id: string, name: string, entry: AuditRow | null): Promise<ProjectRow | null> {
    const isFree = sql`NOT EXISTS (SELECT FROM cdp.projects WHERE name = ${name} AND id <> ${id})`;
    return this.updateProject(sql`name = ${name}`, sql`id = ${id} AND ${isFree}`, entry);
  }
  setProjectQuota(id: string, quotaBytes: number | null, entry: AuditRow | null): Promise<ProjectRow | null> {
    return this.updateProject(sql`quota_bytes = ${quotaBytes}`, sql`id = ${id}`, entry);
  }
  setOwnSchemas(id: string, allowed: boolean, entry: AuditRow | null): Promise<ProjectRow | null> {
    return this.updateProject(sql`own_schemas = ${allowed}`, sql`id = ${id}`, entry);
  }

  /** @returns the changed project; null if it is not ready, or no longer there */
  private async updateProject(set: Fragment, where: Fragment, entry: AuditRow | null): Promise<ProjectRow | null> {
    const [row] = await this.change(
      sql`UPDATE cdp.projects SET ${set} WHERE ${where} AND status IN ('active', 'inactive')
          RETURNING id AS project_id, ${PROJECT_JSON}`,
      entry,
    );
    return row?.[1] == null ? null : projectRow(row[1]);
  }

  async setProjectVersion(id: string, version: number): Promise<void> {
    await this.query(sql`UPDATE cdp.projects SET schema_version = ${version} WHERE id = ${id}`);
  }

  /** Stores the size of a project whose embedded server is about to be stopped. */
  async setProjectSize(server: string, bytes: number): Promise<void> {
    await this.query(sql`UPDATE cdp.projects SET size_bytes = ${bytes} WHERE server = ${server}`);
  }

  async deleteProject(id: string, entry: AuditRow | null): Promise<void> {
    await this.change(sql`DELETE FROM cdp.projects WHERE id = ${id} RETURNING id AS project_id`, entry);
  }

  /**
   * Runs `work` while holding the project's lock, which excludes other instances and commands, and ends with the
   * process. A separate session holds it, since `work` needs those of the pool.
   * @param work gets a signal that is aborted if that session ends, and the lock with it
   * @param waitMs how long to wait for the holder, at least 1
   * @returns null if the lock stayed taken
   */
  withProjectLock<T>(id: string, work: (lost: AbortSignal) => Promise<T>, waitMs = 1): Promise<T | null> {
    return withProjectLock(this.address, id, work, waitMs);
  }

  // Tokens

  /** @returns false if its project is no longer there */
  async insertToken(
    token: Omit<StoredToken, 'createdAt' | 'revokedAt' | 'lastUsedAt'>,
    entry: AuditRow | null,
  ): Promise<boolean> {
    const { id, projectId, name, scopes, sha256, expiresAt } = token;
    const rows = await this.change(
      sql`INSERT INTO cdp.tokens (id, project_id, name, scopes, sha256, expires_at)
          SELECT ${id}::uuid, ${projectId}::uuid, ${name}, ${scopes}::text[], decode(${sha256}, 'hex'), ${expiresAt}::timestamptz
          WHERE ${projectId}::uuid IS NULL
            OR EXISTS (SELECT FROM cdp.projects WHERE id = ${projectId}::uuid FOR KEY SHARE)
          RETURNING project_id`,
      entry,
    );
    return rows.length === 1;
  }

  /** A counter that changes with every change of a project or token, except for the last use of a token. */
  async changes(): Promise<string> {
    const [[changes] = []] = await this.query(sql`SELECT changes FROM cdp.instance`);
    return changes ?? '';
  }

  /** The token of that hash with its project. */
  async tokenByHash(sha256: string): Promise<{ token: TokenRow; project: ProjectRow | null } | null> {
    const [[token, project] = []] = await this.query(
      sql`SELECT ${TOKEN_JSON}, CASE WHEN projects.id IS NOT NULL THEN ${PROJECT_JSON} END FROM cdp.tokens
          LEFT JOIN cdp.projects ON projects.id = tokens.project_id WHERE sha256 = decode(${sha256}, 'hex')`,
    );
    return token == null ? null : { token: tokenRow(token), project: project == null ? null : projectRow(project) };
  }

  /** Tokens of a project, or the admin tokens if `projectId` is null. */
  async tokens(projectId: string | null): Promise<TokenRow[]> {
    const rows = await this.query(
      sql`SELECT ${TOKEN_JSON} FROM cdp.tokens
          WHERE project_id IS NOT DISTINCT FROM ${projectId} ORDER BY created_at, id`,
    );
    return rows.map(([json]) => tokenRow(json ?? ''));
  }

  /**
   * @param projectId only a token of that project; undefined: any token
   * @param isEnd also end running requests that use it
   * @returns the token, null if none is found
   */
  async revokeToken(
    id: string,
    projectId: string | null | undefined,
    isEnd: boolean,
    entry: AuditRow | null,
  ): Promise<TokenRow | null> {
    const ofProject = projectId === undefined ? sql`` : sql`AND project_id IS NOT DISTINCT FROM ${projectId}`;
    const [row] = await this.change(
      sql`UPDATE cdp.tokens SET revoked_at = coalesce(revoked_at, now()), ended_at = CASE WHEN ${isEnd} THEN now() ELSE ended_at END
          WHERE id = ${id} ${ofProject}
          RETURNING project_id, ${TOKEN_JSON}`,
      entry,
    );
    return row?.[1] == null ? null : tokenRow(row[1]);
  }

  /** Ids of tokens that were revoked with their requests in the last minutes. */
  async endedTokens(): Promise<string[]> {
    const rows = await this.query(sql`SELECT id FROM cdp.tokens WHERE ended_at > now() - interval '5 minutes'`);
    return rows.map(([id]) => id ?? '');
  }

  /** Tokens of a project with their hashes, for a backup. */
  async storedTokens(projectId: string): Promise<StoredToken[]> {
    const rows = await this.query(
      sql`SELECT ${TOKEN_JSON}, encode(sha256, 'hex') FROM cdp.tokens WHERE project_id = ${projectId}
          ORDER BY created_at, id`,
    );
    return rows.map(([json, sha256]) => ({ ...tokenRow(json ?? ''), sha256: sha256 ?? '' }));
  }

  /** The ids of those tokens that already exist, by id or by hash. */
  async knownTokens(tokens: readonly Pick<StoredToken, 'id' | 'sha256'>[]): Promise<string[]> {
    const rows = await this.query(
      sql`SELECT id FROM cdp.tokens
          WHERE id = ANY (${tokens.map(({ id }) => id)})
            OR encode(sha256, 'hex') = ANY (${tokens.map(({ sha256 }) => sha256)})`,
    );
    return rows.map(([id]) => id ?? '');
  }

  /** Sets the properties that a restored project had before. It may create schemas only if its server allows that. */
  async adoptHistory(
    id: string,
    { createdAt, quotaBytes, ownSchemas }: Pick<ProjectRow, 'createdAt' | 'quotaBytes'> & { ownSchemas: boolean },
    tokens: readonly StoredToken[],
  ): Promise<void> {
    await this.query(
      sql`WITH project AS (UPDATE cdp.projects SET created_at = ${createdAt}, quota_bytes = ${quotaBytes},
              own_schemas = own_schemas AND ${ownSchemas}
            WHERE id = ${id} AND status = 'creating' RETURNING id)
          INSERT INTO cdp.tokens (id, project_id, name, scopes, sha256, created_at, expires_at, revoked_at, last_used_at)
          SELECT t.id, project.id, t.name, t.scopes, decode(t.sha256, 'hex'), t."createdAt", t."expiresAt",
            t."revokedAt", t."lastUsedAt"
          FROM project, jsonb_to_recordset(${JSON.stringify(tokens)}) AS t (id uuid, name text, scopes text[], sha256 text,
            "createdAt" timestamptz, "expiresAt" timestamptz, "revokedAt" timestamptz, "lastUsedAt" timestamptz)`,
    );
  }

  async touchTokens(ids: readonly string[]): Promise<void> {
    await this.query(sql`UPDATE cdp.tokens SET last_used_at = now() WHERE id = ANY (${ids})`);
  }

  /**
   * A change and its entry in the audit log, see {@link withEntry}. @throws EngineError outcome_unknown,
   * database_unavailable
   */
  private change(change: Fragment, entry: AuditRow | null): Promise<Row[]> {
    return serviceChange(this.pool, entry === null ? change : withEntry(change, entry));
  }

  /** @throws EngineError database_unavailable */
  private query(statement: Statement): Promise<Row[]> {
    return serviceWork(() => this.pool.query(statement));
  }
}
