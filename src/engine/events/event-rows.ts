/** Turns events into rows: which column of which table each value goes to, and what is left. */
import { type Cell, CellError, type JsonMember, type JsonNode, jsonText, readCell } from '../../codec/index.js';
import { type ColumnType, unstorable } from '../../contract/column-types.js';
import type { ErrorDetail } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import type { EventSettings } from '../../contract/wire/events.js';
import type { Column, Table } from '../catalog/catalog.js';
import { columnNameOf, tableNameOf } from './event-names.js';
import { jsonColumnOf, PEOPLE_OF, TABLE_OF, UNMAPPED } from './event-tables.js';
import { type CallType, plainColumn, type Time, type TrackedEvent, type WrongEvent } from './read-events.js';

/** The tables that events may go to, by name: as Postgres has them now. */
export type KnownTables = ReadonlyMap<string, Table>;

/** What the tables lack for some events. */
export class Wanted {
  /** New columns by table; none of a table that is missing: it is made with its fixed ones first. */
  readonly columns = new Map<string, Map<string, ColumnType>>();
  /** INTEGER columns by table that got a value of FLOAT. */
  readonly wider = new Map<string, Set<string>>();

  get isEmpty(): boolean {
    return this.columns.size === 0 && this.wider.size === 0;
  }

  table(name: string): void {
    if (!this.columns.has(name)) this.columns.set(name, new Map());
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
  readonly at: Time;
  /** By the index of the column; undefined: its default. */
  readonly cells: readonly (string | null | undefined)[];
}

/** Without the event itself, whose tree takes many times the memory of the rows while they wait to be stored. */
export interface MappedEvent {
  readonly type: CallType;
  readonly id: string;
  /** Characters of the event. */
  readonly size: number;
  /** The first is that of all events of its kind; then perhaps that of its name. */
  readonly rows: readonly EventRow[];
  /** The traits of a user or an account; null: it changes none. */
  readonly person: EventRow | null;
  /** Values without a column. */
  readonly unmapped: number;
}

export interface Mapping {
  readonly settings: EventSettings;
  readonly receivedAt: Time;
  /** The address of the sender; null: it is not stored. */
  readonly address: string | null;
  /** Whether the caller's events may go to this table. */
  readonly mayWrite: (table: string) => boolean;
  /** Whether they may change the traits of users and accounts. */
  readonly changesPeople: boolean;
}

/** The names of all tables to which the events might go. */
export function tablesFor(events: readonly TrackedEvent[], { settings, mayWrite }: Mapping): Set<string> {
  const tables = new Set<string>();
  const ofNames = new Set<string>();
  for (const { type, name } of events) {
    tables.add(TABLE_OF[type]);
    if (PEOPLE_OF[type] !== undefined) tables.add(PEOPLE_OF[type]);
    const ofName = type === 'track' && settings.mode === 'columns' ? tableNameOf(name ?? '') : null;
    // There can be no more of them.
    if (ofName !== null && ofNames.size < LIMITS.eventTables) ofNames.add(ofName);
  }
  return new Set([...tables, ...ofNames].filter(mayWrite));
}

/**
 * @param wanted collects what the tables lack
 * @returns null: the table of its kind is missing
 */
export function mapEvent(
  event: TrackedEvent,
  tables: KnownTables,
  mapping: Mapping,
  wanted: Wanted,
): MappedEvent | WrongEvent | null {
  const { settings, mayWrite, changesPeople } = mapping;
  const { type, id, userId, groupId, text, properties } = event;
  if (!mayWrite(TABLE_OF[type])) {
    const message = `The token may not insert into "${TABLE_OF[type]}"`;
    return { type, text, errors: [{ error: 'insufficient_scope', message }] };
  }
  const at = timeOf(event, mapping.receivedAt);
  const build = (table: string, rowId: string): RowBuilder | null => {
    const known = tables.get(table);
    if (known !== undefined) return new RowBuilder(known, rowId, at, mapping, wanted);
    wanted.table(table);
    return null;
  };
  const root = type === 'identify' || type === 'group' ? TRAITS : PROPERTIES;

  const row = build(TABLE_OF[type], id);
  if (row === null) return null;
  const context = fieldsOf(event.context, 'context', CONTEXT);
  const values = fieldsOf(properties, '', root);
  if (context.length + values.length > LIMITS.valuesOfEvent) {
    const message = `The event has more than ${LIMITS.valuesOfEvent} values`;
    return { type, text, errors: [{ error: 'invalid_value', message }] };
  }
  row.addFixed(event, context);
  const builders = [row];
  if (type !== 'track' || settings.mode === 'json') row.addProperties(properties, values);
  else {
    const ofName = tableOfName(event, tables, mapping);
    const named = ofName === null ? null : build(ofName, id);
    named?.addFixed(event, context);
    named?.addProperties(properties, values);
    if (named !== null) builders.push(named);
    // Without a table for its name, they stay together.
    else row.leave(properties, root);
  }

  const peopleTable = changesPeople ? PEOPLE_OF[type] : undefined;
  const personId = type === 'group' ? groupId : userId;
  const hasPerson = peopleTable !== undefined && personId !== null && mayWrite(peopleTable);
  const person = hasPerson ? build(peopleTable, personId) : null;
  person?.addProperties(properties, values);

  const errors = [...builders, ...(person === null ? [] : [person])].flatMap((builder) => builder.errors);
  if (errors.length > 0) return { type, text, errors: errors.slice(0, LIMITS.errorsListed) };
  const unmapped = builders.reduce((sum, builder) => sum + builder.unmapped, 0);
  const rows = builders.map((builder) => builder.row());
  return { type, id, size: text.length, rows, person: person?.row() ?? null, unmapped };
}

/** The table for events of the name of a `track`; null: it has none. */
function tableOfName({ name }: TrackedEvent, tables: KnownTables, { mayWrite }: Mapping): string | null {
  const ofName = tableNameOf(name ?? '');
  if (ofName === null || !mayWrite(ofName)) return null;
  const table = tables.get(ofName);
  return table === undefined || factsOf(table).isForEvents ? ofName : null;
}

/** What Segment calls timestamp: when it happened by our clock, if the sender has said what its clock showed. */
function timeOf({ timestamp, originalTimestamp, sentAt }: TrackedEvent, receivedAt: Time): Time {
  if (timestamp !== null) return timestamp;
  if (originalTimestamp === null) return receivedAt;
  if (sentAt === null) return originalTimestamp;
  const ms = receivedAt.ms - (sentAt.ms - originalTimestamp.ms);
  // A clock may be off by thousands of years.
  return ms > EARLIEST_MS && ms < LATEST_MS ? timeAt(ms) : originalTimestamp;
}

const EARLIEST_MS = Date.parse('0001-01-01T00:00:00Z');
const LATEST_MS = Date.parse('9999-12-31T23:59:59Z');

export const timeAt = (ms: number): Time => ({ ms, text: new Date(ms).toISOString() });

/** What the rows of a table need to know, made once for each version of it. */
interface TableFacts {
  readonly indexes: ReadonlyMap<string, number>;
  /** Whether it is for events: others of the project may bear the name of one. */
  readonly isForEvents: boolean;
}

const FACTS = new WeakMap<Table, TableFacts>();

function factsOf(table: Table): TableFacts {
  let facts = FACTS.get(table);
  if (facts === undefined) {
    const types = new Map(table.columns.map(({ name, type }) => [name, type]));
    const isForEvents = ['id', 'event', 'event_text'].every((name) => types.get(name) === 'TEXT');
    // Postgres computes the others.
    const indexes = new Map(
      table.columns.flatMap(({ name, isGeneratedAlways }, index) => (isGeneratedAlways ? [] : [[name, index]])),
    );
    facts = { indexes, isForEvents: isForEvents && types.get('received_at') === 'TIMESTAMP' };
    FACTS.set(table, facts);
  }
  return facts;
}

/** The names that lead to an object in an event; null: those of the event itself. */
interface Path {
  readonly parent: Path | null;
  readonly key: string;
}

const namesOf = ({ parent, key }: Path): string[] => (parent === null ? [key] : [...namesOf(parent), key]);

const CONTEXT: Path = { parent: null, key: 'context' };
const PROPERTIES: Path = { parent: null, key: 'properties' };
const TRAITS: Path = { parent: null, key: 'traits' };

/** A value, and where in the event it is. */
interface Field {
  /** null: no column can have its name. */
  readonly column: string | null;
  readonly node: JsonNode;
  readonly path: Path;
  readonly key: string;
}

/**
 * The values of an object, and of the objects in it; those that are null are none. Stops at the limit.
 * @param prefix the names that lead to the object
 */
function fieldsOf(members: readonly JsonMember[], prefix: string, path: Path, fields: Field[] = []): Field[] {
  for (const [key, node] of members) {
    if (node.kind === 'null') continue;
    if (fields.length > LIMITS.valuesOfEvent) break;
    const name = prefix === '' ? key : `${prefix}_${key}`;
    if (node.kind === 'object') fieldsOf(node.members, name, { parent: path, key }, fields);
    else fields.push({ column: columnNameOf(name), node, path, key });
  }
  return fields;
}

/** Fills the row of an event in one table. */
class RowBuilder {
  readonly errors: ErrorDetail[] = [];
  unmapped = 0;
  private readonly cells: (string | null | undefined)[];
  private readonly indexes: ReadonlyMap<string, number>;
  private readonly left: [path: Path, node: JsonNode][] = [];

  constructor(
    private readonly table: Table,
    private readonly id: string,
    private readonly at: Time,
    private readonly mapping: Mapping,
    private readonly wanted: Wanted,
  ) {
    this.cells = new Array<undefined>(table.columns.length);
    this.indexes = factsOf(table).indexes;
    this.set('id', id, 'TEXT');
    this.set('received_at', mapping.receivedAt.text, 'TIMESTAMP');
    this.set('timestamp', at.text, 'TIMESTAMP');
  }

  /** @param context its values with their columns */
  addFixed(event: TrackedEvent, context: readonly Field[]): void {
    const { type, sentAt, originalTimestamp, userId, anonymousId, name } = event;
    const { settings, address } = this.mapping;
    const isFlat = settings.mode === 'columns';
    this.set('sent_at', sentAt?.text, 'TIMESTAMP');
    this.set('original_timestamp', originalTimestamp?.text, 'TIMESTAMP');
    this.set('user_id', userId, 'TEXT');
    this.set('anonymous_id', anonymousId, 'TEXT');
    if (type === 'track') {
      this.set('event', tableNameOf(name ?? '') ?? name, 'TEXT');
      this.set('event_text', name, 'TEXT');
    } else if (type === 'page' || type === 'screen') {
      this.set('name', name, 'TEXT');
      this.set('category', event.category, 'TEXT');
    } else if (type === 'group') this.set('group_id', event.groupId, 'TEXT');
    else if (type === 'alias') this.set('previous_id', event.previousId, 'TEXT');
    if (!isFlat) this.setJson('context', event.context);
    this.add(context, isFlat);
    const ip = this.indexes.get('context_ip');
    if (ip !== undefined && this.cells[ip] === undefined) this.set('context_ip', address, 'TEXT');
  }

  /** @param values theirs, with their columns */
  addProperties(members: readonly JsonMember[], values: readonly Field[]): void {
    const isFlat = this.mapping.settings.mode === 'columns';
    if (!isFlat) this.setJson(jsonColumnOf(this.table.name), members);
    this.add(values, isFlat);
  }

  /** Keeps members together, without columns. */
  leave(members: readonly JsonMember[], path: Path): void {
    for (const [key, node] of members) this.keep({ parent: path, key }, node);
  }

  /** Call this at the end. */
  row(): EventRow {
    if (this.left.length > 0)
      this.set(UNMAPPED, nested(this.left.map(([path, node]) => [namesOf(path), node])), 'JSONB');
    return { table: this.table, id: this.id, at: this.at, cells: this.cells };
  }

  /**
   * Gives values columns.
   * @param keeps whether what has no column is kept, or is stored already
   */
  private add(fields: readonly Field[], keeps: boolean): void {
    for (const { column, node, path, key } of fields)
      if (!this.addValue(column, node) && keeps) this.keep({ parent: path, key }, node);
  }

  /** @param name null: no column can have it @returns false: there is no column for it */
  private addValue(name: string | null, node: JsonNode): boolean {
    if (name === null) return false;
    const index = this.indexes.get(name);
    const column = index === undefined ? undefined : this.table.columns[index];
    if (column === undefined || index === undefined) {
      this.wantColumn(name, node);
      return false;
    }
    const cell = cellOf(column, node);
    if (cell instanceof CellError) {
      if (column.type === 'INTEGER' && node.kind === 'number') this.wanted.wideColumn(this.table.name, name);
      return false;
    }
    // Two names of properties may be one of a column.
    const before = this.cells[index];
    if (before !== undefined) return before === cell;
    this.cells[index] = cell;
    return true;
  }

  private wantColumn(name: string, node: JsonNode): void {
    const { table, mapping, wanted } = this;
    if (mapping.settings.mode === 'json') return;
    const type = typeFor(node);
    // Not counting `id`.
    const columns = table.columns.length - 1 + (wanted.columns.get(table.name)?.size ?? 0);
    // Names that differ only by case would be one to most programs.
    const isFree = !table.columns.some((column) => column.name.toLowerCase() === name);
    if (type !== null && isFree && columns < LIMITS.columnsPerTable) wanted.column(table.name, name, type);
  }

  /** Keeps a value without a column. */
  private keep(path: Path, node: JsonNode): void {
    this.unmapped++;
    this.left.push([path, node]);
    if (!this.indexes.has(UNMAPPED)) this.wanted.column(this.table.name, UNMAPPED, 'JSONB');
    this.checkJson(namesOf(path), node);
  }

  /** Checks what goes into a column of JSONB. */
  private checkJson(names: readonly string[], node: JsonNode): void {
    const reason = unstorable(names.join('.'));
    // The error could not be stored with the name in it.
    if (reason !== undefined) this.errors.push({ error: 'invalid_value', message: `A name in the event: ${reason}` });
    else {
      const cell = readCell(JSONB, node);
      if (cell instanceof CellError) this.complain(names.join('.'), cell);
    }
  }

  /** A value of the service, which has been checked for the type; the column may be of another of the project's. */
  private set(name: string, value: string | null | undefined, type: ColumnType): void {
    const index = this.indexes.get(name);
    if (index === undefined || value == null) return;
    const column = this.table.columns[index] as Column;
    const cell = column.type === type ? value : readCell(column, { kind: 'string', value });
    if (cell instanceof CellError) this.complain(name, cell);
    else this.cells[index] = cell;
  }

  private setJson(name: string, members: readonly JsonMember[]): void {
    for (const [key, node] of members) this.checkJson([name, key], node);
    const texts = members.map(([key, node]) => `${JSON.stringify(key)}:${jsonText(node)}`);
    this.set(name, `{${texts.join()}}`, 'JSONB');
  }

  private complain(column: string, { reason }: CellError): void {
    this.errors.push({ error: 'invalid_value', column, message: `${column}: ${reason}` });
  }
}

const JSONB = plainColumn('JSONB');
const INTEGER = plainColumn('INTEGER');

const hasFraction = (number: string): boolean => /[.eE]/.test(number);

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
