/** Schedules: SQL that the service runs at times that the project names (docs/schedules.md). Roles have none. */
import { counted } from '../../contract/message-text.js';
import * as wire from '../../contract/wire/schedules.js';
import type { Project } from '../../db/project.js';
import { declarationOf, shownSchedule } from '../../engine/schedules/schedules.js';
import { auditOriginOf } from '../observability/audit-request.js';
import type { Call } from '../route.js';
import { projectOfOwner } from './call-inputs.js';
import { type Operation, SQL_ERRORS, succeeds } from './operation.js';

const nameInPath = ({ request }: Call): string => (request.params as { name: string }).name;

/** @throws EngineError insufficient_scope */
const ownProject = (call: Call): Project => projectOfOwner(call, ', and what runs by itself is no matter of roles');

const RUN: wire.ScheduleRun = {
  id: '0b8f5ff6-9f43-4f43-9f3c-0c1b6a2f5c11',
  due_at: '2026-01-31T02:00:00.000Z',
  started_at: '2026-01-31T02:00:00.412Z',
  ended_at: '2026-01-31T02:00:01.090Z',
  duration_ms: 678,
  outcome: 'ok',
  error: null,
  rows: 1204,
  missed: 0,
  attempts: 1,
};

const EXAMPLE: wire.Schedule = {
  name: 'retention',
  sql: "DELETE FROM events WHERE received_at < now() - interval '90 days'",
  cron: '0 3 * * *',
  every: null,
  time_zone: 'Europe/Berlin',
  timeout_ms: 300_000,
  role: null,
  missed: 'run_once',
  paused: false,
  next_run_at: '2026-02-01T02:00:00.000Z',
  running: false,
  missed_count: 0,
  created_at: '2026-01-30T09:30:00.000Z',
  created_by: 'token ada',
  updated_at: '2026-01-30T09:30:00.000Z',
  updated_by: 'token ada',
  last_run: RUN,
};

const COMMON = { access: ['sql:write'], tag: 'sql', params: wire.SavedNameInPath } as const;

const SAVE_SCHEDULE: Operation = {
  ...COMMON,
  method: 'PUT',
  url: '/api/cdp/schedules/:name',
  operationId: 'saveSchedule',
  summary: 'Make or replace a schedule',
  description:
    'Its SQL runs as one transaction at the times of `cron` or `every`, also while nobody uses the project. Of several instances of the ' +
    'service one runs it, and no run begins before the one before has ended.',
  audit: { operation: 'save_schedule', isChange: true },
  writesEntry: true,
  slot: null,
  body: wire.ScheduleBody,
  example: { sql: EXAMPLE.sql, cron: EXAMPLE.cron, time_zone: EXAMPLE.time_zone },
  success: succeeds(200, wire.ScheduleResponse, 'schedule saved', { schedule: { ...EXAMPLE, last_run: null } }),
  errors: ['invalid_name', 'not_found', 'sql_error', 'statement_not_allowed', 'outcome_unknown'],
  async handle(call) {
    const { request, engine, signal } = call;
    const body = request.body as wire.ScheduleBody;
    const by = auditOriginOf(request);
    const saved = await engine.schedules.save(ownProject(call), nameInPath(call), declarationOf(body), by, signal);
    return { body: { success: true, message: 'schedule saved', schedule: shownSchedule(saved) } };
  },
};

const LIST_SCHEDULES: Operation = {
  method: 'GET',
  url: '/api/cdp/schedules',
  access: ['sql:write'],
  operationId: 'listSchedules',
  summary: 'List the schedules, with the last run of each',
  tag: 'sql',
  audit: { operation: 'list_schedules', isChange: false, isPolled: true },
  slot: null,
  success: succeeds(200, wire.SchedulesResponse, '1 schedule', { schedules: [EXAMPLE] }),
  errors: [],
  async handle(call) {
    const schedules = (await call.engine.schedules.list(ownProject(call))).map(shownSchedule);
    return { body: { success: true, message: counted(schedules.length, 'schedule'), schedules } };
  },
};

const READ_SCHEDULE: Operation = {
  ...COMMON,
  method: 'GET',
  url: '/api/cdp/schedules/:name',
  operationId: 'readSchedule',
  summary: 'Show a schedule with its last runs',
  audit: { operation: 'read_schedule', isChange: false, isPolled: true },
  slot: null,
  success: succeeds(200, wire.DetailedScheduleResponse, 'schedule found', { schedule: { ...EXAMPLE, runs: [RUN] } }),
  errors: ['not_found'],
  async handle(call) {
    const { schedule, runs } = await call.engine.schedules.show(ownProject(call), nameInPath(call));
    return { body: { success: true, message: 'schedule found', schedule: { ...shownSchedule(schedule), runs } } };
  },
};

const RUN_SCHEDULE: Operation = {
  ...COMMON,
  method: 'POST',
  url: '/api/cdp/schedules/:name/run',
  operationId: 'runSchedule',
  summary: 'Run a schedule now',
  description:
    'Whatever its next time is, and whether or not it is paused. The response comes when the run has ended, or after 30 seconds, while it ' +
    'goes on. A run that fails is answered by its error. A dry run is rolled back, and leaves no run.',
  audit: { operation: 'start_schedule', isChange: true },
  hasDryRun: true,
  slot: 'sql',
  success: succeeds(200, wire.RunScheduleResponse, 'run ended', { run: { ...RUN, due_at: null } }),
  errors: ['not_found', 'request_in_flight', ...SQL_ERRORS],
  async handle(call) {
    const { engine, signal } = call;
    const project = ownProject(call);
    const schedule = await engine.schedules.find(project, nameInPath(call));
    if (project.dryRun !== null) {
      const rows = await engine.scheduler.dryRun(schedule, project, signal);
      return { body: { success: true, message: 'dry run', rows } };
    }
    const run = await engine.scheduler.runNow(schedule);
    return { body: { success: true, message: run.ended_at === null ? 'run started' : 'run ended', run } };
  },
};

const PAUSE_SCHEDULE: Operation = {
  ...COMMON,
  method: 'POST',
  url: '/api/cdp/schedules/:name/pause',
  operationId: 'pauseSchedule',
  summary: 'Let a schedule wait until it is resumed',
  audit: { operation: 'pause_schedule', isChange: true },
  writesEntry: true,
  slot: null,
  success: succeeds(200, wire.ScheduleResponse, 'schedule paused', {
    schedule: { ...EXAMPLE, paused: true, next_run_at: null },
  }),
  errors: ['not_found', 'outcome_unknown'],
  async handle(call) {
    const schedule = await call.engine.schedules.pause(ownProject(call), nameInPath(call), auditOriginOf(call.request));
    return { body: { success: true, message: 'schedule paused', schedule: shownSchedule(schedule) } };
  },
};

const RESUME_SCHEDULE: Operation = {
  ...COMMON,
  method: 'POST',
  url: '/api/cdp/schedules/:name/resume',
  operationId: 'resumeSchedule',
  summary: 'Resume a schedule from its next time on',
  audit: { operation: 'resume_schedule', isChange: true },
  writesEntry: true,
  slot: null,
  success: succeeds(200, wire.ScheduleResponse, 'schedule resumed', { schedule: EXAMPLE }),
  errors: ['not_found', 'outcome_unknown'],
  async handle(call) {
    const schedule = await call.engine.schedules.resume(
      ownProject(call),
      nameInPath(call),
      auditOriginOf(call.request),
    );
    return { body: { success: true, message: 'schedule resumed', schedule: shownSchedule(schedule) } };
  },
};

const DELETE_SCHEDULE: Operation = {
  ...COMMON,
  method: 'DELETE',
  url: '/api/cdp/schedules/:name',
  operationId: 'deleteSchedule',
  summary: 'Delete a schedule with its runs',
  description: 'A run that has not ended is canceled within some seconds.',
  audit: { operation: 'delete_schedule', isChange: true },
  writesEntry: true,
  slot: null,
  success: succeeds(200, wire.DeleteScheduleResponse, 'schedule deleted', { schedule: EXAMPLE.name }),
  errors: ['not_found', 'outcome_unknown'],
  async handle(call) {
    const name = nameInPath(call);
    await call.engine.schedules.delete(ownProject(call), name, auditOriginOf(call.request));
    return { body: { success: true, message: 'schedule deleted', schedule: name } };
  },
};

export const SCHEDULES: readonly Operation[] = [
  SAVE_SCHEDULE,
  LIST_SCHEDULES,
  READ_SCHEDULE,
  RUN_SCHEDULE,
  PAUSE_SCHEDULE,
  RESUME_SCHEDULE,
  DELETE_SCHEDULE,
];
