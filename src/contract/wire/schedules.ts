/** Schedules on the wire: SQL that the service runs at times that the project names (docs/schedules.md). */
import { LIMITS } from '../limits.js';
import { SAVED_NAME_IN_WORDS, SAVED_NAME_PATTERN } from '../names.js';
import { DOCUMENTED, STRICT, type Static, Type } from '../schema.js';
import { dryRunFields } from './dry-run.js';
import { success } from './fields.js';
import { Warning } from './sql.js';

/** What a project saves by name: schedules, queries, segments. */
export const SavedNameInPath = Type.Object({
  name: Type.String({ description: `${SAVED_NAME_IN_WORDS}.`, [DOCUMENTED]: { pattern: SAVED_NAME_PATTERN } }),
});

export const SavedSql = Type.String({
  minLength: 1,
  maxLength: LIMITS.savedSqlCharacters,
  examples: ["DELETE FROM events WHERE received_at < now() - interval '90 days'"],
});

export const MISSED = ['run_once', 'skip'] as const;

/** When it runs. */
export const timing = {
  cron: Type.Optional(
    Type.Nullable(
      Type.String({
        maxLength: 200,
        description: 'Minute, hour, day of the month, month, day of the week; or `@daily` and the like.',
        examples: ['0 3 * * *'],
      }),
    ),
  ),
  every: Type.Optional(
    Type.Nullable(
      Type.String({ maxLength: 20, description: 'Instead of `cron`: from `10s` to `366d`.', examples: ['15m'] }),
    ),
  ),
  time_zone: Type.Optional(
    Type.String({ maxLength: 100, description: 'Of `cron`. Default: `UTC`.', examples: ['Europe/Berlin'] }),
  ),
};

export const limits = {
  timeout_ms: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: LIMITS.scheduleTimeoutMsMax,
      description: `How long a run may take. Default: ${LIMITS.scheduleTimeoutMsDefault}.`,
    }),
  ),
  missed: Type.Optional(
    Type.Enum(MISSED, {
      description:
        'Of times that passed while no instance of the service ran, or the run before had not ended: `run_once` runs once for all ' +
        'of them, `skip` waits for the next time. Default: `run_once`.',
    }),
  ),
};

export const ScheduleBody = Type.Object(
  {
    sql: SavedSql,
    ...timing,
    ...limits,
    role: Type.Optional(
      Type.Nullable(
        Type.String({ maxLength: 63, description: 'A role of the project, as which it runs. Default: the writer.' }),
      ),
    ),
  },
  STRICT,
);
export type ScheduleBody = Static<typeof ScheduleBody>;

const Time = (description?: string) =>
  Type.Nullable(Type.String({ format: 'date-time', ...(description && { description }) }));

export const ScheduleRun = Type.Object({
  id: Type.String({ format: 'uuid' }),
  due_at: Time('When it was to begin; null: somebody asked for it.'),
  started_at: Type.String({ format: 'date-time' }),
  ended_at: Time('null: it has not ended.'),
  duration_ms: Type.Nullable(Type.Integer()),
  outcome: Type.Nullable(Type.String({ description: '`ok`, or the code of the error.' })),
  error: Type.Nullable(Type.String()),
  rows: Type.Nullable(Type.Integer({ description: 'Rows of its last statement: affected, or returned.' })),
  missed: Type.Integer({ description: 'Earlier scheduled times that it stands for.' }),
  attempts: Type.Integer({ description: 'More than 1: an instance of the service died while it ran.' }),
  warnings: Type.Optional(Type.Array(Warning)),
});
export type ScheduleRun = Static<typeof ScheduleRun>;

/** Also what a segment has. Not a schema by itself. */
export const scheduleFields = {
  name: Type.String(),
  sql: Type.String(),
  cron: Type.Nullable(Type.String()),
  every: Type.Nullable(Type.String()),
  time_zone: Type.String(),
  timeout_ms: Type.Integer(),
  role: Type.Nullable(Type.String()),
  missed: Type.Enum(MISSED),
  paused: Type.Boolean(),
  next_run_at: Time('null: it is paused.'),
  running: Type.Boolean(),
  missed_count: Type.Integer({ description: 'Scheduled times that have passed without a run of their own.' }),
  created_at: Type.String({ format: 'date-time' }),
  created_by: Type.String(),
  updated_at: Type.String({ format: 'date-time' }),
  updated_by: Type.String(),
  last_run: Type.Nullable(ScheduleRun),
};

export const Schedule = Type.Object(scheduleFields);
export type Schedule = Static<typeof Schedule>;

export const ScheduleResponse = Type.Object({ ...success, schedule: Schedule });
export type ScheduleResponse = Static<typeof ScheduleResponse>;

export const SchedulesResponse = Type.Object({ ...success, schedules: Type.Array(Schedule) });
export type SchedulesResponse = Static<typeof SchedulesResponse>;

export const DetailedSchedule = Type.Object({
  ...scheduleFields,
  runs: Type.Array(ScheduleRun, { description: `The last ${LIMITS.runsKept}, the newest first.` }),
});
export type DetailedSchedule = Static<typeof DetailedSchedule>;

export const DetailedScheduleResponse = Type.Object({ ...success, schedule: DetailedSchedule });
export type DetailedScheduleResponse = Static<typeof DetailedScheduleResponse>;

export const DeleteScheduleResponse = Type.Object({ ...success, schedule: Type.String() });
export type DeleteScheduleResponse = Static<typeof DeleteScheduleResponse>;

export const RunScheduleResponse = Type.Object({
  ...success,
  run: Type.Optional(ScheduleRun),
  rows: Type.Optional(Type.Integer({ description: 'Of a dry run; of a segment: its changes.' })),
  ...dryRunFields,
});
export type RunScheduleResponse = Static<typeof RunScheduleResponse>;
