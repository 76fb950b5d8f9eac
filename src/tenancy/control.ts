/** The control database: projects and tokens. What they mean is decided in `engine/`. */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import type { ProjectStatus } from '../contract/projects.js';
import { ADVISORY_LOCKS } from './advisory-locks.js';
import { withEntry } from './audit-log.js';
import type { AuditEntry } from './audit-rows.js';
import {
  PROJECT_COLUMNS,
  projectRow,
  type ProjectRecord,
  type ProjectRow,
  type StoredToken,
  TOKEN_COLUMNS,
  tokenRow,
  type TokenRecord,
  type TokenRow,
} from './control-rows.js';
import { migrate, readMigrations } from './migrate.js';
import type { ServerAddress } from '../postgres/server.js';
import { withServiceClient } from './service-pool.js';
import { serviceChange, serviceWork } from './service-work.js';
import { LOCK_NOT_AVAILABLE } from '../postgres/sqlstate.js';

export class ControlDatabase {
  private constructor(
    private readonly address: ServerAddress,
    private readonly pool: pg.Pool,
    /** Random id of the installation. */
    readonly instanceId: string,
  ) {}

  /**
   * Migrates the control schema and checks that this instance has the installation's secret.
   * @param pool of the service's own role on the control database, which is that of `address`
   * @param prepare makes ready what projects are made from, as one instance at a time
   * @param version of what it prepares
   * @throws Error when the secret differs or the schema is newer than this program
   */
  static async open(
    address: ServerAddress,
    pool: pg.Pool,
    fingerprint: string,
    version: number,
    prepare: (control: ControlDatabase, isCurrent: boolean) => Promise<void>,
  ): Promise<ControlDatabase> {
    // Not of the pool: others may take their time with the template. The end of the connection gives the lock back.
    return withServiceClient(address, address.database, async (client) => {
      await client.query('SELECT pg_advisory_lock($1)', [ADVISORY_LOCKS.start]);
      await migrate(client, 'cdp', readMigrations('control'));
      await client.query('INSERT INTO cdp.instance (id, secret_fingerprint) VALUES ($1, $2) ON CONFLICT DO NOTHING', [
        randomBytes(5).toString('hex'),
        fingerprint,
      ]);
      const found = await client.query<{ id: string; secret_fingerprint: string; template_version: number }>(
        'SELECT id, secret_fingerprint, template_version FROM cdp.instance',
      );
      const [instance] = found.rows;
      if (instance?.secret_fingerprint !== fingerprint) {
        throw new Error('CDP_SECRET is not the secret that this control database was made with');
      }
      const control = new ControlDatabase(address, pool, instance.id);
      await prepare(control, instance.template_version >= version);
      if (instance.template_version < version) {
        await client.query('UPDATE cdp.instance SET template_version = $1', [version]);
      }
      return control;
    });
  }

  /** Of the control database's server, which is of the same version as the projects'. */
  async serverMajor(): Promise<number> {
    const { rows } = await this.query<{ number: string }>(`SELECT current_setting('server_version_num') AS number`);
    return Math.floor(Number(rows[0]?.number) / 10_000);
  }

  /** Whether the operator has not yet been shown a first project. */
  async isFirstStart(): Promise<boolean> {
    const { rowCount } = await this.query('SELECT 1 FROM cdp.instance WHERE welcomed_at IS NULL');
    return rowCount === 1;
  }

  async endFirstStart(): Promise<void> {
    await this.query('UPDATE cdp.instance SET welcomed_at = now()');
  }

  async ping(): Promise<void> {
    await this.query('SELECT 1 FROM cdp.instance');
  }

  close(): Promise<void> {
    return this.pool.end();
  }

  // Projects

  async projects(): Promise<ProjectRow[]> {
    const { rows } = await this.query<ProjectRecord>(`SELECT ${PROJECT_COLUMNS} FROM cdp.projects ORDER BY name`);
    return rows.map(projectRow);
  }

  async projectByName(name: string): Promise<ProjectRow | null> {
    const { rows } = await this.query<ProjectRecord>(`SELECT ${PROJECT_COLUMNS} FROM cdp.projects WHERE name = $1`, [
      name,
    ]);
    return rows[0] ? projectRow(rows[0]) : null;
  }

  /** @returns false where a project of that name exists, in whatever status */
  async insertProject(project: Omit<ProjectRow, 'quotaBytes' | 'sizeBytes' | 'createdAt'>): Promise<boolean> {
    const { id, name, status, schemaVersion } = project;
    const { server, database, schema, writer, reader } = project.placement;
    const { rowCount } = await this.query(
      `INSERT INTO cdp.projects (id, name, status, server, database_name, schema_name, writer_role, reader_role, schema_version)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (name) DO NOTHING`,
      [id, name, status, server, database, schema, writer, reader, schemaVersion],
    );
    return rowCount === 1;
  }

  /** @returns false where the project is not in one of the statuses `from` any more */
  async setProjectStatus(
    id: string,
    from: readonly ProjectStatus[],
    to: ProjectStatus,
    entry: AuditEntry | null,
  ): Promise<boolean> {
    const { rowCount } = await this.change(
      'UPDATE cdp.projects SET status = $3 WHERE id = $1 AND status = ANY ($2) RETURNING id AS project_id',
      [id, from, to],
      entry,
    );
    return rowCount === 1;
  }

  async setProjectVersion(id: string, version: number): Promise<void> {
    await this.query('UPDATE cdp.projects SET schema_version = $2 WHERE id = $1', [id, version]);
  }

  /** @returns the project as it now is; null where it is not ready, or not there any more */
  async setProjectQuota(id: string, quotaBytes: number | null, entry: AuditEntry | null): Promise<ProjectRow | null> {
    const { rows } = await this.change<ProjectRecord>(
      `UPDATE cdp.projects SET quota_bytes = $2 WHERE id = $1 AND status IN ('active', 'inactive')
       RETURNING ${PROJECT_COLUMNS}, id AS project_id`,
      [id, quotaBytes],
      entry,
    );
    return rows[0] ? projectRow(rows[0]) : null;
  }

  /** Of a project by its own server, which is about to be stopped. */
  async setProjectSize(server: string, bytes: number): Promise<void> {
    await this.query('UPDATE cdp.projects SET size_bytes = $2 WHERE server = $1', [server, bytes]);
  }

  /** The project that lives on a server of its own. */
  async projectOnServer(server: string): Promise<ProjectRow | null> {
    const { rows } = await this.query<ProjectRecord>(`SELECT ${PROJECT_COLUMNS} FROM cdp.projects WHERE server = $1`, [
      server,
    ]);
    return rows[0] ? projectRow(rows[0]) : null;
  }

  async deleteProject(id: string, entry: AuditEntry | null): Promise<void> {
    await this.change('DELETE FROM cdp.projects WHERE id = $1 RETURNING id AS project_id', [id], entry);
  }

  /**
   * Runs `work` while holding the project's lock, which no other instance or command can hold at the same time and
   * which ends with the process. It is held by a connection of its own: `work` needs those of the pool.
   * @param waitMs how long to wait for whoever holds it, at least 1
   * @returns null where somebody else went on holding it
   */
  withProjectLock<T>(id: string, work: () => Promise<T>, waitMs = 1): Promise<T | null> {
    return serviceWork(() =>
      withServiceClient(this.address, this.address.database, async (client) => {
        await client.query(`SET lock_timeout = ${waitMs}`);
        try {
          await client.query('SELECT pg_advisory_lock(hashtextextended($1, 0))', [id]);
        } catch (error) {
          if (error instanceof pg.DatabaseError && error.code === LOCK_NOT_AVAILABLE) return null;
          throw error;
        }
        return work();
      }),
    );
  }

  // Tokens

  /** @returns false where its project is not there any more */
  async insertToken(
    token: Omit<TokenRow, 'createdAt' | 'revokedAt' | 'lastUsedAt'> & { sha256: Buffer },
    entry: AuditEntry | null,
  ): Promise<boolean> {
    const { rowCount } = await this.change(
      `INSERT INTO cdp.tokens (id, project_id, name, scopes, sha256, expires_at)
       SELECT $1, $2, $3, $4, $5, $6
       WHERE $2::uuid IS NULL OR EXISTS (SELECT FROM cdp.projects WHERE id = $2 FOR KEY SHARE)
       RETURNING project_id`,
      [token.id, token.projectId, token.name, token.scopes, token.sha256, token.expiresAt],
      entry,
    );
    return rowCount === 1;
  }

  /** Another number than before once the row of any project or token has changed, but for when a token was used. */
  async changes(): Promise<string> {
    const { rows } = await this.query<{ changes: string }>('SELECT changes FROM cdp.instance');
    return rows[0]?.changes ?? '';
  }

  /** The token of that hash with its project, in one look. */
  async tokenByHash(sha256: Buffer): Promise<{ token: TokenRow; project: ProjectRow | null } | null> {
    const { rows } = await this.query<{ token: TokenRecord; project: ProjectRecord | null }>(
      `SELECT to_jsonb(t) AS token, to_jsonb(p) AS project
       FROM (SELECT ${TOKEN_COLUMNS} FROM cdp.tokens WHERE sha256 = $1) AS t
       LEFT JOIN (SELECT ${PROJECT_COLUMNS} FROM cdp.projects) AS p ON p.id = t.project_id`,
      [sha256],
    );
    const [found] = rows;
    return found ? { token: tokenRow(found.token), project: found.project && projectRow(found.project) } : null;
  }

  /** Tokens of a project, or the admin tokens where `projectId` is null. */
  async tokens(projectId: string | null): Promise<TokenRow[]> {
    const { rows } = await this.query<TokenRecord>(
      `SELECT ${TOKEN_COLUMNS} FROM cdp.tokens WHERE project_id IS NOT DISTINCT FROM $1 ORDER BY created_at, id`,
      [projectId],
    );
    return rows.map(tokenRow);
  }

  /** @param projectId only a token of that project; undefined: any token. @returns the token, null where none is found */
  async revokeToken(
    id: string,
    projectId: string | null | undefined,
    entry: AuditEntry | null,
  ): Promise<TokenRow | null> {
    const { rows } = await this.change<TokenRecord>(
      `UPDATE cdp.tokens SET revoked_at = coalesce(revoked_at, now())
       WHERE id = $1 AND ($3 OR project_id IS NOT DISTINCT FROM $2) RETURNING ${TOKEN_COLUMNS}`,
      [id, projectId ?? null, projectId === undefined],
      entry,
    );
    return rows[0] ? tokenRow(rows[0]) : null;
  }

  /** Tokens of a project with their hashes, for a backup. */
  async storedTokens(projectId: string): Promise<StoredToken[]> {
    const { rows } = await this.query<TokenRecord & { sha256: Buffer }>(
      `SELECT ${TOKEN_COLUMNS}, sha256 FROM cdp.tokens WHERE project_id = $1 ORDER BY created_at, id`,
      [projectId],
    );
    return rows.map((row) => ({ ...tokenRow(row), sha256: row.sha256 }));
  }

  /** Of these tokens, the ids of those that are there already, by id or by hash. */
  async knownTokens(tokens: readonly Pick<StoredToken, 'id' | 'sha256'>[]): Promise<string[]> {
    const { rows } = await this.query<{ id: string }>(
      'SELECT id FROM cdp.tokens WHERE id = ANY ($1) OR sha256 = ANY ($2)',
      [tokens.map(({ id }) => id), tokens.map(({ sha256 }) => sha256)],
    );
    return rows.map(({ id }) => id);
  }

  /** What a project that is being restored was before: the time at which it was made, its quota, its tokens. */
  async adoptHistory(
    id: string,
    { createdAt, quotaBytes }: Pick<ProjectRow, 'createdAt' | 'quotaBytes'>,
    tokens: readonly StoredToken[],
  ): Promise<void> {
    const rows = tokens.map(({ sha256, ...token }) => ({ ...token, sha256: sha256.toString('hex') }));
    await this.query(
      `WITH project AS (UPDATE cdp.projects SET created_at = $2, quota_bytes = $4 WHERE id = $1 AND status = 'creating' RETURNING id)
       INSERT INTO cdp.tokens (id, project_id, name, scopes, sha256, created_at, expires_at, revoked_at, last_used_at)
       SELECT t.id, project.id, t.name, t.scopes, decode(t.sha256, 'hex'), t."createdAt", t."expiresAt",
         t."revokedAt", t."lastUsedAt"
       FROM project, jsonb_to_recordset($3) AS t (id uuid, name text, scopes text[], sha256 text,
         "createdAt" timestamptz, "expiresAt" timestamptz, "revokedAt" timestamptz, "lastUsedAt" timestamptz)`,
      [id, createdAt, JSON.stringify(rows), quotaBytes],
    );
  }

  async touchTokens(ids: readonly string[]): Promise<void> {
    await this.query('UPDATE cdp.tokens SET last_used_at = now() WHERE id = ANY ($1)', [ids]);
  }

  /** A change and its entry in the audit log, see {@link withEntry}. @throws EngineError outcome_unknown, database_unavailable */
  private change<R extends pg.QueryResultRow>(text: string, values: unknown[], entry: AuditEntry | null) {
    return serviceChange<R>(
      this.pool,
      ...(entry === null ? ([text, values] as const) : withEntry(text, values, entry)),
    );
  }

  /** @throws EngineError database_unavailable */
  private query<R extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<pg.QueryResult<R>> {
    return serviceWork(() => this.pool.query<R>(text, values));
  }
}
