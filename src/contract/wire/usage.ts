/** The use of projects by day on the wire. */
import { PROJECT_NAME_PATTERN } from '../names.js';
import { DAY, MONTH, PAGE_LIMIT, USAGE_PLACE } from '../patterns.js';
import { STRICT, type Static, Type } from '../schema.js';
import { USAGE_COUNTERS, WAYS } from '../usage.js';
import { success } from './fields.js';

export const UsageQuery = Type.Object(
  {
    month: Type.Optional(Type.String({ pattern: MONTH, description: 'All days of a month (UTC), such as `2026-11`.' })),
    from: Type.Optional(Type.String({ pattern: DAY, description: 'The first day (UTC), such as `2026-11-01`.' })),
    to: Type.Optional(Type.String({ pattern: DAY, description: 'The last day, inclusive. Default: today.' })),
    project: Type.Optional(
      Type.String({ pattern: PROJECT_NAME_PATTERN, description: 'Only this project, by its last name.' }),
    ),
    after: Type.Optional(Type.String({ pattern: USAGE_PLACE, description: '`next` of the page before.' })),
    limit: Type.Optional(Type.String({ pattern: PAGE_LIMIT, description: '1 to 1000; default 1000.' })),
  },
  STRICT,
);
export type UsageQuery = Static<typeof UsageQuery>;

const count = (description: string) => Type.Integer({ description });

const { statement_ms: _, ...counters } = USAGE_COUNTERS;
const Counts = {
  requests: count(counters.requests),
  rows_in: count(counters.rows_in),
  rows_out: count(counters.rows_out),
  bytes_in: count(counters.bytes_in),
  bytes_out: count(counters.bytes_out),
  statement_seconds: Type.Number({ description: 'Time in which a connection to Postgres worked for requests.' }),
};

export const UsageOfDay = Type.Object({
  day: Type.String({ format: 'date' }),
  project: Type.String({ description: 'Its last name; it may have been deleted since.' }),
  project_id: Type.String({ format: 'uuid' }),
  ...Counts,
  bytes_stored: Type.Nullable(Type.Integer({ description: 'The largest size of the day; null: it was not measured.' })),
  server_seconds: Type.Number({
    description: "How long the project's own Postgres server ran; 0 for a project on a shared one.",
  }),
  ways: Type.Record(Type.Object(Counts), {
    description: `The same counts by the way in, where there are any: ${WAYS.join(', ')}.`,
  }),
});
export type UsageOfDay = Static<typeof UsageOfDay>;

export const UsageResponse = Type.Object({
  ...success,
  from: Type.String({ format: 'date' }),
  to: Type.String({ format: 'date' }),
  usage: Type.Array(UsageOfDay, { description: 'By day, then by project.' }),
  next: Type.Nullable(Type.String({ description: 'Send it as `after` to get the next page.' })),
});
export type UsageResponse = Static<typeof UsageResponse>;
