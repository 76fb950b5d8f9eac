/**
 * Stores the rows of events, each once for ever. First all are copied into their tables, in one round trip. If Postgres refuses
 * that, since some are there already or a table refuses a value, they go the checked way: those that are there are left out,
 * and those that are refused go to the quarantine.
 */
import { LRUCache } from 'lru-cache';
import { jsonText, readEventsBody, type RecordCells } from '../../codec/index.js';
import type { ErrorDetail } from '../../contract/errors.js';
import { Counts } from '../../counts.js';
import type { Project } from '../../db/project.js';
import { planCommit, type WriteEnd } from '../../db/transaction.js';
import type { QueryRunner } from '../../db/query-runner.js';
import { copyLine, type Fragment, ident, join, sql, type Statement, type Step } from '../../pg/index.js';
import { schemaUnchanged, type Table } from '../catalog/catalog.js';
import { lockToWrite } from '../catalog/find-table.js';
import { type BatchInsert, columnName, givenColumns, sourceRows } from '../insert/insert-statement.js';
import { quarantineRecords } from '../insert/quarantine.js';
import { quarantinedDetail, storeWhatFits } from '../insert/refused-records.js';
import { resetIfCodeRuns, type StoreOutcome, storingStatements, whyNotStored } from '../insert/store-rows.js';
import { type SharedWrite, type WaitingWrites, WriteQueue } from '../insert/write-queue.js';
import type { EventLoopThrottle } from '../limits/event-loop-throttle.js';
import type { EventRow, MappedEvent } from './event-rows.js';
import { isFixed, TABLE_OF } from './event-tables.js';
import type { WrongEvent } from './read-events.js';

export interface StoredEvents {
  /** Events that were stored before. */
  readonly duplicates: number;
  /** Events that a table has refused. */
  readonly refused: number;
}

interface StoreRequest {
  readonly project: Project;
  readonly events: readonly MappedEvent[];
  readonly wrong: readonly WrongEvent[];
  readonly queues: EventQueues;
  readonly quarantineDays: number;
  readonly throttle: EventLoopThrottle;
  readonly signal: AbortSignal;
}

/**
 * @returns null: a table has changed since its columns were read
 * @throws EngineError quota_exceeded, table_busy and others that concern no single event
 */
export async function storeEvents(request: StoreRequest): Promise<StoredEvents | null> {
  const { project, events, wrong, queues, throttle, signal } = request;
  const fresh = withoutRepeats(events);
  const duplicates = events.length - fresh.length;
  const outcome = await queues.of(project).add({
    ...{ project, signal, records: fresh.length },
    rows: fresh.flatMap(({ rows }) => rows),
    people: fresh.flatMap(({ person }) => person ?? []),
    quarantine: wrong.length === 0 ? [] : await throttle.runSteps(project.id, quarantineOf(request, [])),
    bytes: fresh.reduce((sum, { size }) => sum + size, 0),
  });
  if (outcome === 'outdated') return null;
  if (outcome !== 'refused') return { duplicates, refused: 0 };
  const checked = await storeChecked({ ...request, events: fresh });
  return checked && { ...checked, duplicates: duplicates + checked.duplicates };
}

/** The first of those with the same id in the same table. */
function withoutRepeats(events: readonly MappedEvent[]): readonly MappedEvent[] {
  const seen = new Set<string>();
  return events.filter(({ type, id }) => {
    const key = `${type} ${id}`;
    return !seen.has(key) && seen.add(key);
  });
}

/** The rows of a request. */
interface WrittenRows extends SharedWrite {
  readonly rows: readonly EventRow[];
  readonly people: readonly EventRow[];
  readonly quarantine: readonly Statement[];
}

/** Concurrent requests share transactions, as those of batches do. */
export class EventQueues {
  private readonly queues = new LRUCache<string, WriteQueue<WrittenRows>>({ max: 1_000 });
  private readonly waiting: WaitingWrites;

  /** @param maxWaiting the most requests of a project that may wait */
  constructor(
    maxWaiting: number,
    private readonly throttle: EventLoopThrottle,
  ) {
    this.waiting = { counts: new Counts(), max: maxWaiting };
  }

  of(project: Project): WriteQueue<WrittenRows> {
    const { id, cacheKey } = project;
    let queue = this.queues.get(cacheKey);
    if (queue === undefined) {
      queue = new WriteQueue(
        this.waiting,
        (db, writes) => this.throttle.charge(id, () => endByCopying(db, writes)),
        true,
      );
      this.queues.set(cacheKey, queue);
    }
    return queue;
  }
}

function endByCopying(db: QueryRunner, writes: readonly WrittenRows[]): WriteEnd<null, StoreOutcome> {
  const byTable = groupByTable(writes.flatMap(({ rows }) => rows));
  // COPY knows no default of a column that only some rows lack.
  const isPlain = [...byTable].every(([table, rows]) => !table.needsInsert && !lacksDefault(table, rows));
  if (!isPlain) return { rollback: 'refused' };
  const steps: Step[] = [];
  for (const [table, rows] of byTable) {
    resetIfCodeRuns(db, table, false);
    steps.push(copyOf(table, rows), schemaUnchanged(table));
  }
  for (const [table, rows] of latestTraits(writes.flatMap(({ people }) => people))) {
    resetIfCodeRuns(db, table, true);
    steps.push(mergeTraits(table, cellsOf(rows)), schemaUnchanged(table));
  }
  const quarantine = writes.flatMap((write) => write.quarantine);
  return {
    response: null,
    beforeCommit: [...steps, ...quarantine],
    prepared: quarantine.length === 0,
    resultOf: (results) => results,
    onRefused: whyNotStored,
  };
}

/**
 * In an order that is the same for all requests, so that they do not wait for each other in a circle: first the tables of all
 * events, which the checked way locks.
 */
function groupByTable(rows: readonly EventRow[]): ReadonlyMap<Table, readonly EventRow[]> {
  const groups = new Map<Table, EventRow[]>();
  for (const row of rows) {
    const group = groups.get(row.table);
    if (group === undefined) groups.set(row.table, [row]);
    else group.push(row);
  }
  const place = ({ name }: Table): string => `${isFixed(name) ? 0 : 1} ${name}`;
  return new Map([...groups].sort(([a], [b]) => (place(a) < place(b) ? -1 : 1)));
}

const lacksDefault = ({ columns }: Table, rows: readonly EventRow[]): boolean =>
  columns.some(({ hasDefault }, index) => {
    if (!hasDefault) return false;
    const given = rows.filter(({ cells }) => cells[index] !== undefined).length;
    return given > 0 && given < rows.length;
  });

const cellsOf = (rows: readonly EventRow[]): RecordCells[] => rows.map(({ cells }) => cells);

function copyOf(table: Table, rows: readonly EventRow[]): Step {
  const cells = cellsOf(rows);
  const columns = givenColumns(table, cells);
  const names = join(columns.map((index) => columnName(table, index)));
  const { text, params } = sql`COPY ${ident(table.schema, table.name)} (${names}) FROM STDIN`;
  let rowsAsText = '';
  for (const row of cells) rowsAsText += copyLine(row, columns);
  return { text, params, data: [Buffer.from(rowsAsText)] };
}

// The latest traits: rows of `users` and `accounts`, which events change.

/** One row for each id, sorted, so that concurrent requests lock rows in the same order. */
function latestTraits(rows: readonly EventRow[]): ReadonlyMap<Table, readonly EventRow[]> {
  const merged = new Map<Table, EventRow[]>();
  for (const [table, ofTable] of groupByTable(rows)) {
    const byId = new Map<string, EventRow>();
    for (const row of ofTable) {
      const before = byId.get(row.id);
      byId.set(row.id, before === undefined ? row : mergedRow(before, row));
    }
    merged.set(
      table,
      [...byId.values()].sort((a, b) => (a.id < b.id ? -1 : 1)),
    );
  }
  return merged;
}

/** The traits of the newer one, and of the other what that lacks. */
function mergedRow(before: EventRow, row: EventRow): EventRow {
  const [older, newer] = row.at.ms < before.at.ms ? [row, before] : [before, row];
  const traits = newer.table.columns.findIndex(({ name }) => name === 'traits');
  const cells = Array.from(newer.table.columns, (_, index) => {
    const [one, other] = [newer.cells[index], older.cells[index]];
    if (index !== traits || one == null || other == null) return one ?? other;
    return mergedJson(other, one);
  });
  return { ...newer, cells };
}

/** Two JSON objects as one, with the digits of both; a member of the second takes the place of one of the first. */
function mergedJson(first: string, second: string): string {
  const members = [first, second].flatMap((text) => {
    const node = readEventsBody(Buffer.from(text), Infinity);
    return node.kind === 'object' ? node.members : [];
  });
  const texts = [...new Map(members)].map(([key, node]) => `${JSON.stringify(key)}:${jsonText(node)}`);
  return `{${texts.join()}}`;
}

/** An event that happened before the latest one adds only what nobody has said since. */
function mergeTraits(table: Table, cells: readonly RecordCells[]): Statement {
  const columns = givenColumns(table, cells);
  const hasTime = columns.some((index) => table.columns[index]?.name === 'timestamp');
  const [stored, excluded] = [sql`stored.${ident('timestamp')}`, sql`excluded.${ident('timestamp')}`];
  const isNewer = hasTime ? sql`(${stored} IS NULL OR ${excluded} OPERATOR(pg_catalog.>=) ${stored})` : sql`true`;
  const changes = columns.flatMap((index): Fragment[] => {
    const { name = '' } = table.columns[index] ?? {};
    const [old, now] = [sql`stored.${ident(name)}`, sql`excluded.${ident(name)}`];
    if (name === 'id') return [];
    if (name === 'timestamp' || name === 'received_at') return [sql`${ident(name)} = GREATEST(${old}, ${now})`];
    if (name !== 'traits')
      return [
        sql`${ident(name)} = CASE WHEN ${isNewer} THEN COALESCE(${now}, ${old}) ELSE COALESCE(${old}, ${now}) END`,
      ];
    const both = (first: Fragment, second: Fragment) =>
      sql`COALESCE(${first}, '{}'::pg_catalog.jsonb) OPERATOR(pg_catalog.||) COALESCE(${second}, '{}'::pg_catalog.jsonb)`;
    return [sql`${ident(name)} = CASE WHEN ${isNewer} THEN ${both(old, now)} ELSE ${both(now, old)} END`];
  });
  const names = join(columns.map((index) => columnName(table, index)));
  return sql`INSERT INTO ${ident(table.schema, table.name)} AS stored (${names}) ${sourceRows(table, columns, cells)}
    ON CONFLICT (id) DO UPDATE SET ${join(changes)}`;
}

// The checked way.

interface Refused {
  readonly row: EventRow;
  readonly errors: readonly ErrorDetail[];
}

/** @returns null: a table has changed since its columns were read */
async function storeChecked(request: StoreRequest): Promise<StoredEvents | null> {
  const { project, events, throttle, signal } = request;
  const { response } = await project.write(
    { signal, isIdempotent: true },
    async (db): Promise<WriteEnd<StoredEvents | null, { response: StoredEvents | null }>> => {
      const refused: Refused[] = [];
      const ofKind = events.flatMap(({ rows }) => rows.slice(0, 1));
      // The row of its kind decides whether an event is new.
      const stored = await storeNew(db, request, ofKind, refused);
      if (stored === null) return { rollback: { response: null } };
      const refusedEvents = refused.length;
      refused.push(...otherRowsOfRefused(events, refused));
      const rest = events.filter(({ rows: [first] }) => first !== undefined && stored.has(first));
      const ofName = rest.flatMap(({ rows }) => rows.slice(1));
      const people = rest.flatMap(({ person }) => person ?? []);
      if ((await storeNew(db, request, ofName, refused)) === null || !(await storePeople(db, people, refused)))
        return { rollback: { response: null } };
      const outcome = { duplicates: events.length - refusedEvents - rest.length, refused: refusedEvents };
      return planCommit(outcome, await throttle.runSteps(project.id, quarantineOf(request, refused)));
    },
  );
  return response;
}

/** The other rows of events whose first row a table refuses: without that none of them is stored, and a replay is to bring them all. */
function otherRowsOfRefused(events: readonly MappedEvent[], refused: readonly Refused[]): Refused[] {
  const byRow = new Map(refused.map(({ row, errors }) => [row, errors]));
  return events.flatMap(({ rows: [first, ...others], person }) => {
    const [refusal] = (first && byRow.get(first)) ?? [];
    if (refusal === undefined) return [];
    const errors = [{ error: refusal.error, message: `Table "${first?.table.name}" has refused the event` }];
    return [...others, ...(person === null ? [] : [person])].map((row) => ({ row, errors }));
  });
}

/**
 * Stores the rows whose ids are not in their tables.
 * @returns those; null: a table has changed
 */
async function storeNew(
  db: QueryRunner,
  request: StoreRequest,
  rows: readonly EventRow[],
  refused: Refused[],
): Promise<ReadonlySet<EventRow> | null> {
  const { schema, distributesTables } = request.project;
  const stored: EventRow[] = [];
  for (const [table, ofTable] of groupByTable(rows)) {
    // Nobody else stores an event of the kind until the end: so which ones are new is certain.
    if (isFixed(table.name)) await db.run([sql`LOCK TABLE ${ident(schema, table.name)} IN SHARE ROW EXCLUSIVE MODE`]);
    if (!(await lockUnchanged(db, table))) return null;
    const ids = ofTable.map(({ id }) => id);
    const known = await db.query(
      sql`SELECT id FROM ${ident(schema, table.name)} WHERE id OPERATOR(pg_catalog.=) ANY (${ids}::pg_catalog.text[])`,
    );
    const before = new Set(known.map(([id]) => id));
    const options = { returnIds: false, oneByOne: false, distributesTables };
    const insertsFor = await storingStatements(db, table, { columns: ['id'], resolution: 'ignore' }, options);
    const added = ofTable.filter(({ id }) => !before.has(id));
    stored.push(...(await storeFitting(db, table, added, insertsFor, refused)));
  }
  return new Set(stored);
}

/** If a table refuses somebody's traits, the event is stored nevertheless. @returns false: a table has changed */
async function storePeople(db: QueryRunner, rows: readonly EventRow[], refused: Refused[]): Promise<boolean> {
  for (const [table, ofTable] of latestTraits(rows)) {
    if (!(await lockUnchanged(db, table))) return false;
    const insertsFor = (cells: readonly RecordCells[]) => [
      { statement: mergeTraits(table, cells), records: [...cells.keys()] },
    ];
    await storeFitting(db, table, ofTable, insertsFor, refused);
  }
  return true;
}

async function lockUnchanged(db: QueryRunner, table: Table): Promise<boolean> {
  const now = await lockToWrite(db, table.schema, table.name);
  if (now.updateRunsProjectCode || now.runsProjectCode) db.resetAfterUse();
  return now.version === table.version;
}

/** @returns the rows that the table takes */
async function storeFitting(
  db: QueryRunner,
  table: Table,
  rows: readonly EventRow[],
  insertsFor: (rows: readonly RecordCells[]) => readonly BatchInsert[],
  refused: Refused[],
): Promise<EventRow[]> {
  const write = { db, table, rows: cellsOf(rows), insertsFor };
  const outcome = await storeWhatFits(write, [...rows.keys()], { maxExplained: Infinity, inOrder: false });
  const errors = new Map<EventRow, ErrorDetail[]>();
  for (const refusal of outcome.refused) {
    const row = rows[refusal.record];
    if (row !== undefined) errors.set(row, [...(errors.get(row) ?? []), quarantinedDetail(refusal)]);
  }
  for (const [row, details] of errors) refused.push({ row, errors: details });
  return rows.filter((row) => !errors.has(row));
}

/** A row as a record that can be replayed into its table. */
function recordOf({ table, cells }: EventRow): string {
  const members = table.columns.flatMap(({ name, type }, index) => {
    const cell = cells[index];
    if (cell == null) return [];
    return [`${JSON.stringify(name)}:${type === 'JSONB' || type === 'BOOLEAN' ? cell : JSON.stringify(cell)}`];
  });
  return `{${members.join()}}`;
}

/** Puts wrong events and refused rows into the quarantine. */
function* quarantineOf({ project, wrong, quarantineDays }: StoreRequest, refused: readonly Refused[]) {
  const all = [
    ...wrong.map(({ type, text, errors }) => ({ table: TABLE_OF[type], text, errors })),
    ...refused.map(({ row, errors }) => ({ table: row.table.name, text: recordOf(row), errors })),
  ];
  const statements: Statement[] = [];
  for (const table of new Set(all.map((one) => one.table))) {
    const ofTable = all.filter((one) => one.table === table);
    const errors = new Map(ofTable.map((one, i) => [i, one.errors]));
    const textOf = (i: number) => ofTable[i]?.text ?? '';
    statements.push(...(yield* quarantineRecords(project, table, errors, textOf, null, quarantineDays)));
  }
  return statements;
}
