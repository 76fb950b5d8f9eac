/** Writes and reads the use of projects by day in the control database. What is counted: `contract/usage.ts`. */
import { COUNTERS, type UsageCounts, type Way } from '../../contract/usage.js';
import { join, sql, trusted } from '../../pg/index.js';
import type { ControlPool } from './control-pool.js';

/** What a project has used on a day, or since it was last written. */
export interface UsedRow {
  /** UTC, such as 2026-11-30. */
  readonly day: string;
  readonly project_id: string;
  readonly project: string;
  readonly awake_ms: number;
  readonly ways: Readonly<Partial<Record<Way, UsageCounts>>>;
}

export interface UsageRow extends UsedRow {
  readonly bytes_stored: number | null;
}

export interface UsageFilter {
  readonly from: string;
  readonly to: string;
  readonly project?: string | undefined;
  /** Rows after this one. */
  readonly after?: { readonly day: string; readonly projectId: string } | undefined;
  readonly limit: number;
}

const DAYS_KEPT = 800;

const COLUMNS = trusted(COUNTERS.join(', '));

export class UsageRows {
  constructor(private readonly pool: ControlPool) {}

  /** Adds what was counted since the last call, in one statement. Rows are locked in their order: other instances add too. */
  async add(rows: readonly UsedRow[]): Promise<void> {
    const sums = join(COUNTERS.map((name) => sql`${trusted(name)} = u.${trusted(name)} + EXCLUDED.${trusted(name)}`));
    const fields = trusted(COUNTERS.map((name) => `${name} bigint`).join(', '));
    await this.pool.query(sql`
      WITH given AS (
        SELECT * FROM jsonb_to_recordset(${JSON.stringify(rows)}::jsonb)
          AS r (day date, project_id uuid, project text, awake_ms bigint, ways jsonb)),
      days AS (
        INSERT INTO cdp.usage AS u (day, project_id, project, awake_ms)
        SELECT day, project_id, project, awake_ms FROM given ORDER BY day, project_id
        ON CONFLICT (day, project_id) DO UPDATE SET project = EXCLUDED.project, awake_ms = u.awake_ms + EXCLUDED.awake_ms)
      INSERT INTO cdp.usage_by_way AS u (day, project_id, way, ${COLUMNS})
      SELECT given.day, given.project_id, w.key, ${join(COUNTERS.map((name) => sql`c.${trusted(name)}`))}
      FROM given, jsonb_each(given.ways) AS w, jsonb_to_record(w.value) AS c (${fields})
      ORDER BY 1, 2, 3
      ON CONFLICT (day, project_id, way) DO UPDATE SET ${sums}`);
  }

  /** Notes sizes of projects on a day, of which the largest counts, and forgets what is too old. */
  async noteSizes(sizes: readonly Pick<UsageRow, 'day' | 'project_id' | 'project' | 'bytes_stored'>[]): Promise<void> {
    await this.pool.query(sql`
      INSERT INTO cdp.usage AS u (day, project_id, project, bytes_stored)
      SELECT day, project_id, project, bytes_stored FROM jsonb_to_recordset(${JSON.stringify(sizes)}::jsonb)
        AS r (day date, project_id uuid, project text, bytes_stored bigint) ORDER BY 1, 2
      ON CONFLICT (day, project_id) DO UPDATE
        SET project = EXCLUDED.project, bytes_stored = GREATEST(u.bytes_stored, EXCLUDED.bytes_stored)`);
    await this.pool.query(sql`
      WITH gone AS (DELETE FROM cdp.usage_by_way WHERE day < current_date - ${DAYS_KEPT}::int)
      DELETE FROM cdp.usage WHERE day < current_date - ${DAYS_KEPT}::int`);
  }

  /** By day, then by project. */
  async read({ from, to, project, after, limit }: UsageFilter): Promise<UsageRow[]> {
    const ofProject =
      project === undefined
        ? sql``
        : sql`AND u.project_id IN (
      SELECT project_id FROM (SELECT DISTINCT ON (project_id) project_id, project FROM cdp.usage ORDER BY project_id, day DESC) AS last
      WHERE project = ${project})`;
    const rest =
      after === undefined ? sql`` : sql`AND (u.day, u.project_id) > (${after.day}::date, ${after.projectId}::uuid)`;
    const counts = join(COUNTERS.map((name) => sql`${name}::text, ${trusted(name)}`));
    const rows = await this.pool.query(sql`
      SELECT jsonb_build_object('day', u.day, 'project_id', u.project_id, 'project', u.project,
        'bytes_stored', u.bytes_stored, 'awake_ms', u.awake_ms, 'ways', COALESCE(w.ways, '{}'))
      FROM cdp.usage u LEFT JOIN LATERAL (
        SELECT jsonb_object_agg(way, jsonb_build_object(${counts})) AS ways FROM cdp.usage_by_way
        WHERE day = u.day AND project_id = u.project_id) w ON true
      WHERE u.day BETWEEN ${from}::date AND ${to}::date ${ofProject} ${rest}
      ORDER BY u.day, u.project_id LIMIT ${limit}`);
    return rows.map(([json]) => JSON.parse(json ?? '') as UsageRow);
  }
}
