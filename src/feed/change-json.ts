/** Changes as JSON: what readers of the feed, clients and endpoints get. */
import { jsonOfText, type JsonOfText } from '../codec/index.js';
import type { ChangeOperation } from '../contract/wire/changes.js';
import { type Change, readMessage, type Relation, type Values } from '../pg/index.js';
import { cursorText, type Place } from './cursor.js';
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
  readonly json: string;
}

/** The name of a table in the API: with its schema, unless that is the project's. */
export const tableName = (schema: string, name: string): string => (schema === 'data' ? name : `${schema}.${name}`);

interface Column {
  readonly name: string;
  /** Its name as a key of JSON. */
  readonly key: string;
  readonly json: JsonOfText;
  readonly isShown: boolean;
  readonly isKey: boolean;
}

interface Table {
  readonly name: string;
  readonly columns: readonly Column[];
  readonly hasKey: boolean;
}

const NONE: readonly number[] = [];

export class ChangeEncoder {
  /** The transaction of {@link seen} in which the reading is. */
  private passing: number | null = null;
  /** The end of each change of a transaction. */
  private ending: { readonly of: LogState['begin']; readonly text: string } = { of: null, text: '' };
  private readonly tables = new Map<Relation, { readonly keys: unknown; readonly table: Table | null }>();

  constructor(
    private readonly epoch: string,
    private readonly filter: ChangeFilter,
    /** Transactions after the cursor that a snapshot has shown already. */
    private readonly seen: Set<number>,
  ) {}

  /** @param place after the last change of the message @returns those that the reader gets */
  encode(message: Buffer, place: Place, state: LogState): EncodedChange[] {
    const { begin } = state;
    if (begin === null || message[0] === ERASED || this.wasSeen(begin.xid)) return [];
    const read = readMessage(message);
    if (read?.type === 'truncate') return this.truncated(read.ids, place, state);
    if (read?.type !== 'change') return [];
    const relation = state.relations.get(read.id);
    if (relation === undefined) throw new Error(`The log does not describe the table ${read.id}`);
    if (isSchemaTable(relation)) return this.described(schemaRow(message, relation), place, state);
    const table = this.tableOf(read.id, relation, state);
    const operation = read.change.kind;
    if (table === null || !this.wants(operation)) return [];
    return [this.change(operation, table.name, rowJson(table, read.change), place, state)];
  }

  private wasSeen(xid: number): boolean {
    if (xid !== this.passing && this.passing !== null) {
      this.seen.delete(this.passing);
      this.passing = null;
    }
    if (this.seen.has(xid)) this.passing = xid;
    return this.passing !== null;
  }

  private truncated(oids: readonly number[], { lsn, index }: Place, state: LogState): EncodedChange[] {
    if (!this.wants('truncate')) return [];
    return oids.flatMap((oid, i) => {
      const relation = state.relations.get(oid);
      const table = relation === undefined ? null : this.tableOf(oid, relation, state);
      if (table === null) return [];
      const place = { lsn, index: index - oids.length + i + 1 };
      return [this.change('truncate', table.name, '"key":null,"record":null', place, state)];
    });
  }

  private described(row: SchemaRow, place: Place, state: LogState): EncodedChange[] {
    if (row.table_oid === null || row.schema_name === null || row.table_name === null || !this.wants('schema'))
      return [];
    const name = tableName(row.schema_name, row.table_name);
    const visible = this.filter.visible(Number(row.table_oid));
    if (!this.hasTable(name) && !(row.was !== null && this.hasTable(row.was))) return [];
    if (visible === null && row.change !== 'dropped') return [];
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
    return [this.change('schema', name, JSON.stringify(fields).slice(1, -1), place, state)];
  }

  private change(
    operation: ChangeOperation,
    table: string,
    body: string,
    place: Place,
    { begin, xid }: LogState,
  ): EncodedChange {
    if (this.ending.of !== begin)
      this.ending = {
        of: begin,
        text: `"committed_at":"${timeText(begin?.committedAt ?? 0n)}","transaction":"${xid}"}`,
      };
    const seen = this.seen.size === 0 ? NONE : [...this.seen];
    const cursor = cursorText({ epoch: this.epoch, lsn: place.lsn, index: place.index, seen });
    // Joined into one flat text: one of many pieces takes the garbage collector longer than everything else here.
    const json = [
      '{"cursor":"',
      cursor,
      '","op":"',
      operation,
      '","table":',
      JSON.stringify(table),
      ',',
      body,
      ',',
      this.ending.text,
    ].join('');
    return { place, cursor, operation, table, json };
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
        key: `${JSON.stringify(name)}:`,
        json: jsonOfText(typeOid),
        isShown: isVisible && (isOfKey || this.filter.columns === null || this.filter.columns.has(name)),
        isKey: isVisible && isOfKey,
      };
    });
    return { name, columns, hasKey: columns.some(({ isKey }) => isKey) };
  }
}

/** The members of a change that tell of its row. */
function rowJson(table: Table, change: Change): string {
  if (change.kind === 'insert') return `"key":${keyJson(table, change.row)},"record":${recordJson(table, change.row)}`;
  if (change.kind === 'delete') {
    const { values, isWhole } = change.old;
    return `"key":${keyJson(table, values)},"record":null${isWhole ? `,"old":${recordJson(table, values)}` : ''}`;
  }
  const { old: before, row: sent } = change;
  // Postgres does not send a long value that stays the same, but the old row has it.
  const row = before?.isWhole ? sent.map((value, i) => (value === undefined ? before.values[i] : value)) : sent;
  const unchanged = table.columns.filter(({ isShown }, i) => isShown && row[i] === undefined).map(({ name }) => name);
  // Without FULL, the old row has only its key, which is sent if it has changed.
  const old = before === null ? '' : `,"old":${(before.isWhole ? recordJson : keyJson)(table, before.values)}`;
  return (
    `"key":${keyJson(table, row)},"record":${recordJson(table, row)}${old}` +
    (unchanged.length > 0 ? `,"unchanged":${JSON.stringify(unchanged)}` : '')
  );
}

const keyJson = (table: Table, row: Values): string => (table.hasKey ? membersOf(table, row, true) : 'null');

const recordJson = (table: Table, row: Values): string => membersOf(table, row, false);

function membersOf({ columns }: Table, row: Values, isKey: boolean): string {
  let json = '';
  for (let i = 0; i < columns.length; i++) {
    const column = columns[i] as Column;
    const value = row[i];
    if (value === undefined || !(isKey ? column.isKey : column.isShown)) continue;
    json += `${json === '' ? '{' : ','}${column.key}${value === null ? 'null' : column.json(value)}`;
  }
  return json === '' ? '{}' : `${json}}`;
}

const EPOCH_MS = Date.UTC(2000, 0, 1);

/** @param microseconds since 2000 */
function timeText(microseconds: bigint): string {
  const text = new Date(EPOCH_MS + Number(microseconds / 1_000n)).toISOString();
  return `${text.slice(0, -1)}${String(microseconds % 1_000n).padStart(3, '0')}Z`;
}
