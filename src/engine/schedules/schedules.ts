/** The schedules of a project: saving, listing, pausing and deleting them. `scheduler.ts` runs them. */
import type { AuditOrigin } from '../../contract/audit.js';
import { checkAll } from '../../contract/error-collector.js';
import { EngineError } from '../../contract/errors.js';
import { didYouMean } from '../../contract/did-you-mean.js';
import { LIMITS } from '../../contract/limits.js';
import { quoted } from '../../contract/message-text.js';
import { isSavedName, SAVED_NAME_IN_WORDS } from '../../contract/names.js';
import type { DetailedSchedule, Schedule, ScheduleBody, ScheduleRun } from '../../contract/wire/schedules.js';
import type { Project } from '../../db/project.js';
import type { ControlDatabase } from '../../tenancy/control/control.js';
import type { Declaration, RunRow, ScheduleKey, ScheduleRow } from '../../tenancy/control/schedule-rows.js';
import { type Audit, authorOf } from '../audit/audit.js';
import type { Splitter } from '../parser/splitter.js';
import { parsingRequestOf } from '../sql/run-sql.js';

interface ScheduleServices {
  readonly control: ControlDatabase;
  readonly audit: Audit;
  readonly splitter: Splitter;
}

export class Schedules {
  constructor(private readonly services: ScheduleServices) {}

  /** By name. @throws EngineError database_unavailable */
  async list(project: Project): Promise<Schedule[]> {
    return (await this.services.control.schedules.list(project.id, 'schedule')).map(shownSchedule);
  }

  /** With its last runs. @throws EngineError not_found */
  async show(project: Project, name: string): Promise<DetailedSchedule> {
    const schedule = await this.find(project, name);
    const runs = await this.services.control.schedules.runs(schedule);
    return { ...shownSchedule(schedule), runs: runs.map(shownRun) };
  }

  /** @throws EngineError not_found */
  async find(project: Project, name: string): Promise<ScheduleRow> {
    return (await this.services.control.schedules.find(keyOf(project, name))) ?? (await this.unknown(project, name));
  }

  /**
   * Makes or replaces a schedule.
   * @throws EngineError invalid_name, invalid_request, sql_error, statement_not_allowed, not_found if the project has no such role
   */
  async save(
    project: Project,
    name: string,
    body: ScheduleBody,
    by: AuditOrigin,
    signal: AbortSignal,
  ): Promise<Schedule> {
    const { control, audit, splitter } = this.services;
    const declaration = declarationOf(body);
    const { checkTimeZone, timesOf } = await loadTimes();
    const [, , times] = checkAll(
      () => checkSavedName(name),
      () => checkTimeZone(declaration.timeZone),
      () => timesOf(declaration),
    );
    // What no request may run would fail every night.
    await splitter.split(declaration.sql, parsingRequestOf(project, signal));
    await requireRole(control, project, declaration.role);
    const options = { nextAt: times.next(new Date()), by: authorOf(by), most: LIMITS.schedulesPerProject };
    const entry = audit.entryOfChange(by, { operation: 'save_schedule', object: name });
    const saved = await control.schedules.save(keyOf(project, name), declaration, options, entry);
    if (saved !== null) return shownSchedule(saved);
    throw new EngineError(
      'invalid_request',
      `The project has ${LIMITS.schedulesPerProject} schedules and segments, which is the maximum`,
    );
  }

  /** Lets it wait until it is resumed; a run that has begun goes on. @throws EngineError not_found */
  pause(project: Project, name: string, by: AuditOrigin): Promise<Schedule> {
    return this.setNext(project, name, () => Promise.resolve(null), 'pause_schedule', by);
  }

  /** From its next time on: those in between are not made up for. @throws EngineError not_found */
  resume(project: Project, name: string, by: AuditOrigin): Promise<Schedule> {
    const next = async ({ declaration, nextAt }: ScheduleRow) =>
      nextAt ?? (await loadTimes()).timesOf(declaration).next(new Date());
    return this.setNext(project, name, next, 'resume_schedule', by);
  }

  /** A run that has not ended is canceled within seconds. @throws EngineError not_found */
  async delete(project: Project, name: string, by: AuditOrigin): Promise<void> {
    const { control, audit } = this.services;
    const entry = audit.entryOfChange(by, { operation: 'delete_schedule', object: name });
    if (!(await control.schedules.delete(keyOf(project, name), entry))) await this.unknown(project, name);
  }

  private async setNext(
    project: Project,
    name: string,
    nextOf: (schedule: ScheduleRow) => Promise<Date | null>,
    operation: string,
    by: AuditOrigin,
  ): Promise<Schedule> {
    const { control, audit } = this.services;
    const found = await this.find(project, name);
    const entry = audit.entryOfChange(by, { operation, object: name });
    const changed = await control.schedules.setNext(found, await nextOf(found), entry);
    return shownSchedule(changed ?? (await this.unknown(project, name)));
  }

  private async unknown(project: Project, name: string): Promise<never> {
    const schedules = await this.services.control.schedules.list(project.id, 'schedule');
    const names = schedules.map((schedule) => schedule.name);
    throw new EngineError('not_found', `The project has no schedule ${quoted(name)}`, {
      hint: didYouMean(name, names),
    });
  }
}

/** Loaded on demand: few services have schedules. */
export const loadTimes = () => import('./times.js');

const keyOf = ({ id }: Project, name: string): ScheduleKey => ({ projectId: id, kind: 'schedule', name });

const declarationOf = (body: ScheduleBody): Declaration => ({
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

const shownSchedule = (row: ScheduleRow): Schedule => {
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
