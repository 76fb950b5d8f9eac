/** The table `cdp.queries` of the control database. The rules of queries are in `engine/queries/queries.ts`. */
import type { QueryParameter } from '../../contract/wire/queries.js';
import { sql, trusted } from '../../pg/index.js';
import type { AuditRow } from './audit-rows.js';
import type { ControlPool } from './control-pool.js';

/** What its author says of a query. */
export interface QueryDeclaration {
  readonly sql: string;
  readonly parameters: readonly QueryParameter[];
  readonly chart: object | null;
  readonly description: string | null;
  /** It runs as the writer, otherwise as the reader. */
  readonly writes: boolean;
}

export interface QueryRow {
  readonly name: string;
  readonly declaration: QueryDeclaration;
  readonly createdAt: Date;
  readonly createdBy: string;
  readonly updatedAt: Date;
  readonly updatedBy: string;
}

const QUERY_JSON = trusted(`jsonb_build_object('name', q.name, 'declaration', q.declaration, 'createdAt', q.created_at,
  'createdBy', q.created_by, 'updatedAt', q.updated_at, 'updatedBy', q.updated_by)`);

const queryRow = (json: string | null | undefined): QueryRow => {
  const row = JSON.parse(json ?? '') as QueryRow;
  // Only the outer times: the chart is the caller's.
  return { ...row, createdAt: new Date(row.createdAt), updatedAt: new Date(row.updatedAt) };
};

export class QueryRows {
  constructor(private readonly pool: ControlPool) {}

  /** By name. */
  async list(projectId: string): Promise<QueryRow[]> {
    const rows = await this.pool.query(
      sql`SELECT ${QUERY_JSON} FROM cdp.queries q WHERE project_id = ${projectId} ORDER BY name`,
    );
    return rows.map(([json]) => queryRow(json));
  }

  async find(projectId: string, name: string): Promise<QueryRow | null> {
    const [json] = await this.pool.row(
      sql`SELECT ${QUERY_JSON} FROM cdp.queries q WHERE project_id = ${projectId} AND name = ${name}`,
    );
    return json == null ? null : queryRow(json);
  }

  /**
   * Makes or replaces a query.
   * @param most others that the project may have @param mayWrite whether it may replace one that writes
   * @returns null if it may not, or the project is no longer there
   */
  async save(
    projectId: string,
    name: string,
    declaration: QueryDeclaration,
    { by, most, mayWrite }: { by: string; most: number; mayWrite: boolean },
    entry: AuditRow | null,
  ): Promise<QueryRow | null> {
    const [row] = await this.pool.change(
      sql`INSERT INTO cdp.queries AS q (project_id, name, declaration, created_by, updated_by)
          SELECT ${projectId}::uuid, ${name}, ${JSON.stringify(declaration)}::jsonb, ${by}, ${by}
          WHERE EXISTS (SELECT FROM cdp.projects WHERE id = ${projectId}::uuid FOR KEY SHARE)
            AND (SELECT count(*) FROM cdp.queries WHERE project_id = ${projectId}::uuid AND name <> ${name}) < ${most}
          ON CONFLICT (project_id, name) DO UPDATE SET
            declaration = excluded.declaration, updated_at = now(), updated_by = excluded.updated_by
            WHERE ${mayWrite} OR NOT (q.declaration->>'writes')::boolean
          RETURNING project_id, ${QUERY_JSON}`,
      entry,
    );
    return row === undefined ? null : queryRow(row[1]);
  }

  /** @param mayWrite whether it may delete one that writes @returns whether there was one, and it may */
  async delete(projectId: string, name: string, mayWrite: boolean, entry: AuditRow | null): Promise<boolean> {
    const rows = await this.pool.change(
      sql`DELETE FROM cdp.queries WHERE project_id = ${projectId} AND name = ${name}
            AND (${mayWrite} OR NOT (declaration->>'writes')::boolean) RETURNING project_id`,
      entry,
    );
    return rows.length === 1;
  }
}
