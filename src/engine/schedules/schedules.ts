/** The schedules of a project, or its segments: saving, listing, pausing and deleting them. `scheduler.ts` runs them. */
import type { AuditOrigin } from '../../contract/audit.js';
import { awaited, checkAll } from '../../contract/error-collector.js';
import { EngineError } from '../../contract/errors.js';
import { didYouMean } from '../../contract/did-you-mean.js';
import { LIMITS } from '../../contract/limits.js';
import { quoted } from '../../contract/message-text.js';
import { isSavedName, SAVED_NAME_IN_WORDS } from '../../contract/names.js';
import type { Schedule, ScheduleBody, ScheduleRun } from '../../contract/wire/schedules.js';
import type { Project } from '../../db/project.js';
import type { ControlDatabase } from '../../tenancy/control/control.js';
import type {
  Declaration,
  RunRow,
  ScheduleKey,
  ScheduleKind,
  ScheduleRow,
} from '../../tenancy/control/schedule-rows.js';
import { type Audit, authorOf } from '../audit/audit.js';
import type { Splitter } from '../parser/splitter.js';
import { checkSql } from '../sql/check-sql.js';

export interface ScheduleServices {
  readonly control: ControlDatabase;
  readonly audit: Audit;
  readonly splitter: Splitter;
}

/** Those of one kind. */
export class Schedules {
  constructor(
    protected readonly services: ScheduleServices,
    private readonly kind: ScheduleKind,
  ) {}

  /** By name. @throws EngineError database_unavailable */
  list(project: Project): Promise<ScheduleRow[]> {
    return this.services.control.schedules.list(project.id, this.kind);
  }

  /** The last runs of one. @throws EngineError not_found */
  async show(project: Project, name: string): Promise<{ schedule: ScheduleRow; runs: ScheduleRun[] }> {
    const schedule = await this.find(project, name);
    const runs = await this.services.control.schedules.runs(schedule);
    return { schedule, runs: runs.map(shownRun) };
  }

  /** @throws EngineError not_found */
  async find(project: Project, name: string): Promise<ScheduleRow> {
    return (
      (await this.services.control.schedules.find(this.keyOf(project, name))) ?? (await this.unknown(project, name))
    );
  }

  /**
   * Makes or replaces one.
   * @throws EngineError invalid_name, invalid_request, sql_error, statement_not_allowed, not_found if the project has no such role
   */
  async save(
    project: Project,
    name: string,
    declaration: Declaration,
    by: AuditOrigin,
    signal: AbortSignal,
  ): Promise<ScheduleRow> {
    const { control, audit } = this.services;
    const { checkTimeZone, timesOf } = await loadTimes();
    const [, , times, sql] = checkAll(
      () => checkSavedName(name),
      () => checkTimeZone(declaration),
      () => timesOf(declaration),
      await awaited(this.checkedSql(project, declaration.sql, signal)),
    );
    await requireRole(control, project, declaration.role);
    const options = { nextAt: times.next(new Date()), by: authorOf(by), most: LIMITS.schedulesPerProject };
    const entry = audit.entryOfChange(by, { operation: `save_${this.kind}`, object: name });
    const saved = await control.schedules.save(this.keyOf(project, name), { ...declaration, sql }, options, entry);
    if (saved !== null) return saved;
    throw new EngineError(
      'invalid_request',
      `The project has ${LIMITS.schedulesPerProject} schedules and segments, which is the maximum`,
    );
  }

  /** @returns the SQL to store @throws EngineError those of `checkSql` */
  protected async checkedSql(project: Project, sql: string, signal: AbortSignal): Promise<string> {
    const parameters = await checkSql(this.services.splitter, project, sql, signal);
    if (parameters) throw new EngineError('invalid_request', '"sql" has parameters, for which nobody gives values');
    return sql;
  }

  /** Lets it wait until it is resumed; a run that has begun goes on. @throws EngineError not_found */
  pause(project: Project, name: string, by: AuditOrigin): Promise<ScheduleRow> {
    return this.setNext(project, name, () => Promise.resolve(null), 'pause', by);
  }

  /** From its next time on: those in between are not made up for. @throws EngineError not_found */
  resume(project: Project, name: string, by: AuditOrigin): Promise<ScheduleRow> {
    const next = async ({ declaration, nextAt }: ScheduleRow) =>
      nextAt ?? (await loadTimes()).timesOf(declaration).next(new Date());
    return this.setNext(project, name, next, 'resume', by);
  }

  /** A run that has not ended is canceled within seconds. @throws EngineError not_found */
  async delete(project: Project, name: string, by: AuditOrigin): Promise<void> {
    const { control, audit } = this.services;
    const entry = audit.entryOfChange(by, { operation: `delete_${this.kind}`, object: name });
    if (!(await control.schedules.delete(this.keyOf(project, name), entry))) await this.unknown(project, name);
  }

  private async setNext(
    project: Project,
    name: string,
    nextOf: (schedule: ScheduleRow) => Promise<Date | null>,
    change: 'pause' | 'resume',
    by: AuditOrigin,
  ): Promise<ScheduleRow> {
    const { control, audit } = this.services;
    const found = await this.find(project, name);
    const entry = audit.entryOfChange(by, { operation: `${change}_${this.kind}`, object: name });
    const changed = await control.schedules.setNext(found, await nextOf(found), entry);
    return changed ?? this.unknown(project, name);
  }

  private keyOf({ id }: Project, name: string): ScheduleKey {
    return { projectId: id, kind: this.kind, name };
  }

  private async unknown(project: Project, name: string): Promise<never> {
    const names = (await this.list(project)).map((schedule) => schedule.name);
    throw new EngineError('not_found', `The project has no ${this.kind} ${quoted(name)}`, {
      hint: didYouMean(name, names),
    });
  }
}

/** Loaded on demand: few services have schedules. */
export const loadTimes = () => import('./times.js');

/** With the defaults of what the body leaves out. */
export const declarationOf = (body: ScheduleBody): Declaration => ({
  sql: body.sql,
  cron: body.cron ?? null,
  every: body.every ?? null,
  timeZone: body.time_zone ?? 'UTC',
  timeoutMs: body.timeout_ms ?? LIMITS.scheduleTimeoutMsDefault,
  role: body.role ?? null,
  missed: body.missed ?? 'run_once',
});

/** @throws EngineError invalid_name */
export function checkSavedName(name: string): void {
  if (isSavedName(name)) return;
  throw new EngineError('invalid_name', `${quoted(name)} is not a valid name: it must be ${SAVED_NAME_IN_WORDS}`);
}

/** @throws EngineError not_found */
export async function requireRole(
  { roles }: Pick<ControlDatabase, 'roles'>,
  { id }: Pick<Project, 'id'>,
  role: string | null,
): Promise<void> {
  if (role === null || (await roles.exists(id, role))) return;
  throw new EngineError('not_found', `The project has no role ${quoted(role)}`);
}

export const shownSchedule = (row: ScheduleRow): Schedule => {
  const { sql, cron, every, timeZone, timeoutMs, role, missed } = row.declaration;
  return {
    name: row.name,
    sql,
    cron,
    every,
    time_zone: timeZone,
    timeout_ms: timeoutMs,
    role,
    missed,
    paused: row.nextAt === null,
    next_run_at: row.nextAt?.toISOString() ?? null,
    running: row.runId !== null,
    missed_count: row.missed,
    created_at: row.createdAt.toISOString(),
    created_by: row.createdBy,
    updated_at: row.updatedAt.toISOString(),
    updated_by: row.updatedBy,
    last_run: row.lastRun && shownRun(row.lastRun),
  };
};

export const shownRun = (run: RunRow): ScheduleRun => ({
  id: run.id,
  due_at: run.dueAt?.toISOString() ?? null,
  started_at: run.startedAt.toISOString(),
  ended_at: run.endedAt?.toISOString() ?? null,
  duration_ms: run.endedAt === null ? null : run.endedAt.getTime() - run.startedAt.getTime(),
  outcome: run.outcome,
  error: run.error,
  rows: run.rows,
  missed: run.missed,
  attempts: run.attempts,
  ...(run.warnings === null ? {} : { warnings: [...run.warnings] }),
});
