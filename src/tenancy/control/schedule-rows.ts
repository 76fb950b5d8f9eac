/**
 * The tables `cdp.schedules` and `cdp.schedule_runs` of the control database. One instance at a time has a claim to a run, which it
 * renews while it works; all times are the server's.
 */
import type { Warning } from '../../contract/wire/sql.js';
import { BEGIN, COMMIT, type Fragment, sql, trusted } from '../../pg/index.js';
import type { AuditRow } from './audit-rows.js';
import type { ControlPool } from './control-pool.js';
import { withDates } from './control-rows.js';

export type ScheduleKind = 'schedule' | 'segment';

/** What its author says of a schedule. */
export interface Declaration {
  readonly sql: string;
  readonly cron: string | null;
  readonly every: string | null;
  readonly timeZone: string;
  readonly timeoutMs: number;
  /** A role that the project has made; null: its writer. */
  readonly role: string | null;
  readonly missed: 'run_once' | 'skip';
  /** Of a segment: the most percent of its members that a run may change; null: any number. */
  readonly maxChange?: number | null;
  /** The id of a run that may change any number: also if another instance goes on with it. */
  readonly forcedRun?: string;
}

/** Which schedule it is. */
export interface ScheduleKey {
  readonly projectId: string;
  readonly kind: ScheduleKind;
  readonly name: string;
}

export interface RunRow {
  readonly id: string;
  /** null: somebody asked for it. */
  readonly dueAt: Date | null;
  readonly startedAt: Date;
  readonly endedAt: Date | null;
  readonly attempts: number;
  readonly missed: number;
  /** `ok`, or the code of its error; null: it has not ended. */
  readonly outcome: string | null;
  readonly error: string | null;
  readonly rows: number | null;
  readonly warnings: readonly Warning[] | null;
}

export interface ScheduleRow extends ScheduleKey {
  readonly declaration: Declaration;
  readonly createdAt: Date;
  readonly createdBy: string;
  readonly updatedAt: Date;
  readonly updatedBy: string;
  /** null: it is paused. */
  readonly nextAt: Date | null;
  readonly missed: number;
  /** The run that has not ended. */
  readonly runId: string | null;
  /** null: it has never run. */
  readonly lastRun: RunRow | null;
}

/** A schedule whose time has come, or whose run nobody goes on with. */
export interface DueRow {
  readonly schedule: ScheduleRow;
  /** The server's clock. */
  readonly now: Date;
  /** Its time, with all digits. */
  readonly due: string;
}

/** How a run ended. */
export interface RunEnd {
  readonly outcome: string;
  readonly error: string | null;
  readonly rows: number | null;
  readonly warnings: readonly Warning[];
}

/** How long an instance may be silent before another one takes its runs over. */
export const CLAIM_S = 30;

const CLAIMED = trusted(`now() + interval '${CLAIM_S} s'`);

const RUN_JSON = trusted(`jsonb_build_object('id', id, 'dueAt', due_at, 'startedAt', started_at, 'endedAt', ended_at,
  'attempts', attempts, 'missed', missed, 'outcome', outcome, 'error', error, 'rows', rows, 'warnings', warnings)`);

const SCHEDULE_JSON = trusted(`jsonb_build_object('projectId', s.project_id, 'kind', s.kind, 'name', s.name,
  'declaration', s.declaration, 'createdAt', s.created_at, 'createdBy', s.created_by, 'updatedAt', s.updated_at,
  'updatedBy', s.updated_by, 'nextAt', s.next_at, 'missed', s.missed, 'runId', s.run_id,
  'lastRun', (SELECT ${RUN_JSON.text} FROM cdp.schedule_runs r
    WHERE (r.project_id, r.kind, r.schedule) = (s.project_id, s.kind, s.name) ORDER BY started_at DESC LIMIT 1))`);

const read = <T>(json: string | null | undefined): T => JSON.parse(json ?? '', withDates) as T;

const isKey = ({ projectId, kind, name }: ScheduleKey): Fragment =>
  sql`project_id = ${projectId} AND kind = ${kind} AND name = ${name}`;

export class ScheduleRows {
  constructor(private readonly pool: ControlPool) {}

  /** By name. */
  async list(projectId: string, kind: ScheduleKind): Promise<ScheduleRow[]> {
    const rows = await this.pool.query(
      sql`SELECT ${SCHEDULE_JSON} FROM cdp.schedules s WHERE project_id = ${projectId} AND kind = ${kind} ORDER BY name`,
    );
    return rows.map(([json]) => read(json));
  }

  async find(key: ScheduleKey): Promise<ScheduleRow | null> {
    const [json] = await this.pool.row(sql`SELECT ${SCHEDULE_JSON} FROM cdp.schedules s WHERE ${isKey(key)}`);
    return json == null ? null : read(json);
  }

  /** The newest first. */
  async runs({ projectId, kind, name }: ScheduleKey): Promise<RunRow[]> {
    const rows = await this.pool.query(
      sql`SELECT ${RUN_JSON} FROM cdp.schedule_runs WHERE project_id = ${projectId} AND kind = ${kind} AND schedule = ${name}
          ORDER BY started_at DESC`,
    );
    return rows.map(([json]) => read(json));
  }

  /**
   * Makes or replaces a schedule. One whose times stay the same keeps its next time, one that is paused stays so.
   * @returns null if the project is no longer there, or has `most` others of any kind
   */
  async save(
    { projectId, kind, name }: ScheduleKey,
    declaration: Declaration,
    { nextAt, by, most }: { nextAt: Date; by: string; most: number },
    entry: AuditRow | null,
  ): Promise<ScheduleRow | null> {
    const [row] = await this.pool.change(
      sql`INSERT INTO cdp.schedules AS s (project_id, kind, name, declaration, created_by, updated_by, next_at)
          SELECT ${projectId}::uuid, ${kind}, ${name}, ${JSON.stringify(declaration)}::jsonb, ${by}, ${by}, ${nextAt.toISOString()}::timestamptz
          WHERE EXISTS (SELECT FROM cdp.projects WHERE id = ${projectId}::uuid FOR KEY SHARE)
            AND (SELECT count(*) FROM cdp.schedules WHERE project_id = ${projectId}::uuid
              AND (kind, name) <> (${kind}, ${name})) < ${most}
          ON CONFLICT (project_id, kind, name) DO UPDATE SET
            declaration = excluded.declaration, updated_at = now(), updated_by = excluded.updated_by,
            next_at = CASE
              WHEN s.next_at IS NULL THEN NULL
              WHEN ${timingOf('s.declaration')} = ${timingOf('excluded.declaration')} THEN s.next_at
              ELSE excluded.next_at END
          RETURNING project_id, ${SCHEDULE_JSON}`,
      entry,
    );
    return row === undefined ? null : read(row[1]);
  }

  /** @param nextAt null: until it is resumed @returns null if there is none */
  async setNext(key: ScheduleKey, nextAt: Date | null, entry: AuditRow | null): Promise<ScheduleRow | null> {
    const [row] = await this.pool.change(
      sql`UPDATE cdp.schedules s SET next_at = ${nextAt?.toISOString() ?? null}::timestamptz WHERE ${isKey(key)}
          RETURNING project_id, ${SCHEDULE_JSON}`,
      entry,
    );
    return row === undefined ? null : read(row[1]);
  }

  /** @returns whether there was one */
  async delete(key: ScheduleKey, entry: AuditRow | null): Promise<boolean> {
    const remove = sql`DELETE FROM cdp.schedules WHERE ${isKey(key)} RETURNING project_id`;
    return (await this.pool.change(remove, entry)).length === 1;
  }

  // The claims of instances.

  /**
   * What should begin or go on now, at most two of a project, so that nobody's hundred delay those of others.
   * @param busy ids of projects whose schedules have to wait
   */
  async due(busy: readonly string[], limit: number): Promise<DueRow[]> {
    const rows = await this.pool.query(
      sql`SELECT jsonb_build_object('schedule', ${SCHEDULE_JSON}, 'nowAt', now(), 'due', s.next_at::text)
          FROM (SELECT *, row_number() OVER (PARTITION BY project_id ORDER BY next_at) AS nth FROM cdp.schedules
            WHERE ((run_id IS NULL AND next_at <= now()) OR (run_id IS NOT NULL AND claimed_until < now()))
              AND project_id <> ALL (${busy}::uuid[])) s
          WHERE nth <= 2 ORDER BY next_at LIMIT ${limit}`,
    );
    return rows.map(([json]) => {
      const { schedule, nowAt, due } = read<{ schedule: ScheduleRow; nowAt: Date; due: string }>(json);
      return { schedule, now: nowAt, due };
    });
  }

  /**
   * Begins a run, unless another instance was faster.
   * @param due its time as {@link due} has it; null: somebody asks for the run, and the next time stays as it is
   * @param isForced whatever `maxChange` says
   */
  async claim(
    key: ScheduleKey,
    claim: { runId: string; by: string; due: string | null; nextAt: Date | null; missed: number; isForced?: boolean },
  ): Promise<RunRow | null> {
    const { runId, by, due, nextAt, missed, isForced = false } = claim;
    const isDue = due === null ? sql`true` : sql`next_at = ${due}::timestamptz`;
    const forced = JSON.stringify(isForced ? { forcedRun: runId } : {});
    const next = nextAt === null ? sql`next_at` : sql`${nextAt.toISOString()}::timestamptz`;
    const [json] = await this.pool.row(
      sql`WITH claimed AS (
            UPDATE cdp.schedules SET run_id = ${runId}, claimed_by = ${by}, claimed_until = ${CLAIMED},
              next_at = ${next}, missed = missed + ${missed}, declaration = declaration || ${forced}::jsonb
            WHERE ${isKey(key)} AND run_id IS NULL AND ${isDue} RETURNING project_id, kind, name)
          INSERT INTO cdp.schedule_runs (id, project_id, kind, schedule, due_at, missed)
          SELECT ${runId}::uuid, project_id, kind, name, ${due}::timestamptz, ${missed} FROM claimed RETURNING ${RUN_JSON}`,
    );
    return json == null ? null : read(json);
  }

  /** Goes on with a run whose instance has died or was stopped, unless another one was faster. */
  async takeOver(key: ScheduleKey, runId: string, by: string): Promise<RunRow | null> {
    const [json] = await this.pool.row(
      sql`WITH claimed AS (
            UPDATE cdp.schedules SET claimed_by = ${by}, claimed_until = ${CLAIMED}
            WHERE ${isKey(key)} AND run_id = ${runId} AND claimed_until < now() RETURNING run_id)
          UPDATE cdp.schedule_runs SET attempts = attempts + 1 WHERE id = (SELECT run_id FROM claimed) RETURNING ${RUN_JSON}`,
    );
    return json == null ? null : read(json);
  }

  /** Lets times pass without a run. */
  async skip(key: ScheduleKey, due: string, nextAt: Date, missed: number): Promise<void> {
    await this.pool.query(
      sql`UPDATE cdp.schedules SET next_at = ${nextAt.toISOString()}::timestamptz, missed = missed + ${missed}
          WHERE ${isKey(key)} AND run_id IS NULL AND next_at = ${due}::timestamptz`,
    );
  }

  /** Says that an instance is alive. @returns those of its runs to which it still has a claim */
  async renew(by: string, runIds: readonly string[]): Promise<Set<string>> {
    const rows = await this.pool.query(
      sql`UPDATE cdp.schedules SET claimed_until = ${CLAIMED}
          WHERE claimed_by = ${by} AND run_id = ANY (${runIds}::uuid[]) RETURNING run_id`,
    );
    return new Set(rows.map(([id]) => id ?? ''));
  }

  /** Leaves a run to whoever takes it over first; it counts as no attempt. */
  async release(runId: string, by: string): Promise<void> {
    await this.pool.query(
      sql`WITH released AS (
            UPDATE cdp.schedules SET claimed_until = now() WHERE claimed_by = ${by} AND run_id = ${runId} RETURNING run_id)
          UPDATE cdp.schedule_runs SET attempts = attempts - 1 WHERE id = (SELECT run_id FROM released)`,
    );
  }

  /** Stores how a run ended, and forgets all but the last of its schedule. @returns null if the claim is lost */
  async end(
    runId: string,
    by: string,
    { outcome, error, rows, warnings }: RunEnd,
    kept: number,
  ): Promise<RunRow | null> {
    const results = await this.pool.run([
      BEGIN,
      sql`UPDATE cdp.schedule_runs SET ended_at = now(), outcome = ${outcome}, error = ${error}, rows = ${rows},
            warnings = ${warnings.length === 0 ? null : JSON.stringify(warnings)}::jsonb
          WHERE id = (SELECT run_id FROM cdp.schedules WHERE run_id = ${runId} AND claimed_by = ${by} FOR UPDATE)
          RETURNING ${RUN_JSON}`,
      sql`DELETE FROM cdp.schedule_runs WHERE id IN (
            SELECT old.id FROM cdp.schedule_runs this JOIN cdp.schedule_runs old USING (project_id, kind, schedule)
            WHERE this.id = ${runId} ORDER BY old.started_at DESC OFFSET ${kept})`,
      sql`UPDATE cdp.schedules SET run_id = NULL, claimed_by = NULL, claimed_until = NULL
          WHERE run_id = ${runId} AND claimed_by = ${by}`,
      COMMIT,
    ]);
    const json = results[1]?.rows[0]?.[0];
    return json == null ? null : read(json);
  }

  /** For how many seconds the latest schedule has waited for an instance that begins it; 0: none waits. */
  async lateSeconds(): Promise<number> {
    const [late] = await this.pool.row(
      sql`SELECT coalesce(extract(epoch FROM now() - least(min(next_at) FILTER (WHERE run_id IS NULL), min(claimed_until))), 0)
          FROM cdp.schedules WHERE (run_id IS NULL AND next_at <= now()) OR (run_id IS NOT NULL AND claimed_until < now())`,
    );
    return Number(late);
  }
}

/** What decides when it runs. @param declaration SQL */
const timingOf = (declaration: string): Fragment =>
  sql`(SELECT jsonb_agg(value ORDER BY key) FROM jsonb_each(${trusted(declaration)}) WHERE key IN ('cron', 'every', 'timeZone'))`;
