/** Changes as JSON: what readers of the feed, clients and endpoints get. */
import { JsonBytes, writerOfText, type WriteText } from '../codec/index.js';
import type { ChangeOperation } from '../contract/wire/changes.js';
import { type Bounds, type Change, NULL, readMessage, readRowChange, type Relation, UNCHANGED } from '../pg/index.js';
import { isBefore, type Place } from './cursor.js';
import { ERASED } from './frames.js';
import type { LogState } from './log-state.js';
import { isSchemaTable, schemaRow, type SchemaRow } from './schema-row.js';

/** Which columns of a table a reader sees: all, some, or the table not at all (null). */
export type VisibleColumns = 'all' | ReadonlySet<string> | null;

export interface ChangeFilter {
  /** As the API names them; null: all. */
  readonly tables: ReadonlySet<string> | null;
  /** null: all. */
  readonly operations: ReadonlySet<ChangeOperation> | null;
  /** What its role may read of a table. */
  readonly visible: (oid: number) => VisibleColumns;
  /** Of what it may read, the columns it wants, besides those of the key; null: all. */
  readonly columns: ReadonlySet<string> | null;
}

export interface EncodedChange {
  readonly place: Place;
  readonly cursor: string;
  readonly operation: ChangeOperation;
  readonly table: string;
  /** Where its JSON is in the bytes of all changes. */
  readonly start: number;
  readonly end: number;
}

/** The name of a table in the API: with its schema, unless that is the project's. */
export const tableName = (schema: string, name: string): string => (schema === 'data' ? name : `${schema}.${name}`);

export interface EncodedChanges {
  readonly changes: readonly EncodedChange[];
  /** Their JSON, with commas between. */
  readonly bytes: Buffer;
}

interface Column {
  readonly name: string;
  /** Its name as a key of JSON, and that of a member that is not the first. */
  readonly first: Buffer;
  readonly next: Buffer;
  readonly write: WriteText;
  readonly isShown: boolean;
  readonly isKey: boolean;
}

interface Table {
  readonly name: string;
  /** What is between the cursor and the members of the row, by operation. */
  readonly heads: Partial<Record<ChangeOperation, Buffer>>;
  readonly columns: readonly Column[];
  readonly hasKey: boolean;
}

const NOTHING = Buffer.alloc(0);
const COMMA = 0x2c;

export class ChangeEncoder {
  /** The transaction of {@link seen} in which the reading is. */
  private passing: number | null = null;
  readonly changes: EncodedChange[] = [];
  private readonly out = new JsonBytes();
  /** What all changes of a transaction begin and end with. */
  private common: {
    readonly of: LogState['begin'];
    readonly cursor: string;
    readonly start: Buffer;
    readonly end: Buffer;
  } = {
    of: null,
    cursor: '',
    start: NOTHING,
    end: NOTHING,
  };
  private readonly tables = new Map<Relation, { readonly keys: unknown; readonly table: Table | null }>();

  constructor(
    private readonly epoch: string,
    private readonly filter: ChangeFilter,
    /** The changes after it are encoded. */
    private readonly after: Place,
    /** Transactions after the cursor that a snapshot has shown already. */
    private readonly seen: Set<number>,
  ) {}

  /** Bytes of the changes. */
  get length(): number {
    return this.out.length;
  }

  encoded(): EncodedChanges {
    return { changes: this.changes, bytes: this.out.whole() };
  }

  /** Adds those changes of a message that the reader gets. @param place after the last of them */
  encode(message: Buffer, place: Place, state: LogState): void {
    const { begin } = state;
    if (begin === null || message[0] === ERASED || this.wasSeen(begin.xid)) return;
    const read = readRowChange(message);
    if (read === null) {
      const other = readMessage(message);
      if (other?.type === 'truncate') this.truncated(other.ids, place, state);
      return;
    }
    const relation = state.relations.get(read.id);
    if (relation === undefined) throw new Error(`The log does not describe the table ${read.id}`);
    if (isSchemaTable(relation)) return this.described(schemaRow(message, relation), place, state);
    const table = this.tableOf(read.id, relation, state);
    const { change } = read;
    if (table === null || !this.wants(change.kind)) return;
    this.change(change.kind, table, place, state, () => writeRow(this.out, table, message, change));
  }

  private wasSeen(xid: number): boolean {
    if (xid !== this.passing && this.passing !== null) {
      this.seen.delete(this.passing);
      this.passing = null;
    }
    if (this.seen.has(xid)) this.passing = xid;
    return this.passing !== null;
  }

  private truncated(oids: readonly number[], { lsn, index }: Place, state: LogState): void {
    if (!this.wants('truncate')) return;
    for (const [i, oid] of oids.entries()) {
      const relation = state.relations.get(oid);
      const table = relation === undefined ? null : this.tableOf(oid, relation, state);
      const place = { lsn, index: index - oids.length + i + 1 };
      // The cursor may be between the tables of one TRUNCATE.
      if (table === null || !isBefore(this.after, place)) continue;
      this.change('truncate', table, place, state, () => this.out.text('"key":null,"record":null'));
    }
  }

  private described(row: SchemaRow, place: Place, state: LogState): void {
    if (row.table_oid === null || row.schema_name === null || row.table_name === null || !this.wants('schema')) return;
    const name = tableName(row.schema_name, row.table_name);
    const visible = this.filter.visible(Number(row.table_oid));
    if (!this.hasTable(name) && !(row.was !== null && this.hasTable(row.was))) return;
    if (visible === null && row.change !== 'dropped') return;
    const columns = visible === 'all' ? row.columns : row.columns?.filter((column) => visible?.has(column.name));
    const { change, command, was, partition, key, snapshot } = row;
    const fields = {
      key,
      change,
      command,
      ...(was !== null && { was }),
      ...(partition !== null && { partition }),
      columns: columns ?? null,
      snapshot,
    };
    const json = JSON.stringify(fields).slice(1, -1);
    this.change('schema', { name, heads: {} }, place, state, () => this.out.text(json));
  }

  /** @param writeMembers those that tell of the row */
  private change(
    operation: ChangeOperation,
    table: Pick<Table, 'name' | 'heads'>,
    place: Place,
    state: LogState,
    writeMembers: () => void,
  ): void {
    const common = this.commonOf(place, state);
    const { out } = this;
    if (out.length > 0) out.byte(COMMA);
    const start = out.length;
    const seen = this.seen.size === 0 ? '' : `.${[...this.seen].join('-')}`;
    const rest = `${place.index}${seen}`;
    out.copy(common.start);
    out.ascii(rest);
    out.copy((table.heads[operation] ??= Buffer.from(`","op":"${operation}","table":${JSON.stringify(table.name)},`)));
    writeMembers();
    out.copy(common.end);
    this.changes.push({ place, cursor: common.cursor + rest, operation, table: table.name, start, end: out.length });
  }

  private commonOf({ lsn }: Place, { begin, xid }: LogState): ChangeEncoder['common'] {
    if (this.common.of === begin) return this.common;
    const cursor = `${this.epoch}.${lsn.toString(16)}.`;
    const committedAt = timeText(begin?.committedAt ?? 0n);
    const end = Buffer.from(`,"committed_at":"${committedAt}","transaction":"${xid}"}`);
    return (this.common = { of: begin, cursor, start: Buffer.from(`{"cursor":"${cursor}`), end });
  }

  private wants(operation: ChangeOperation): boolean {
    return this.filter.operations?.has(operation) ?? true;
  }

  private hasTable(name: string): boolean {
    return this.filter.tables?.has(name) ?? true;
  }

  /** null: the reader does not get it. */
  private tableOf(oid: number, relation: Relation, { keys }: LogState): Table | null {
    const primaryKey = keys.get(oid) ?? null;
    const known = this.tables.get(relation);
    if (known !== undefined && known.keys === primaryKey) return known.table;
    const table = this.readTable(oid, relation, primaryKey);
    this.tables.set(relation, { keys: primaryKey, table });
    return table;
  }

  private readTable(oid: number, relation: Relation, primaryKey: readonly string[] | null): Table | null {
    const name = tableName(relation.schema, relation.name);
    const visible = this.hasTable(name) ? this.filter.visible(oid) : null;
    if (visible === null) return null;
    const columns = relation.columns.map(({ name, isKey, typeOid }): Column => {
      // With the identity FULL, all columns count as the key of the change.
      const isOfKey = relation.isFull ? (primaryKey?.includes(name) ?? false) : isKey;
      const isVisible = visible === 'all' || visible.has(name);
      return {
        name,
        first: Buffer.from(`${JSON.stringify(name)}:`),
        next: Buffer.from(`,${JSON.stringify(name)}:`),
        write: writerOfText(typeOid),
        isShown: isVisible && (isOfKey || this.filter.columns === null || this.filter.columns.has(name)),
        isKey: isVisible && isOfKey,
      };
    });
    return { name, heads: {}, columns, hasKey: columns.some(({ isKey }) => isKey) };
  }
}

/** The members of a change that tell of its row. */
function writeRow(out: JsonBytes, table: Table, message: Buffer, change: Change<Bounds>): void {
  const key = (row: Bounds) => writeKey(out, table, message, row);
  const record = (row: Bounds) => writeMembers(out, table, message, row, false);
  out.copy(KEY);
  if (change.kind === 'delete') {
    const { values, isWhole } = change.old;
    key(values);
    out.text(',"record":null');
    if (!isWhole) return;
    out.copy(OLD);
    return record(values);
  }
  const old = change.kind === 'update' ? change.old : null;
  // Postgres does not send a long value that stays the same, but the old row has it.
  const row = old?.isWhole
    ? change.row.map((bound, i) => (bound === UNCHANGED ? (old.values[i] as number) : bound))
    : change.row;
  key(row);
  out.copy(RECORD);
  record(row);
  if (change.kind === 'insert') return;
  if (old !== null) {
    out.copy(OLD);
    // Without FULL, the old row has only its key, which is sent if it has changed.
    (old.isWhole ? record : key)(old.values);
  }
  const unchanged = table.columns.filter(({ isShown }, i) => isShown && row[2 * i] === UNCHANGED);
  if (unchanged.length > 0) out.text(`,"unchanged":${JSON.stringify(unchanged.map(({ name }) => name))}`);
}

function writeKey(out: JsonBytes, table: Table, message: Buffer, row: Bounds): void {
  if (table.hasKey) writeMembers(out, table, message, row, true);
  else out.copy(NULL_JSON);
}

function writeMembers(out: JsonBytes, { columns }: Table, message: Buffer, row: Bounds, isKey: boolean): void {
  let isFirst = true;
  out.byte(OPEN);
  for (let i = 0; i < columns.length; i++) {
    const column = columns[i] as Column;
    const start = row[2 * i] as number;
    if (start === UNCHANGED || !(isKey ? column.isKey : column.isShown)) continue;
    out.copy(isFirst ? column.first : column.next);
    isFirst = false;
    if (start === NULL) out.copy(NULL_JSON);
    else column.write(out, message, start, row[2 * i + 1] as number);
  }
  out.byte(CLOSE);
}

const KEY = Buffer.from('"key":');
const RECORD = Buffer.from(',"record":');
const OLD = Buffer.from(',"old":');
const NULL_JSON = Buffer.from('null');
const OPEN = 0x7b;
const CLOSE = 0x7d;

const EPOCH_MS = Date.UTC(2000, 0, 1);

/** @param microseconds since 2000 */
function timeText(microseconds: bigint): string {
  const text = new Date(EPOCH_MS + Number(microseconds / 1_000n)).toISOString();
  return `${text.slice(0, -1)}${String(microseconds % 1_000n).padStart(3, '0')}Z`;
}
