/** The table `cdp.roles` of the control database. The rules of roles are in `engine/access/roles.ts`. */
import { BEGIN, COMMIT, sql, type Statement } from '../../pg/index.js';
import { type AuditRow, withEntry } from './audit-rows.js';
import type { ControlPool } from './control-pool.js';
import { withDates } from './control-rows.js';

/** A role that a project has made. */
export interface RoleRow {
  /** As the project knows it. */
  readonly name: string;
  readonly comment: string | null;
  readonly createdAt: Date;
}

const ROLE_JSON = sql`jsonb_build_object('name', name, 'comment', comment, 'createdAt', created_at)`;

const roleRow = (json: string | null | undefined): RoleRow => JSON.parse(json ?? '', withDates) as RoleRow;

const revokeTokens = (projectId: string, name: string): Statement =>
  sql`UPDATE cdp.tokens SET revoked_at = now(), ended_at = now()
      WHERE project_id = ${projectId} AND role = ${name} AND revoked_at IS NULL RETURNING id`;

export class RoleRows {
  constructor(private readonly pool: ControlPool) {}

  /** By name. */
  async list(projectId: string): Promise<RoleRow[]> {
    const rows = await this.pool.query(
      sql`SELECT ${ROLE_JSON} FROM cdp.roles WHERE project_id = ${projectId} ORDER BY name`,
    );
    return rows.map(([json]) => roleRow(json));
  }

  async exists(projectId: string, name: string): Promise<boolean> {
    const rows = await this.pool.query(sql`SELECT FROM cdp.roles WHERE project_id = ${projectId} AND name = ${name}`);
    return rows.length === 1;
  }

  /** @returns null if the project is no longer there */
  async insert(
    projectId: string,
    { name, comment }: Pick<RoleRow, 'name' | 'comment'>,
    entry: AuditRow | null,
  ): Promise<RoleRow | null> {
    const [row] = await this.pool.change(
      sql`INSERT INTO cdp.roles (project_id, name, comment)
          SELECT ${projectId}::uuid, ${name}, ${comment}
          WHERE EXISTS (SELECT FROM cdp.projects WHERE id = ${projectId}::uuid FOR KEY SHARE)
          RETURNING project_id, ${ROLE_JSON}`,
      entry,
    );
    return row === undefined ? null : roleRow(row[1]);
  }

  /** Revokes the tokens of a role with the requests that use them. @returns their number */
  async revokeTokens(projectId: string, name: string): Promise<number> {
    const rows = await this.pool.query(revokeTokens(projectId, name));
    return rows.length;
  }

  /**
   * Removes the role, and revokes its tokens with the requests that use them.
   * @returns the number of tokens
   */
  async delete(projectId: string, name: string, entry: AuditRow | null): Promise<number> {
    const remove = sql`DELETE FROM cdp.roles WHERE project_id = ${projectId} AND name = ${name} RETURNING project_id`;
    const results = await this.pool.transaction([
      BEGIN,
      revokeTokens(projectId, name),
      withEntry(remove, entry),
      COMMIT,
    ]);
    return results[1]?.rows.length ?? 0;
  }
}
