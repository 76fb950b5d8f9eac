/** Converts refused records to cells that the user can correct, and back. */
import { signal } from '@preact/signals';
import type { FieldMapping } from '../../../src/import/field-mapping.js';
import { cellsOf, isJson, membersOf } from '../../../src/import/json-records.js';
import { type EncodedRecord, refusedLine } from '../../../src/import/refused-lines.js';
import { cellEncoder } from '../../../src/import/values.js';
import { isNull } from '../results/cells.js';
import type { PlannedFile } from '../../../src/import/import-plan.js';
import type { FileReadOptions } from '../../../src/import/source.js';
import type { RefusedRow } from './stored-journal.js';

export interface RefusedColumn {
  readonly name: string;
  /** null: the table has no such column. */
  readonly type: string | null;
}

/** A record to send, or an error found in a cell before sending. */
export type Corrected = { record: EncodedRecord } | { column: string; message: string };

/** The records, and how they are read. */
interface RefusedRecords {
  readonly header: {
    readonly plan: {
      readonly files: readonly Pick<PlannedFile, 'path' | 'mappings'>[];
      readonly reading: FileReadOptions;
    };
  };
  readonly refused: ReadonlyMap<string, RefusedRow>;
}

export class Corrections {
  /** The text that the user typed, by the row's id and the column. */
  readonly typed = signal<ReadonlyMap<string, ReadonlyMap<string, string>>>(new Map());
  /** Mappings of all fields, in the fields' order. */
  private readonly mappings: readonly FieldMapping[];
  /** Columns with errors, in the order in which these were found; they are shown first. */
  private readonly wrong = new Set<string>();
  private readonly others = new Set<string>();
  private readonly seen = new Set<string>();
  private known: readonly RefusedColumn[] = [];

  constructor(private readonly journal: RefusedRecords) {
    this.mappings = journal.header.plan.files[0]?.mappings ?? [];
  }

  /** Columns with errors, then the others. */
  columns(): readonly RefusedColumn[] {
    for (const { id, record, errors } of this.journal.refused.values()) {
      if (this.seen.has(id)) continue;
      this.seen.add(id);
      for (const { column } of errors) if (column !== undefined) this.wrong.add(column);
      for (const name of membersIn(record)?.keys() ?? []) this.others.add(name);
      this.known = [];
    }
    if (this.known.length === 0) {
      const planned = this.mappings.flatMap(({ column }) => column ?? []);
      this.known = [...new Set([...this.wrong, ...planned, ...this.others])].map((name) => {
        return { name, type: this.mappingOf(name)?.type ?? null };
      });
    }
    return this.known;
  }

  /** The JSON text of a cell; undefined if the record does not contain it. */
  jsonOf({ record }: RefusedRow, column: string): string | undefined {
    const members = membersIn(record);
    if (members !== undefined) return members.get(column);
    // Cells that do not fit the header are shown as far as possible.
    const cell = record.json.startsWith('[')
      ? cellsOf(record.json)[this.mappings.findIndex((mapping) => mapping.column === column)]
      : undefined;
    if (cell === undefined) return undefined;
    return isNull(cell) ? cell : this.encoded(column, this.mappingOf(column)?.type ?? null, asTyped(cell));
  }

  /** The text as a user types it: empty for NULL, `""` for the empty text. */
  textOf(row: RefusedRow, column: string): string {
    return this.typed.value.get(row.id)?.get(column) ?? asTyped(this.jsonOf(row, column));
  }

  isChanged(row: RefusedRow, column: string): boolean {
    return this.typed.value.get(row.id)?.has(column) ?? false;
  }

  type(row: RefusedRow, column: string, text: string): void {
    const cells = new Map(this.typed.value.get(row.id));
    if (text === asTyped(this.jsonOf(row, column))) cells.delete(column);
    else cells.set(column, text);
    const all = new Map(this.typed.value);
    if (cells.size === 0) all.delete(row.id);
    else all.set(row.id, cells);
    this.typed.value = all;
  }

  forget(ids: readonly string[]): void {
    const left = new Map(this.typed.value);
    for (const id of ids) left.delete(id);
    this.typed.value = left;
  }

  /** A record that is not an object, such as a line with too many fields, must be corrected before it can be sent. */
  canSend(row: RefusedRow): boolean {
    return this.typed.value.has(row.id) || membersIn(row.record) !== undefined;
  }

  /** Returns the corrected record. The file's formats apply to typed text, as for its cells. */
  corrected(row: RefusedRow): Corrected {
    const typed = this.typed.value.get(row.id) ?? new Map<string, string>();
    const members: string[] = [];
    for (const { name, type } of this.columns()) {
      const text = typed.get(name);
      const json = text === undefined ? this.jsonOf(row, name) : this.encoded(name, type, text);
      if (json === undefined) continue;
      if (type === 'JSONB' && !isJson(text ?? json))
        return { column: name, message: `Column "${name}" takes JSON, and this is not JSON` };
      members.push(`${JSON.stringify(name)}:${json}`);
    }
    return { record: { line: row.record.line, json: `{${members.join(',')}}` } };
  }

  /** Returns NDJSON that can be corrected and imported. */
  toLines(rows: readonly RefusedRow[]): string {
    const file = this.journal.header.plan.files[0]?.path ?? '';
    return rows.map(({ record, errors }) => refusedLine(file, { record, errors })).join('');
  }

  toCsv(rows: readonly RefusedRow[]): string {
    const columns = this.columns();
    const header = [...columns.map(({ name }) => quoted(name)), 'errors'].join(',');
    const lines = rows.map((row) =>
      [
        ...columns.map(({ name }) => csvField(this.jsonOf(row, name))),
        quoted(row.errors.map(({ message }) => message).join('; ')),
      ].join(','),
    );
    return `${[header, ...lines].join('\r\n')}\r\n`;
  }

  private mappingOf(column: string): FieldMapping | undefined {
    return this.mappings.find((mapping) => mapping.column === column);
  }

  /**
   * undefined: the member is omitted, so that the service generates an id, or a column that does not exist disappears.
   */
  private encoded(column: string, type: string | null, text: string): string | undefined {
    if (text === '') return column === 'id' || type === null ? undefined : 'null';
    if (text === '""') return '""';
    const { dates, epoch } = this.mappingOf(column) ?? {};
    const notation = { ...this.journal.header.plan.reading };
    if (dates !== undefined) notation.dates = dates;
    if (epoch !== undefined) notation.epoch = epoch;
    return cellEncoder(type ?? 'TEXT', notation)(text);
  }
}

const membersIn = ({ json }: EncodedRecord): Map<string, string> | undefined => {
  const members = membersOf(json);
  return members === undefined ? undefined : new Map(members);
};

function asTyped(json: string | undefined): string {
  if (json === undefined || isNull(json)) return '';
  if (json === '""') return json;
  return json.startsWith('"') ? (JSON.parse(json) as string) : json;
}

const quoted = (text: string): string => `"${text.replaceAll('"', '""')}"`;

function csvField(json: string | undefined): string {
  const text = asTyped(json);
  return text === '' || text === '""' ? text : quoted(text);
}
