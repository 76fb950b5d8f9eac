/**
 * Takes events of the tracking API, on one page: read them, find their tables, give each value a column, store them. Whatever
 * is wrong with a single event puts that one into the quarantine, since an SDK drops a batch that is refused.
 */
import { EngineError } from '../../contract/errors.js';
import { quoted } from '../../contract/message-text.js';
import type { Project } from '../../db/project.js';
import { tablesToWrite } from '../catalog/catalog.js';
import type { CachedTable, TableCache } from '../insert/table-cache.js';
import type { EventLoopThrottle } from '../limits/event-loop-throttle.js';
import { type KnownTables, mapEvent, type MappedEvent, type Mapping, tablesFor, timeAt, Wanted } from './event-rows.js';
import { TABLE_OF } from './event-tables.js';
import { eventTablesIn, grow } from './grow-tables.js';
import { type CallType, type ReadEvents, readEvents, type TrackedEvent, type WrongEvent } from './read-events.js';
import { type EventQueues, storeEvents } from './store-events.js';

interface TrackOptions extends Omit<Mapping, 'receivedAt'> {
  /** Of the only event in the body; null: the body is a batch. */
  readonly type: CallType | null;
  /** Whether events may make tables and columns. */
  readonly mayShape: boolean;
  /** Called with the number of events before any is stored. */
  readonly count: (events: number) => Promise<void>;
  readonly counts: EventCounts;
  readonly queues: EventQueues;
  readonly tableCache: TableCache;
  readonly throttle: EventLoopThrottle;
  readonly quarantineDays: number;
  readonly schemaHoldMs: number;
  readonly signal: AbortSignal;
}

/** What became of the events of a request. */
export interface Tracked {
  readonly events: number;
  /** Stored before. */
  readonly duplicates: number;
  /** Put into the quarantine for what they are, and for what a table refuses. */
  readonly wrong: number;
  readonly refused: number;
}

/** What this instance has done with events since its start. */
export class EventCounts {
  stored = 0;
  duplicates = 0;
  quarantined = 0;
  /** Values that have no column. */
  unmapped = 0;
  /** Tables that could not be made, since the project has as many as it may have. */
  refusedTables = 0;
}

/** So many times it starts anew after another request has changed a table. */
const ATTEMPTS = 5;

/**
 * @param body decoded
 * @throws EngineError invalid_json, invalid_request: the body; table_not_found: a table that every project with events has;
 * those of `count`; quota_exceeded, disk_full, table_busy and others: nothing was stored, and a repeat may succeed
 */
export async function track(project: Project, body: Buffer, options: TrackOptions): Promise<Tracked> {
  const { throttle, counts, mayShape, signal } = options;
  const readBody = () => throttle.runSteps(project.id, readEvents(body, options.type));
  let read: ReadEvents | null = await readBody();
  const total = read.events.length + read.wrong.length;
  await options.count(total);
  if (total === 0) return { events: 0, duplicates: 0, wrong: 0, refused: 0 };
  const mapping: Mapping = { ...options, receivedAt: timeAt(Date.now()) };
  // First the table of a kind, then that of a name, then the columns that the events bring.
  let rounds = mayShape ? 3 : 0;
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    read ??= await readBody();
    const tables = await knownTables(project, tablesFor(read.events, mapping), options);
    const wanted = new Wanted();
    const { mapped, wrong } = await throttle.runSteps(project.id, mapAll(read.events, tables.current, mapping, wanted));
    if (rounds > 0 && !wanted.isEmpty) {
      rounds--;
      const note = (refused: number) => void (counts.refusedTables += refused);
      if (await grow(project, wanted, note, options.settings, { holdMs: options.schemaHoldMs, signal })) {
        tables.forget();
        continue;
      }
    }
    requireTables(read.events, tables.current, options.mayWrite);
    const allWrong = [...read.wrong, ...wrong];
    read = null; // garbage from here on
    const stored = await storeEvents({ project, ...options, events: mapped, wrong: allWrong }).catch(notForTheSender);
    if (stored !== null) {
      const { duplicates, refused } = stored;
      counts.stored += mapped.length - duplicates - refused;
      counts.duplicates += duplicates;
      counts.quarantined += allWrong.length + refused;
      for (const { unmapped } of mapped) counts.unmapped += unmapped;
      return { events: total, duplicates, wrong: allWrong.length, refused };
    }
    tables.forget();
  }
  throw new EngineError('table_busy', 'The tables of the events keep changing');
}

/** The tables that there are, with a way to forget them when they have changed. */
async function knownTables(
  project: Project,
  names: ReadonlySet<string>,
  { tableCache, signal }: Pick<TrackOptions, 'tableCache' | 'signal'>,
): Promise<{ current: KnownTables; forget: () => void }> {
  const cached = new Map<string, CachedTable>();
  for (const name of names) {
    const table = tableCache.get(project.cacheKey, name);
    if (table !== undefined) cached.set(name, table);
  }
  const unknown = [...names].filter((name) => !cached.has(name));
  if (unknown.length > 0) {
    const query = tablesToWrite(project.schema, unknown);
    const rows = await project.read({ signal }, (db) => db.query(query));
    for (const table of eventTablesIn(project.schema, rows))
      cached.set(table.name, tableCache.remember(project.cacheKey, table));
  }
  const forget = () => {
    for (const table of cached.values()) tableCache.forget(project.cacheKey, table);
  };
  return { current: new Map([...cached].map(([name, { table }]) => [name, table])), forget };
}

function* mapAll(
  events: readonly TrackedEvent[],
  tables: KnownTables,
  mapping: Mapping,
  wanted: Wanted,
): Generator<undefined, { mapped: MappedEvent[]; wrong: WrongEvent[] }, undefined> {
  const mapped: MappedEvent[] = [];
  const wrong: WrongEvent[] = [];
  for (const event of events) {
    const result = mapEvent(event, tables, mapping, wanted);
    if (result === null) continue;
    if ('errors' in result) wrong.push(result);
    else mapped.push(result);
    yield;
  }
  return { mapped, wrong };
}

/**
 * The body has been read by then: what is wrong now is a table, such as one that lost its primary key, and may be mended.
 * @throws EngineError
 */
function notForTheSender(error: unknown): never {
  if (!(error instanceof EngineError) || error.code !== 'invalid_request') throw error;
  throw new EngineError('table_not_found', error.message, { cause: error });
}

/** @throws EngineError table_not_found */
function requireTables(events: readonly TrackedEvent[], tables: KnownTables, mayWrite: Mapping['mayWrite']): void {
  const needed = new Set(events.map(({ type }) => TABLE_OF[type]));
  const missing = [...needed].filter(mayWrite).find((table) => !tables.has(table));
  if (missing === undefined) return;
  throw new EngineError('table_not_found', `There is no table ${quoted(missing)} for the events`, {
    hint: 'PUT /api/cdp/events makes the tables of events anew.',
  });
}
