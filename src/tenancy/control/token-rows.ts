/** The table `cdp.tokens` of the control database. The rules of tokens are in `engine/access`. */
import { sql } from '../../pg/index.js';
import type { AuditRow } from './audit-rows.js';
import type { ControlPool } from './control-pool.js';
import {
  PROJECT_JSON,
  projectRow,
  type ProjectRow,
  type StoredToken,
  TOKEN_JSON,
  tokenRow,
  type TokenRow,
} from './control-rows.js';

export class TokenRows {
  constructor(private readonly pool: ControlPool) {}

  /** @returns false if its project, or the role in it, is not there */
  async insert(
    token: Omit<StoredToken, 'createdAt' | 'revokedAt' | 'lastUsedAt'>,
    entry: AuditRow | null,
  ): Promise<boolean> {
    const { id, projectId, name, scopes, role, limits, sha256, expiresAt, createdBy } = token;
    const limitsText = limits === null ? null : JSON.stringify(limits);
    const rows = await this.pool.change(
      sql`INSERT INTO cdp.tokens (id, project_id, name, scopes, role, limits, sha256, expires_at, created_by)
          SELECT ${id}::uuid, ${projectId}::uuid, ${name}, ${scopes}::text[], ${role}, ${limitsText}::jsonb, decode(${sha256}, 'hex'),
            ${expiresAt}::timestamptz, ${createdBy}
          WHERE (${projectId}::uuid IS NULL
            OR EXISTS (SELECT FROM cdp.projects WHERE id = ${projectId}::uuid FOR KEY SHARE))
            AND (${role}::text IS NULL
            OR EXISTS (SELECT FROM cdp.roles WHERE project_id = ${projectId}::uuid AND name = ${role} FOR KEY SHARE))
          RETURNING project_id`,
      entry,
    );
    return rows.length === 1;
  }

  async byHash(sha256: string): Promise<{ token: TokenRow; project: ProjectRow | null } | null> {
    const [token, project] = await this.pool.row(
      sql`SELECT ${TOKEN_JSON}, CASE WHEN projects.id IS NOT NULL THEN ${PROJECT_JSON} END FROM cdp.tokens
          LEFT JOIN cdp.projects ON projects.id = tokens.project_id WHERE sha256 = decode(${sha256}, 'hex')`,
    );
    return token == null ? null : { token: tokenRow(token), project: project == null ? null : projectRow(project) };
  }

  /** Tokens of a project, or the admin tokens if `projectId` is null. */
  async list(projectId: string | null): Promise<TokenRow[]> {
    const rows = await this.pool.query(
      sql`SELECT ${TOKEN_JSON} FROM cdp.tokens
          WHERE project_id IS NOT DISTINCT FROM ${projectId} ORDER BY created_at, id`,
    );
    return rows.map(([json]) => tokenRow(json ?? ''));
  }

  /**
   * @param projectId only a token of that project; undefined: any token
   * @param endsRequests also end running requests that use it
   * @returns the token, null if none is found
   */
  async revoke(
    id: string,
    projectId: string | null | undefined,
    endsRequests: boolean,
    entry: AuditRow | null,
  ): Promise<TokenRow | null> {
    const ofProject = projectId === undefined ? sql`` : sql`AND project_id IS NOT DISTINCT FROM ${projectId}`;
    const [row] = await this.pool.change(
      sql`UPDATE cdp.tokens SET revoked_at = coalesce(revoked_at, now()), ended_at = CASE WHEN ${endsRequests} THEN now() ELSE ended_at END
          WHERE id = ${id} ${ofProject}
          RETURNING project_id, ${TOKEN_JSON}`,
      entry,
    );
    return row?.[1] == null ? null : tokenRow(row[1]);
  }

  /** Ids of tokens that were revoked with their requests in the last minutes. */
  async endedIds(): Promise<string[]> {
    const rows = await this.pool.query(sql`SELECT id FROM cdp.tokens WHERE ended_at > now() - interval '5 minutes'`);
    return rows.map(([id]) => id ?? '');
  }

  /** Tokens of a project with their hashes, for a backup. */
  async ofProject(projectId: string): Promise<StoredToken[]> {
    const rows = await this.pool.query(
      sql`SELECT ${TOKEN_JSON}, encode(sha256, 'hex') FROM cdp.tokens WHERE project_id = ${projectId}
          ORDER BY created_at, id`,
    );
    return rows.map(([json, sha256]) => ({ ...tokenRow(json ?? ''), sha256: sha256 ?? '' }));
  }

  /** The ids of those tokens that already exist, by id or by hash. */
  async existing(tokens: readonly Pick<StoredToken, 'id' | 'sha256'>[]): Promise<string[]> {
    const rows = await this.pool.query(
      sql`SELECT id FROM cdp.tokens
          WHERE id = ANY (${tokens.map(({ id }) => id)})
            OR encode(sha256, 'hex') = ANY (${tokens.map(({ sha256 }) => sha256)})`,
    );
    return rows.map(([id]) => id ?? '');
  }

  /** Origins whose pages may use a valid token. */
  async origins(): Promise<string[]> {
    const rows = await this.pool.query(
      sql`SELECT DISTINCT jsonb_array_elements_text(limits -> 'origins') FROM cdp.tokens
          WHERE limits -> 'origins' <> 'null' AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())`,
    );
    return rows.map(([origin]) => origin ?? '');
  }

  /**
   * Takes some of a token's limit for a day, if that much is left.
   * @returns what was taken, all or nothing; the day in UTC, and when it ends, in milliseconds from now
   */
  async takeOfDay(
    id: string,
    what: 'requests' | 'rows',
    wanted: number,
    limit: number,
  ): Promise<{ taken: number; day: string; endsInMs: number }> {
    const [taken, day, endsInMs] = await this.pool.row(
      sql`WITH today AS (SELECT (now() AT TIME ZONE 'UTC')::date AS day),
          taken AS (
            INSERT INTO cdp.token_use AS token (token_id, what, day, used)
            SELECT ${id}::uuid, ${what}, day, ${wanted}::int8 FROM today WHERE ${wanted}::int8 <= ${limit}::int8
            ON CONFLICT (token_id, what) DO UPDATE SET day = excluded.day,
              used = excluded.used + CASE WHEN token.day = excluded.day THEN token.used ELSE 0 END
            WHERE excluded.used + CASE WHEN token.day = excluded.day THEN token.used ELSE 0 END <= ${limit}::int8
            RETURNING 1)
          SELECT (SELECT count(*) FROM taken), day, 1000 * extract(epoch FROM (day + 1) - now() AT TIME ZONE 'UTC') FROM today`,
    );
    return { taken: taken === '1' ? wanted : 0, day: day ?? '', endsInMs: Number(endsInMs) };
  }

  async touch(ids: readonly string[]): Promise<void> {
    await this.pool.query(sql`UPDATE cdp.tokens SET last_used_at = now() WHERE id = ANY (${ids})`);
  }
}
