/** Changes of a project's tables, in the order of their commits, and tables with the cursor from which their changes go on. */
import type { Change, ChangesResponse } from '../contract/wire/changes.js';
import { checkOptions, type Names, READ_NAMES, type ReadOptions } from './options.js';
import type { DefaultRow } from './sql.js';
import { readHeaded, readLines } from './row-stream.js';
import type { ApiCall, Transport } from './transport.js';

export interface ChangesOptions extends ReadOptions {
  /** A cursor of an earlier answer. Default: changes from now on. */
  after?: string;
  /** Default: all that the token may read. */
  tables?: readonly string[];
  /** Changes that one request reads, 1 to 10,000; default 1,000. */
  limit?: number;
}

export interface ChangesPageOptions extends ChangesOptions {
  /** Seconds that the service waits for a change if there is none, 0 to 60; default 0. */
  wait?: number;
}

const CHANGES_NAMES: Names<ChangesOptions> = { ...READ_NAMES, after: true, tables: true, limit: true };
const PAGE_NAMES: Names<ChangesPageOptions> = { ...CHANGES_NAMES, wait: true };

export interface ChangesPage {
  changes: Change[];
  /** After all that was read, also of other tables: go on from here. */
  cursor: string;
}

/** The rows of a table as they were at one moment. The caller must read them to their end, leave the loop or abort. */
export interface Snapshot<Row = DefaultRow> extends AsyncIterable<Row> {
  readonly table: string;
  /** The changes after it are exactly those that the rows do not show. */
  readonly cursor: string;
}

/** Seconds that a request of the loop waits. */
const WAIT_S = 30;

export function changesCall({ after, tables, limit, wait, signal }: ChangesPageOptions): ApiCall {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries({ after, tables: tables?.join(), limit, wait }))
    if (value !== undefined) query.set(name, String(value));
  return { method: 'GET', path: `/api/cdp/changes?${query.toString()}`, idempotent: true, signal };
}

/** @throws TypeError for an option that does not exist */
export function checkPage(options: ChangesPageOptions): void {
  checkOptions(options, PAGE_NAMES, 'changes');
}

/** Yields each change; ends only with an error, or when the caller leaves the loop. */
export async function* readChanges(transport: Transport, options: ChangesOptions): AsyncGenerator<Change, void> {
  checkOptions(options, CHANGES_NAMES, 'changes');
  // Without a cursor, a repeated request would begin later than the first one.
  let wait = options.after === undefined ? 0 : waitOf(transport);
  for (let { after } = options; ; wait = waitOf(transport)) {
    const call = changesCall({ ...options, ...(after === undefined ? {} : { after }), wait });
    const page: ChangesPage = await transport.json<ChangesResponse>(call);
    yield* page.changes;
    after = page.cursor;
  }
}

/** Less than the time limit of a request. */
const waitOf = ({ timeoutMs }: Transport): number => Math.min(WAIT_S, Math.floor(timeoutMs / 2_000));

const snapshotCall = (table: string, signal: AbortSignal | undefined): ApiCall => ({
  method: 'GET',
  path: `/api/cdp/changes/snapshot?${new URLSearchParams({ table }).toString()}`,
  headers: { accept: 'application/x-ndjson' },
  idempotent: true,
  signal,
});

/** The lines of a snapshot as JSON texts, the first with its cursor. */
export async function* snapshotLines(
  transport: Transport,
  table: string,
  { signal }: ReadOptions,
): AsyncGenerator<string, number, void> {
  return yield* readLines(await transport.open(snapshotCall(table, signal)), signal, 1);
}

/** @throws CdpError, also while it is read: a loop that ends has seen every row */
export async function readSnapshot<Row>(
  transport: Transport,
  table: string,
  options: ReadOptions,
): Promise<Snapshot<Row>> {
  checkOptions(options, READ_NAMES, 'snapshot');
  const { signal } = options;
  const { first, batches } = await readHeaded(await transport.open(snapshotCall(table, signal)), signal);
  const { cursor } = JSON.parse(first) as { cursor: string };
  const rows = async function* () {
    for await (const lines of batches) for (const line of lines) yield JSON.parse(line) as Row;
  };
  return { table, cursor, [Symbol.asyncIterator]: rows };
}
