/** What the API of schedules and that of segments have in common: both run at times that the project names. */
import { counted } from '../../contract/message-text.js';
import type { Schema } from '../../contract/schema.js';
import {
  RunScheduleResponse,
  SavedNameInPath,
  type Schedule,
  type ScheduleRun,
} from '../../contract/wire/schedules.js';
import type { Segment } from '../../contract/wire/segments.js';
import type { Project } from '../../db/project.js';
import type { Engine } from '../../engine/engine.js';
import type { Schedules, shownSchedule } from '../../engine/schedules/schedules.js';
import { auditOriginOf } from '../observability/audit-request.js';
import type { Call } from '../route.js';
import { type Operation, SQL_ERRORS, succeeds } from './operation.js';

interface Kind {
  /** In URLs, responses and the audit log. */
  readonly word: 'schedule' | 'segment';
  readonly responses: { readonly one: Schema; readonly all: Schema; readonly detailed: Schema };
  readonly example: Schedule | Segment;
  readonly run: Pick<Operation, 'summary' | 'description'> & { readonly query?: Schema };
  /** @throws EngineError insufficient_scope */
  readonly projectOf: (call: Call) => Project;
  readonly of: (engine: Engine) => Schedules;
  readonly shown: (row: Parameters<typeof shownSchedule>[0]) => Schedule | Segment;
}

export const nameInPath = ({ request }: Call): string => (request.params as { name: string }).name;

export const RUN: ScheduleRun = {
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

export const COMMON = { access: ['sql:write'], tag: 'sql', params: SavedNameInPath } as const;

/** All but saving and deleting, which mean more for a segment. */
export function timedOperations(kind: Kind): Record<'list' | 'read' | 'run' | 'pause' | 'resume', Operation> {
  const { word, responses, example, run, projectOf, of, shown } = kind;
  const [Word, words] = [word.replace('s', 'S'), `${word}s`];
  const url = `/api/cdp/${words}/:name`;

  /** @param change `pause` or `resume` */
  const waiting = (change: 'pause' | 'resume', summary: string, after: Partial<Schedule>): Operation => ({
    ...COMMON,
    method: 'POST',
    url: `${url}/${change}`,
    operationId: `${change}${Word}`,
    summary,
    audit: { operation: `${change}_${word}`, isChange: true },
    writesEntry: true,
    slot: null,
    success: succeeds(200, responses.one, `${word} ${change}d`, { [word]: { ...example, ...after } }),
    errors: ['not_found', 'outcome_unknown'],
    async handle(call) {
      const changed = await of(call.engine)[change](projectOf(call), nameInPath(call), auditOriginOf(call.request));
      return { body: { success: true, message: `${word} ${change}d`, [word]: shown(changed) } };
    },
  });

  return {
    list: {
      method: 'GET',
      url: `/api/cdp/${words}`,
      access: ['sql:write'],
      operationId: `list${Word}s`,
      summary: `List the ${words}, with the last run of each`,
      tag: 'sql',
      audit: { operation: `list_${words}`, isChange: false, isPolled: true },
      slot: null,
      success: succeeds(200, responses.all, `1 ${word}`, { [words]: [example] }),
      errors: [],
      async handle(call) {
        const all = (await of(call.engine).list(projectOf(call))).map(shown);
        return { body: { success: true, message: counted(all.length, word), [words]: all } };
      },
    },
    read: {
      ...COMMON,
      method: 'GET',
      url,
      operationId: `read${Word}`,
      summary: `Show a ${word} with its last runs`,
      audit: { operation: `read_${word}`, isChange: false, isPolled: true },
      slot: null,
      success: succeeds(200, responses.detailed, `${word} found`, { [word]: { ...example, runs: [RUN] } }),
      errors: ['not_found'],
      async handle(call) {
        const { schedule, runs } = await of(call.engine).show(projectOf(call), nameInPath(call));
        return { body: { success: true, message: `${word} found`, [word]: { ...shown(schedule), runs } } };
      },
    },
    run: {
      ...COMMON,
      ...run,
      method: 'POST',
      url: `${url}/run`,
      operationId: `run${Word}`,
      audit: { operation: `start_${word}`, isChange: true },
      hasDryRun: true,
      slot: 'sql',
      success: succeeds(200, RunScheduleResponse, 'run ended', { run: { ...RUN, due_at: null } }),
      errors: ['not_found', 'request_in_flight', ...SQL_ERRORS],
      async handle(call) {
        const { engine, request, signal } = call;
        const project = projectOf(call);
        const schedule = await of(engine).find(project, nameInPath(call));
        const isForced = (request.query as { force?: 'true' }).force === 'true';
        if (project.dryRun !== null) {
          const rows = await engine.scheduler.dryRun(schedule, project, isForced, signal);
          return { body: { success: true, message: 'dry run', rows } };
        }
        const done = await engine.scheduler.runNow(schedule, isForced);
        return { body: { success: true, message: done.ended_at === null ? 'run started' : 'run ended', run: done } };
      },
    },
    pause: waiting('pause', `Let a ${word} wait until it is resumed`, { paused: true, next_run_at: null }),
    resume: waiting('resume', `Resume a ${word} from its next time on`, {}),
  };
}
