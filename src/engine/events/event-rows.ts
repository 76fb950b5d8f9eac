/** Turns events into rows: which column of which table each value goes to, and what is left. */
import { type Cell, CellError, type JsonMember, type JsonNode, jsonText, readCell } from '../../codec/index.js';
import type { ColumnType } from '../../contract/column-types.js';
import type { ErrorDetail } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import type { EventSettings } from '../../contract/wire/events.js';
import type { Column, Table } from '../catalog/catalog.js';
import { columnNameOf, tableNameOf } from './event-names.js';
import {
  COLUMNS_OF_NAME,
  type Columns,
  fixedTables,
  jsonColumnOf,
  PEOPLE_OF,
  TABLE_OF,
  UNMAPPED,
} from './event-tables.js';
import { plainColumn, type TrackedEvent, type WrongEvent } from './read-events.js';

/** The tables that events may go to, by name: as Postgres has them now. */
export type KnownTables = ReadonlyMap<string, Table>;

/** What the tables lack for some events. */
export class Wanted {
  /** New columns by table; a new table has its fixed ones. */
  readonly columns = new Map<string, Map<string, ColumnType>>();
  /** INTEGER columns by table that got a value of FLOAT. */
  readonly wider = new Map<string, Set<string>>();

  get isEmpty(): boolean {
    return this.columns.size === 0 && this.wider.size === 0;
  }

  table(name: string, columns: Columns): void {
    if (!this.columns.has(name)) this.columns.set(name, new Map(Object.entries(columns)));
  }

  column(table: string, name: string, type: ColumnType): void {
    const columns = this.columns.get(table) ?? new Map<string, ColumnType>();
    // Numbers of one column may come with and without a fraction.
    if (columns.get(name) === undefined || (columns.get(name) === 'INTEGER' && type === 'FLOAT'))
      columns.set(name, type);
    this.columns.set(table, columns);
  }

  wideColumn(table: string, name: string): void {
    this.wider.set(table, (this.wider.get(table) ?? new Set()).add(name));
  }
}

/** A row for a table, in the order of its columns. */
export interface EventRow {
  readonly table: Table;
  /** messageId, or the id of somebody whose traits these are. */
  readonly id: string;
  /** When it happened. */
  readonly at: Date;
  /** By the index of the column; undefined: its default. */
  readonly cells: readonly (string | null | undefined)[];
}

export interface MappedEvent {
  readonly event: TrackedEvent;
  /** The first is that of all events of its kind; then perhaps that of its name. */
  readonly rows: readonly EventRow[];
  /** The traits of a user or an account; null: it changes none. */
  readonly person: EventRow | null;
  /** Values without a column. */
  readonly unmapped: number;
}

export interface Mapping {
  readonly settings: EventSettings;
  readonly receivedAt: Date;
  /** The address of the sender; null: it is not stored. */
  readonly address: string | null;
  /** Whether the caller's events may go to this table. */
  readonly mayWrite: (table: string) => boolean;
  /** Whether they may change the traits of users and accounts. */
  readonly changesPeople: boolean;
}

/** The names of all tables to which the events might go. */
export function tablesFor(events: readonly TrackedEvent[], { settings, mayWrite }: Mapping): Set<string> {
  const names = events.flatMap(({ type, name }) => {
    const ofName = type === 'track' && settings.mode === 'columns' ? tableNameOf(name ?? '') : null;
    return [TABLE_OF[type], PEOPLE_OF[type] ?? null, ofName];
  });
  return new Set(names.filter((name) => name !== null).filter(mayWrite));
}

/** @param wanted collects what the tables lack */
export function mapEvent(
  event: TrackedEvent,
  tables: KnownTables,
  mapping: Mapping,
  wanted: Wanted,
): MappedEvent | WrongEvent {
  const { settings, mayWrite, changesPeople } = mapping;
  const { type, id, name, userId, groupId, text } = event;
  const main = TABLE_OF[type];
  if (!mayWrite(main)) {
    const message = `The token may not insert into "${main}"`;
    return { type, text, errors: [{ error: 'insufficient_scope', message }] };
  }
  const isFlat = settings.mode === 'columns';
  const at = timeOf(event, mapping.receivedAt);
  const build = (table: string, rowId: string) => new RowBuilder(table, rowId, at, tables.get(table), mapping, wanted);
  const ofName = type === 'track' && isFlat ? tableNameOf(name ?? '') : null;
  const hasOwnTable =
    ofName !== null && mayWrite(ofName) && (tables.has(ofName) ? isEventTable(tables.get(ofName)) : true);
  const builders: RowBuilder[] = [];

  const row = build(main, id);
  builders.push(row);
  row.addFixed(event);
  // Without a table for its name, the properties of a track stay together.
  let named: RowBuilder | null = null;
  if (hasOwnTable) {
    named = build(ofName, id);
    if (named.isKnown) {
      builders.push(named);
      named.addFixed(event);
      named.addProperties(event.properties, 'properties');
    } else wanted.table(ofName, COLUMNS_OF_NAME);
  }
  if (type !== 'track' || !isFlat)
    row.addProperties(event.properties, type === 'identify' || type === 'group' ? 'traits' : 'properties');
  else if (named === null || !named.isKnown) row.leave(event.properties, ['properties']);

  const personTable = changesPeople ? PEOPLE_OF[type] : undefined;
  const personId = type === 'group' ? groupId : userId;
  let person: RowBuilder | null = null;
  if (personTable !== undefined && personId !== null && mayWrite(personTable)) {
    person = build(personTable, personId);
    person.addTimes();
    person.addProperties(event.properties, 'traits');
  }
  for (const { table, isKnown } of [row, ...(person === null ? [] : [person])]) {
    if (!isKnown) wanted.table(table, fixedTables(settings).get(table) ?? {});
  }
  const errors = [...builders, ...(person === null ? [] : [person])].flatMap((builder) => builder.errors);
  if (errors.length > 0) return { type, text, errors: errors.slice(0, LIMITS.errorsListed) };
  return {
    event,
    rows: builders.map((builder) => builder.row()),
    person: person?.row() ?? null,
    unmapped: Math.max(...builders.map((builder) => builder.unmapped)),
  };
}

/** What Segment calls timestamp: when it happened by our clock, if the sender has said what its clock showed. */
function timeOf({ originalTimestamp, sentAt }: TrackedEvent, receivedAt: Date): Date {
  if (originalTimestamp === null) return receivedAt;
  if (sentAt === null) return originalTimestamp;
  const time = new Date(receivedAt.getTime() - (sentAt.getTime() - originalTimestamp.getTime()));
  // A clock that is off by thousands of years.
  return Number.isNaN(time.getTime()) || time.getUTCFullYear() > 9999 || time.getUTCFullYear() < 1
    ? originalTimestamp
    : time;
}

/** Whether a table is for events: others of the project may bear the name of one. */
export function isEventTable(table: Table | undefined): boolean {
  const types = new Map(table?.columns.map(({ name, type }) => [name, type]));
  return (
    ['id', 'event', 'event_text'].every((name) => types.get(name) === 'TEXT') &&
    types.get('received_at') === 'TIMESTAMP'
  );
}

/** A value and where in the event it is. */
interface Field {
  /** null: its name is none of a column. */
  readonly column: string | null;
  readonly path: readonly string[];
  readonly node: JsonNode;
}

/** Fills the row of an event in one table. */
class RowBuilder {
  readonly errors: ErrorDetail[] = [];
  unmapped = 0;
  private readonly cells: (string | null | undefined)[];
  private readonly indexes: ReadonlyMap<string, number>;
  private readonly left: [path: readonly string[], node: JsonNode][] = [];

  constructor(
    readonly table: string,
    private readonly id: string,
    private readonly at: Date,
    private readonly known: Table | undefined,
    private readonly mapping: Mapping,
    private readonly wanted: Wanted,
  ) {
    this.cells = new Array<undefined>(known?.columns.length ?? 0);
    this.indexes = indexesOf(known);
    this.set('id', id);
  }

  get isKnown(): boolean {
    return this.known !== undefined;
  }

  addTimes(): void {
    this.set('received_at', this.mapping.receivedAt.toISOString());
    this.set('timestamp', this.at.toISOString());
  }

  addFixed({ type, sentAt, originalTimestamp, userId, anonymousId, ...event }: TrackedEvent): void {
    const { settings, address } = this.mapping;
    this.addTimes();
    this.set('sent_at', sentAt?.toISOString() ?? null);
    this.set('original_timestamp', originalTimestamp?.toISOString() ?? null);
    this.set('user_id', userId);
    this.set('anonymous_id', anonymousId);
    if (type === 'track') {
      this.set('event', tableNameOf(event.name ?? '') ?? event.name);
      this.set('event_text', event.name);
    }
    if (type === 'page' || type === 'screen') {
      this.set('name', event.name);
      this.set('category', event.category);
    }
    this.set('group_id', event.groupId);
    this.set('previous_id', event.previousId);
    if (settings.mode === 'json') this.setJson('context', event.context);
    this.add(fieldsOf(event.context, 'context', ['context']), settings.mode === 'columns');
    if (address !== null && this.indexes.has('context_ip') && this.cells[this.indexes.get('context_ip') ?? 0] == null)
      this.set('context_ip', address);
  }

  addProperties(members: readonly JsonMember[], root: 'properties' | 'traits'): void {
    const isFlat = this.mapping.settings.mode === 'columns';
    if (!isFlat) this.setJson(jsonColumnOf(this.table), members);
    this.add(fieldsOf(members, null, [root]), isFlat);
  }

  /** Keeps members together, without columns. */
  leave(members: readonly JsonMember[], path: readonly string[]): void {
    for (const [key, node] of members) this.left.push([[...path, key], node]);
    this.unmapped += members.length;
  }

  /** Call this at the end. */
  row(): EventRow {
    if (this.left.length > 0) this.set(UNMAPPED, nested(this.left));
    return { table: this.known as Table, id: this.id, at: this.at, cells: this.cells };
  }

  /** @param keeps whether what has no column is kept, or is stored already */
  private add(fields: Iterable<Field>, keeps: boolean): void {
    for (const field of fields) {
      if (field.node.kind === 'null' || this.addField(field)) continue;
      if (!keeps) continue;
      this.unmapped++;
      this.left.push([field.path, field.node]);
      if (this.isKnown && !this.indexes.has(UNMAPPED)) this.wanted.column(this.table, UNMAPPED, 'JSONB');
      const cell = readCell(JSONB, field.node);
      if (cell instanceof CellError) this.complain(field.path.join('.'), cell);
    }
  }

  /** @returns false: there is no column for it */
  private addField({ column: name, node }: Field): boolean {
    if (name === null) return false;
    const index = this.indexes.get(name);
    if (index === undefined) {
      this.wantColumn(name, node);
      return false;
    }
    const column = this.known?.columns[index] as Column;
    const cell = cellOf(column, node);
    if (cell instanceof CellError) {
      if (column.type === 'INTEGER' && node.kind === 'number') this.wanted.wideColumn(this.table, name);
      return false;
    }
    // Two names of properties may be one of a column.
    const before = this.cells[index];
    if (before != null) return before === cell;
    this.cells[index] = cell;
    return true;
  }

  private wantColumn(name: string, node: JsonNode): void {
    const { known, mapping } = this;
    if (mapping.settings.mode === 'json' || known === undefined) return;
    const type = typeFor(node);
    // Not counting `id`.
    const columns = known.columns.length - 1 + (this.wanted.columns.get(this.table)?.size ?? 0);
    // Names that differ only by case would be one to most programs.
    const isFree = !known.columns.some((column) => column.name.toLowerCase() === name);
    if (type !== null && isFree && columns < LIMITS.columnsPerTable) this.wanted.column(this.table, name, type);
  }

  /** A value of the service; a column of the project's own type may refuse it. */
  private set(name: string, value: string | null): void {
    const index = this.indexes.get(name);
    const column = index === undefined ? undefined : this.known?.columns[index];
    if (column === undefined || index === undefined || value === null) return;
    const node: JsonNode = { kind: 'string', value };
    const cell = column.type === 'JSONB' ? value : readCell(column, node);
    if (cell instanceof CellError) this.complain(name, cell);
    else this.cells[index] = cell;
  }

  private setJson(name: string, members: readonly JsonMember[]): void {
    const text = `{${members.map(([key, node]) => `${JSON.stringify(key)}:${jsonText(node)}`).join()}}`;
    for (const [key, node] of members) {
      const cell = readCell(JSONB, node);
      if (cell instanceof CellError) this.complain(`${name}.${key}`, cell);
    }
    this.set(name, text);
  }

  private complain(column: string, { reason }: CellError): void {
    this.errors.push({ error: 'invalid_value', column, message: `${column}: ${reason}` });
  }
}

const JSONB = plainColumn('JSONB');
const INTEGER = plainColumn('INTEGER');

const hasFraction = (number: string): boolean => /[.eE]/.test(number);

/** The indexes of a table's columns, made once for each version of it. */
const INDEXES = new WeakMap<Table, ReadonlyMap<string, number>>();

function indexesOf(table: Table | undefined): ReadonlyMap<string, number> {
  if (table === undefined) return new Map();
  let indexes = INDEXES.get(table);
  if (indexes === undefined) {
    indexes = new Map(table.columns.map(({ name }, index) => [name, index]));
    INDEXES.set(table, indexes);
  }
  return indexes;
}

/** The values of an object, and of the objects in it, with the columns they would have. */
function* fieldsOf(members: readonly JsonMember[], prefix: string | null, path: readonly string[]): Generator<Field> {
  for (const [key, node] of members) {
    const name = prefix === null ? key : `${prefix}_${key}`;
    if (node.kind === 'object') yield* fieldsOf(node.members, name, [...path, key]);
    else yield { column: columnNameOf(name), path: [...path, key], node };
  }
}

/** The type of a new column; null: the value is of none. */
function typeFor(node: JsonNode): ColumnType | null {
  switch (node.kind) {
    case 'string':
    case 'array':
      return 'TEXT';
    case 'boolean':
      return 'BOOLEAN';
    case 'number':
      if (hasFraction(node.text)) return 'FLOAT';
      return readCell(INTEGER, node) instanceof CellError ? null : 'INTEGER';
    default:
      return null;
  }
}

/** An array is its JSON, in a column of text. */
function cellOf(column: Column, node: JsonNode): Cell {
  if (node.kind === 'array' && column.type === 'TEXT') return readCell(column, { kind: 'string', value: node.text });
  const cell = readCell(column, node);
  const isRounded = column.type === 'FLOAT' && node.kind === 'number' && !hasFraction(node.text);
  return isRounded && !Number.isSafeInteger(Number(node.text)) ? new CellError('FLOAT would round it') : cell;
}

/** Values at their places, as the JSON of one object. */
function nested(values: readonly (readonly [path: readonly string[], node: JsonNode])[]): string {
  const groups = new Map<string, [readonly string[], JsonNode][]>();
  for (const [[key = '', ...rest], node] of values) {
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [[rest, node]]);
    else group.push([rest, node]);
  }
  const members = [...groups].map(([key, group]) => {
    const [[path = [], node] = []] = group;
    return `${JSON.stringify(key)}:${path.length === 0 && node !== undefined ? jsonText(node) : nested(group)}`;
  });
  return `{${members.join()}}`;
}
