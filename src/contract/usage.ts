/** What is counted of a project's use, day by day: the declaration from which memory, table, response and commands follow. */

/** The ways in. `copy` is COPY at the Postgres port, `postgres` everything else there. */
export const WAYS = ['api', 'sql', 'streams', 'events', 'postgres', 'copy'] as const;
export type Way = (typeof WAYS)[number];

/** Counted for each way. */
export const USAGE_COUNTERS = {
  requests: 'Requests that have ended; at the Postgres port, statements.',
  rows_in: 'Rows inserted, changed and deleted.',
  rows_out: 'Rows returned.',
  bytes_in: 'Bytes received, with the heads of requests.',
  bytes_out: 'Bytes sent, with the heads of responses.',
  statement_ms: 'Time in which a connection to Postgres worked for requests, in milliseconds.',
} as const;
export type UsageCounter = keyof typeof USAGE_COUNTERS;
export type UsageCounts = Record<UsageCounter, number>;

export const COUNTERS = Object.keys(USAGE_COUNTERS) as UsageCounter[];

export const noUsage = (): UsageCounts => ({
  ...{ requests: 0, rows_in: 0, rows_out: 0, bytes_in: 0, bytes_out: 0, statement_ms: 0 },
});
