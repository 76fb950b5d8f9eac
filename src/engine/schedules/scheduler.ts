/**
 * Runs the schedules of all projects. Every instance looks for what is due; whichever claims a run first in the control database has
 * it, and says that it is alive while it works. If it dies, another instance, or its successor, does the same run again: an
 * Idempotency-Key, the id of the run, lets it commit once.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { BY_ITSELF } from '../../contract/audit.js';
import { EngineError, isOutage, messageOf } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import type { ScheduleRun } from '../../contract/wire/schedules.js';
import { idempotencyKey } from '../../db/idempotency.js';
import type { Project } from '../../db/project.js';
import type { Log } from '../../log.js';
import { runPeriodically } from '../../tasks.js';
import type { ControlDatabase } from '../../tenancy/control/control.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import type { DueRow, RunEnd, RunRow, ScheduleRow } from '../../tenancy/control/schedule-rows.js';
import type { Audit } from '../audit/audit.js';
import { countSql } from '../sql/count-sql.js';
import type { SqlServices } from '../sql/run-sql.js';
import { WarningCollector } from '../sql/warning-collector.js';
import { segmentSql } from '../segments/segment-sql.js';
import { loadTimes, requireRole, shownRun } from './schedules.js';

const LOOK_EVERY_MS = 1_000;
const RENEW_EVERY_MS = 10_000;

/** Runs at once: of all projects, and of one, which keeps its other slots for requests. */
const AT_ONCE = 8;
const OF_PROJECT = 2;

/** A time is missed if it is later than this; less is the look of an instance, or a restart. */
const MISSED_AFTER_MS = 60_000;

/** How often a run is begun whose instance dies, lest it be what kills them. */
const MAX_ATTEMPTS = 3;

/** How long a run tries again while the machine is full, a server is away or a project moves. */
const PATIENCE_MS = 300_000;
const FIRST_PAUSE_MS = 1_000;
const MAX_PAUSE_MS = 30_000;

/** How long a caller who asked for a run waits for its end. */
const ANSWER_AFTER_MS = 30_000;

interface SchedulerServices {
  readonly control: ControlDatabase;
  readonly audit: Audit;
  readonly log: Log;
  readonly sql: SqlServices;
  /** As the role, or the writer. @throws EngineError */
  admit(row: ProjectRow, role: string | null): Project;
}

/** A run of this instance. */
interface OwnRun {
  readonly projectId: string;
  readonly stop: AbortController;
  readonly ended: Promise<Ended>;
}

interface Ended {
  readonly run: RunRow | null;
  /** null: it succeeded. */
  readonly error: EngineError | null;
}

/** What a run of a schedule executes. */
function sqlToRun({ kind, name, declaration }: ScheduleRow, { schema }: Project, runId: string): string {
  const { sql: query, maxChange = null } = declaration;
  return kind === 'schedule' ? query : segmentSql({ schema, segment: name, query, runId, maxChange });
}

/** Whatever `max_change` says. */
const unguarded = (schedule: ScheduleRow): ScheduleRow => ({
  ...schedule,
  declaration: { ...schedule.declaration, maxChange: null },
});

/** The reason to stop a run that others may go on with. */
const STOPPING = new EngineError('overloaded', 'The service is stopping');

/** The reason to stop a run that has no schedule any more, or that another instance has. */
const LOST = new EngineError('query_timeout', 'The schedule was deleted, or another instance has its run');

export class Scheduler {
  /** This instance, among those of the installation. */
  private readonly id = randomUUID();
  private readonly runs = new Map<string, OwnRun>();
  private stopLooking = () => {};
  private isClosed = false;

  constructor(private readonly services: SchedulerServices) {}

  start(): void {
    const { log } = this.services;
    const ends = [
      runPeriodically(LOOK_EVERY_MS, 'run_schedules', () => this.look(), log, { isFirstNow: true }),
      runPeriodically(RENEW_EVERY_MS, 'keep_schedules', () => this.renew(), log),
    ];
    this.stopLooking = () => ends.forEach((end) => end());
  }

  /** Cancels what runs, and leaves it to others. */
  async close(): Promise<void> {
    this.isClosed = true;
    this.stopLooking();
    for (const { stop } of this.runs.values()) stop.abort(STOPPING);
    await Promise.all([...this.runs.values()].map(({ ended }) => ended));
  }

  /**
   * Runs a schedule now, whatever its next time is, and waits for its end, but not for longer than {@link ANSWER_AFTER_MS}.
   * @param isForced it may change any number of a segment's members
   * @throws EngineError request_in_flight if it runs; that of the run
   */
  async runNow(schedule: ScheduleRow, isForced: boolean): Promise<ScheduleRun> {
    const claim = { runId: randomUUID(), by: this.id, due: null, nextAt: null, missed: 0, isForced };
    const run = await this.services.control.schedules.claim(schedule, claim);
    if (run === null) {
      throw new EngineError('request_in_flight', 'The schedule runs now, and never twice at once', {
        hint: 'Its last run shows when it began.',
      });
    }
    const ended = await Promise.race([
      this.begin(isForced ? unguarded(schedule) : schedule, run),
      sleep(ANSWER_AFTER_MS, null, { ref: false }),
    ]);
    if (ended?.error) throw ended.error;
    return shownRun(ended?.run ?? run);
  }

  /** Runs its SQL and rolls it back. @param project in a dry run @returns the rows @throws EngineError that of the run */
  async dryRun(schedule: ScheduleRow, project: Project, isForced: boolean, signal: AbortSignal): Promise<number> {
    const { timeoutMs, role } = schedule.declaration;
    const sql = sqlToRun(isForced ? unguarded(schedule) : schedule, project, randomUUID());
    await requireRole(this.services.control, project, role);
    const request = { sql, params: [], readOnly: false, timeoutMs, signal };
    return countSql(this.services.sql, project.asRole(role), request);
  }

  private async look(): Promise<void> {
    const room = AT_ONCE - this.runs.size;
    if (room <= 0) return;
    const projects = [...this.runs.values()].map(({ projectId }) => projectId);
    const busy = projects.filter((id) => projects.filter((one) => one === id).length >= OF_PROJECT);
    for (const due of await this.services.control.schedules.due(busy, room)) {
      if (this.isClosed) return;
      if (due.schedule.runId === null) await this.claim(due);
      else await this.takeOver(due.schedule, due.schedule.runId);
    }
  }

  private async claim({ schedule, due, now }: DueRow): Promise<void> {
    const { control } = this.services;
    const { declaration, nextAt: dueAt } = schedule;
    if (dueAt === null) return;
    const { timesOf } = await loadTimes();
    const { count: missed, next: nextAt } = timesOf(declaration).passed(dueAt, now);
    const isMissed = missed > 0 || now.getTime() - dueAt.getTime() > MISSED_AFTER_MS;
    if (isMissed && declaration.missed === 'skip') return control.schedules.skip(schedule, due, nextAt, missed + 1);
    const claim = { runId: randomUUID(), by: this.id, due, nextAt, missed };
    const run = await control.schedules.claim(schedule, claim);
    if (run !== null) void this.begin(schedule, run);
  }

  private async takeOver(schedule: ScheduleRow, runId: string): Promise<void> {
    const run = await this.services.control.schedules.takeOver(schedule, runId, this.id);
    const isForced = schedule.declaration.forcedRun === runId;
    if (run !== null) void this.begin(isForced ? unguarded(schedule) : schedule, run);
  }

  private begin(schedule: ScheduleRow, run: RunRow): Promise<Ended> {
    const stop = new AbortController();
    const ended = this.finish(schedule, run, stop.signal).finally(() => this.runs.delete(run.id));
    this.runs.set(run.id, { projectId: schedule.projectId, stop, ended });
    return ended;
  }

  /** Never rejects. */
  private async finish(schedule: ScheduleRow, run: RunRow, signal: AbortSignal): Promise<Ended> {
    const { audit, control, log } = this.services;
    const startedAt = performance.now();
    const { end, error, project } = await this.work(schedule, run, signal);
    try {
      if (signal.reason === STOPPING && end.outcome !== 'ok') {
        await control.schedules.release(run.id, this.id);
        return { run: null, error };
      }
      audit.record(
        { ...BY_ITSELF, startedAt },
        {
          ...{ operation: 'run_schedule', object: schedule.name, statement: schedule.declaration.sql, rows: end.rows },
          ...{ outcome: end.outcome, project },
        },
      );
      return { run: await control.schedules.end(run.id, this.id, end, LIMITS.runsKept), error };
    } catch (failure) {
      // Whoever takes it over finds what it has stored under its key, and notes that.
      log.warn({ error: messageOf(failure) }, 'the end of a scheduled run could not be stored');
      return { run: null, error };
    }
  }

  /** Never rejects. */
  private async work(
    schedule: ScheduleRow,
    run: RunRow,
    signal: AbortSignal,
  ): Promise<{ end: RunEnd; error: EngineError | null; project: ProjectRow | null }> {
    // Of the last attempt.
    let collector = new WarningCollector();
    let project: ProjectRow | null = null;
    try {
      if (run.attempts > MAX_ATTEMPTS) {
        throw new EngineError('outcome_unknown', `The service died ${MAX_ATTEMPTS} times while it ran`);
      }
      const rows = await this.withPatience(signal, async () => {
        project = await this.activeProject(schedule.projectId);
        collector = new WarningCollector();
        return this.runSql(schedule, run, project, collector, signal);
      });
      return { end: { outcome: 'ok', error: null, rows, warnings: collector.all }, error: null, project };
    } catch (thrown) {
      const error =
        thrown instanceof EngineError
          ? thrown
          : new EngineError('internal', 'It failed in the service', { cause: thrown });
      if (error.code === 'internal')
        this.services.log.error({ error: messageOf(thrown) }, 'a scheduled run failed in the service');
      const text = error.message.slice(0, LIMITS.runErrorCharacters).replace(/[\0\p{Cs}]/gu, '\uFFFD');
      return { end: { outcome: error.code, error: text, rows: null, warnings: collector.all }, error, project };
    }
  }

  /** @throws EngineError cdp_inactive, not_found */
  private async activeProject(id: string): Promise<ProjectRow> {
    const row = await this.services.control.projects.find('id', id);
    if (row === null || row.status === 'deleting') throw new EngineError('not_found', 'The project was deleted');
    if (row.status !== 'active') throw new EngineError('cdp_inactive', 'The CDP is inactive for this project');
    return row;
  }

  private async runSql(
    schedule: ScheduleRow,
    { id }: RunRow,
    row: ProjectRow,
    warnings: WarningCollector,
    signal: AbortSignal,
  ): Promise<number> {
    const { name, declaration } = schedule;
    const { timeoutMs, role } = declaration;
    const project = this.services.admit(row, role);
    await requireRole(this.services.control, project, role);
    const sql = sqlToRun(schedule, project, id);
    // The run is the same if its SQL was replaced since another instance began it.
    const key = idempotencyKey(id, `run of the ${schedule.kind} ${name}`, '', Buffer.from(id), 1);
    const request = { sql, params: [], readOnly: false, timeoutMs, signal, warnings };
    try {
      return await countSql(this.services.sql, project, { ...request, key });
    } catch (error) {
      // VACUUM and others that Postgres runs only outside a transaction, where no key can be: they may run twice.
      if (!(error instanceof EngineError && error.code === 'statement_not_allowed')) throw error;
      return countSql(this.services.sql, project, request);
    }
  }

  /** Tries again while others are in the way. */
  private async withPatience<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const until = performance.now() + PATIENCE_MS;
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, MAX_PAUSE_MS)) {
      try {
        return await work();
      } catch (error) {
        if (signal.aborted || !mayPass(error) || performance.now() + pause > until) throw error;
        // Its end is that of the loop.
        await sleep(pause, undefined, { signal }).catch(() => {});
        if (signal.aborted) throw error;
      }
    }
  }

  private async renew(): Promise<void> {
    if (this.runs.size === 0) return;
    const ids = [...this.runs.keys()];
    const held = await this.services.control.schedules.renew(this.id, ids);
    // One that has just ended is no longer among the runs.
    for (const id of ids) if (!held.has(id)) this.runs.get(id)?.stop.abort(LOST);
  }
}

const PASSING: ReadonlySet<string> = new Set(['overloaded', 'table_busy', 'request_in_flight', 'outcome_unknown']);

const mayPass = (error: unknown): boolean =>
  error instanceof EngineError && (isOutage(error) || PASSING.has(error.code));
