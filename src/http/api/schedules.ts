/** Schedules: SQL that the service runs at times that the project names (docs/schedules.md). Roles have none. */
import * as wire from '../../contract/wire/schedules.js';
import { declarationOf, shownSchedule } from '../../engine/schedules/schedules.js';
import type { Project } from '../../db/project.js';
import { auditOriginOf } from '../observability/audit-request.js';
import type { Call } from '../route.js';
import { projectOfOwner } from './call-inputs.js';
import { type Operation, succeeds } from './operation.js';
import { COMMON, nameInPath, RUN, timedOperations } from './timed.js';

/** @throws EngineError insufficient_scope */
const ownProject = (call: Call): Project => projectOfOwner(call, ', and what runs by itself is no matter of roles');

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

const { list, read, run, pause, resume } = timedOperations({
  word: 'schedule',
  responses: {
    one: wire.ScheduleResponse,
    all: wire.SchedulesResponse,
    detailed: wire.DetailedScheduleResponse,
  },
  example: EXAMPLE,
  run: {
    summary: 'Run a schedule now',
    description:
      'Whatever its next time is, and whether or not it is paused. The response comes when the run has ended, or after 30 seconds, while it ' +
      'goes on. A run that fails is answered by its error. A dry run is rolled back, and leaves no run.',
  },
  projectOf: ownProject,
  of: ({ schedules }) => schedules,
  shown: shownSchedule,
});

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

export const SCHEDULES: readonly Operation[] = [SAVE_SCHEDULE, list, read, run, pause, resume, DELETE_SCHEDULE];
