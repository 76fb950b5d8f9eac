/** The quarantine of a project: records that were refused and kept. */
import type {
  DropQuarantineResponse,
  QuarantineGroup,
  QuarantineResponse,
  QuarantinedRecord,
  ReplayResponse,
  ReplayBody,
} from '../contract/wire/quarantine.js';
import type { Impact } from '../contract/wire/dry-run.js';
import { addImpact } from './impact.js';
import { toJson } from './json.js';
import type { StoreOptions } from './insert.js';
import { CALL_NAMES, type CallOptions, checkOptions, type Names, READ_NAMES, type ReadOptions } from './options.js';
import type { Transport } from './transport.js';

const PATH = '/api/cdp/quarantine';

/** Selects records; they must meet all conditions given. */
export interface QuarantineFilter {
  table?: string;
  /** The code of one of their errors. */
  error?: string;
  /** A column that one of their errors names. */
  column?: string;
  since?: Date | string;
  until?: Date | string;
  id?: string;
}

const FILTER_NAMES: Names<QuarantineFilter> = {
  table: true,
  error: true,
  column: true,
  since: true,
  until: true,
  id: true,
};

/** How records are stored, as in an insert. */
type ReplayStoring = Omit<StoreOptions, 'onError'>;

export interface ReplayOptions extends QuarantineFilter, ReplayStoring {
  table: string;
  /** New names for keys of the records. */
  rename?: Readonly<Record<string, string>>;
  /** Values that replace or extend those of the records. */
  set?: Readonly<Record<string, unknown>>;
  /** Columns that take the value of another key, in records that have it. */
  setFrom?: Readonly<Record<string, string>>;
  /** Columns that take the value of an SQL expression over `record`, the record as jsonb. Needs `sql:write`. */
  setSql?: Readonly<Record<string, string>>;
  /** Keys to leave out. */
  drop?: readonly string[];
  /** With `id`: what to store in place of the record. */
  record?: object;
  signal?: AbortSignal;
}

const REPLAY_NAMES: Names<ReplayOptions> = {
  ...FILTER_NAMES,
  onConflict: true,
  resolution: true,
  version: true,
  unchanged: true,
  mergeJson: true,
  unknown: true,
  dryRun: true,
  rename: true,
  set: true,
  setFrom: true,
  setSql: true,
  drop: true,
  record: true,
  signal: true,
};

export interface ReplayResult {
  inserted: number;
  updated: number;
  ignored: number;
  /** With `unchanged`. */
  unchanged?: number;
  /** Records that remain in the quarantine. */
  refused: number;
  /** Errors of some of them. */
  errors: ReplayResponse['errors'];
  /** With `dryRun`. */
  impact?: Impact;
}

/** Yields the oldest records first. */
export async function* readQuarantine(
  transport: Transport,
  filter: QuarantineFilter,
  options: ReadOptions,
): AsyncGenerator<QuarantinedRecord, void> {
  checkOptions(filter, FILTER_NAMES, 'quarantine');
  checkOptions(options, READ_NAMES, 'quarantine');
  const { signal } = options;
  for (let next: string | null = ''; next !== null;) {
    const query = filterQuery({ ...filter, ...(next === '' ? {} : { after: next }) });
    const page: QuarantineResponse = await transport.json<QuarantineResponse>({
      method: 'GET',
      path: `${PATH}?${query}`,
      idempotent: true,
      signal,
    });
    yield* page.records;
    ({ next } = page);
  }
}

/** How many records have which error in which column; the largest groups first, at most 1,000. */
export async function quarantineGroups(
  transport: Transport,
  filter: QuarantineFilter,
  options: ReadOptions,
): Promise<readonly QuarantineGroup[]> {
  checkOptions(filter, FILTER_NAMES, 'quarantineGroups');
  checkOptions(options, READ_NAMES, 'quarantineGroups');
  const path = `${PATH}?${filterQuery({ ...filter, group: true })}`;
  const { groups = [] } = await transport.json<QuarantineResponse>({
    ...{ method: 'GET', path, idempotent: true, signal: options.signal },
  });
  return groups;
}

export interface DropOptions extends QuarantineFilter {
  /** Deletes all of them; not with a filter. */
  all?: true;
}

const DROP_NAMES: Names<DropOptions> = { ...FILTER_NAMES, all: true };

/** Retries every record once, in transactions of up to 250. */
export async function replayQuarantine(transport: Transport, replay: ReplayOptions): Promise<ReplayResult> {
  checkOptions(replay, REPLAY_NAMES, 'replayQuarantine');
  const { onConflict, mergeJson, setFrom, setSql, drop, dryRun, signal, since, until, ...options } = replay;
  const result: ReplayResult = { inserted: 0, updated: 0, ignored: 0, refused: 0, errors: [] };
  const body: ReplayBody = {
    ...options,
    ...(since === undefined ? {} : { since: timeText(since) }),
    ...(until === undefined ? {} : { until: timeText(until) }),
    ...(onConflict === undefined ? {} : { on_conflict: [onConflict].flat().join(',') }),
    ...(mergeJson ? { merge_json: true } : {}),
    ...(setFrom === undefined ? {} : { set_from: setFrom }),
    ...(setSql === undefined ? {} : { set_sql: setSql }),
    ...(drop === undefined ? {} : { drop: [...drop] }),
  };
  for (let next: string | null = ''; next !== null;) {
    const response: ReplayResponse = await transport.json<ReplayResponse>({
      method: 'POST',
      path: `${PATH}/replay${dryRun ? '?dry_run=true' : ''}`,
      body: toJson({ ...body, ...(next === '' ? {} : { after: next }) }),
      // A stored record leaves the quarantine, so a retry does not store it again.
      idempotent: true,
      signal,
    });
    result.inserted += response.inserted_rows;
    result.updated += response.updated_rows;
    result.ignored += response.ignored_rows;
    if (response.unchanged_rows !== undefined) result.unchanged = (result.unchanged ?? 0) + response.unchanged_rows;
    result.refused += response.refused_rows;
    result.errors.push(...response.errors);
    if (response.impact !== undefined) result.impact = addImpact(result.impact, response.impact);
    ({ next } = response);
  }
  return result;
}

/** @returns the number of records that are deleted, or with `dryRun` would be */
export async function dropQuarantine(transport: Transport, drop: DropOptions, options: CallOptions): Promise<number> {
  checkOptions(drop, DROP_NAMES, 'dropQuarantine');
  checkOptions(options, CALL_NAMES, 'dropQuarantine');
  const { dryRun, signal } = options;
  const path = `${PATH}?${filterQuery({ ...drop, ...(dryRun ? { dry_run: true } : {}) })}`;
  return (await transport.json<DropQuarantineResponse>({ method: 'DELETE', path, idempotent: true, signal }))
    .deleted_rows;
}

function filterQuery(filter: QuarantineFilter & { after?: string; all?: true; dry_run?: true; group?: true }): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filter)) {
    if (value !== undefined) query.set(name, value instanceof Date ? timeText(value) : String(value));
  }
  return query.toString();
}

const timeText = (time: Date | string): string => (typeof time === 'string' ? time : time.toISOString());
