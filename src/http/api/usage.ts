/** What projects use, by day, for an admin token. */
import { EngineError } from '../../contract/errors.js';
import { isDate } from '../../contract/calendar.js';
import { counted } from '../../contract/message-text.js';
import { COUNTERS, noUsage, type UsageCounts } from '../../contract/usage.js';
import * as wire from '../../contract/wire/usage.js';
import type { UsageRow } from '../../engine/usage/usage.js';
import { ADMIN, type Operation, succeeds } from './operation.js';

const COUNTS = { requests: 1280, rows_in: 250_000, rows_out: 1_900, bytes_in: 58_410_112, bytes_out: 912_004 };

const EXAMPLE: wire.UsageOfDay = {
  ...{ day: '2026-11-30', project: 'shop', project_id: '0b0f8a9c-7d0e-4a5f-9d6e-2f6f0c1c2d3e' },
  ...{ ...COUNTS, statement_seconds: 41.207, bytes_stored: 104_857_600, server_seconds: 7_260.5 },
  ways: { api: { ...COUNTS, statement_seconds: 41.207 } },
};

export const READ_USAGE: Operation = {
  ...ADMIN,
  method: 'GET',
  url: '/api/cdp/admin/usage',
  operationId: 'readUsage',
  summary: 'Read what projects have used, by day',
  description:
    'By day (UTC), then by project, with what they did by each way in. Counts are at most a minute old. Give `month`, or `from` and ' +
    '`to`; default: this month. If `next` is not null, send it as `after` to get the next page.',
  audit: { operation: 'usage.read', isChange: false },
  query: wire.UsageQuery,
  success: succeeds(200, wire.UsageResponse, '1 day of a project', {
    ...{ from: '2026-11-01', to: '2026-11-30' },
    usage: [EXAMPLE],
    next: null,
  }),
  errors: [],
  async handle({ engine, request }) {
    const query = request.query as wire.UsageQuery;
    const { project, after } = query;
    const { from, to } = daysOf(query);
    const limit = Number(query.limit ?? 1000);
    const [day = '', projectId = ''] = after?.split('_') ?? [];
    const place = after === undefined ? undefined : { day: dayOf('after', day), projectId };
    // One more, to see whether there is a next page.
    const rows = await engine.usage.read({ from, to, project, after: place, limit: limit + 1 });
    const usage = rows.slice(0, limit).map(shown);
    const last = rows.length > limit ? usage.at(-1) : undefined;
    const next = last === undefined ? null : `${last.day}_${last.project_id}`;
    const message = `${counted(usage.length, 'day')} of projects`;
    return { body: { success: true, message, from, to, usage, next } };
  },
};

/** @throws EngineError invalid_request */
function daysOf({ month, from, to }: wire.UsageQuery): { from: string; to: string } {
  if (month !== undefined && (from !== undefined || to !== undefined))
    throw new EngineError('invalid_request', 'Give either `month`, or `from` and `to`');
  if (month === undefined && from === undefined && to !== undefined)
    throw new EngineError('invalid_request', '`to` needs `from`');
  const today = new Date().toISOString().slice(0, 10);
  if (from === undefined) {
    const of = month ?? today.slice(0, 7);
    const lastDay = new Date(Date.UTC(Number(of.slice(0, 4)), Number(of.slice(5)), 0)).getUTCDate();
    return { from: `${of}-01`, to: `${of}-${lastDay}` };
  }
  const days = { from: dayOf('from', from), to: dayOf('to', to ?? today) };
  if (days.from > days.to) throw new EngineError('invalid_request', '`from` is after `to`');
  return days;
}

/** @throws EngineError invalid_request for a day that does not exist */
function dayOf(name: string, day: string): string {
  if (isDate(Number(day.slice(0, 4)), Number(day.slice(5, 7)), Number(day.slice(8)))) return day;
  throw new EngineError('invalid_request', `\`${name}\`: there is no day ${day}`);
}

const seconds = (ms: number): number => Math.round(ms) / 1_000;

const shownCounts = ({ statement_ms, ...counts }: UsageCounts) => ({
  ...counts,
  statement_seconds: seconds(statement_ms),
});

function shown({ day, project, project_id, bytes_stored, awake_ms, ways }: UsageRow): wire.UsageOfDay {
  const total = noUsage();
  for (const counts of Object.values(ways)) for (const name of COUNTERS) total[name] += counts[name];
  return {
    ...{ day, project, project_id, ...shownCounts(total), bytes_stored, server_seconds: seconds(awake_ms) },
    ways: Object.fromEntries(Object.entries(ways).map(([way, counts]) => [way, shownCounts(counts)])),
  };
}
