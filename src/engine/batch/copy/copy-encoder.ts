/**
 * The fast way of a batch: from the bytes of the request straight to the bytes of COPY, in one walk, without an object
 * or a string for a record. It only ever says yes: whatever it does not understand at once, wrong or merely rare, it
 * leaves to the reference (`parse.ts`, `encode.ts`), which finds out and names what is wrong.
 */
import { isUtf8 } from 'node:buffer';
import { LIMITS } from '../../../contract/limits.js';
import type { ColumnShape, TableShape } from '../../../postgres/table-shape.js';
import { BinaryCells } from './binary-cells.js';
import { CLOSE_BRACE, CLOSE_BRACKET, COMMA, OPEN_BRACE, OPEN_BRACKET, QUOTE, SPACE } from './bytes.js';
import { type CellWriter, LENGTH_BYTES } from './cell-writer.js';
import { JsonBytes } from './json-bytes.js';
import type { KeyTable } from './key-table.js';
import type { CopyPlan } from './plan.js';
import { TextCells } from './text-cells.js';

export interface CopyData {
  /** Number of records. */
  readonly records: number;
  /** Indices of the plan's columns that the data has, in its order. */
  readonly columns: readonly number[];
  /** Rows in the plan's format, in memory that is lent: give it back when it has been sent. */
  readonly data: Uint8Array;
}

/**
 * What cells may grow by: the shortest, `"a":1,`, becomes eight bytes and a length. A column that a record does not
 * mention is a length alone.
 */
const GROWTH = 2;

export class CopyEncoder {
  private readonly json = new JsonBytes();
  private readonly writers = { binary: new BinaryCells(this.json), text: new TextCells(this.json) };
  /** Where the cell of each column begins, as it was written last; below the beginning of the row: not in this record. */
  private starts = new Int32Array(0);
  /** Columns of the data in its order, and the place of each in it, -1 for one that is not part of it. */
  private columns: readonly number[] = [];
  private places = new Int16Array(0);
  /** Columns with a default that each record must give. */
  private defaults = 0;

  /** @returns null where the reference has to look at the batch */
  encode(body: Uint8Array, plan: CopyPlan): CopyData | null {
    if (!isUtf8(body)) return null;
    const { json } = this;
    const writer = this.begin(body, plan);
    let at = json.take(OPEN_BRACKET, 0);
    if (at < 0) return null;
    let records = 0;
    for (;;) {
      if (++records > LIMITS.recordsPerBatch) return null;
      writer.reserve(GROWTH * (json.end - at) + LENGTH_BYTES * (plan.table.columns.length + 1));
      at = json.take(OPEN_BRACE, at);
      if (at < 0) return null;
      at = this.record(at, writer, plan, records === 1);
      if (at < 0) return null;
      const behind = json.take(COMMA, at);
      if (behind < 0) break;
      at = behind;
    }
    at = json.take(CLOSE_BRACKET, at);
    if (at < 0 || json.skipSpace(at) !== json.end) return null;
    return { records, columns: this.columns, data: writer.take() };
  }

  /** Takes back the memory of a batch that is with the server, or was given up. */
  release({ data }: CopyData, plan: CopyPlan): void {
    this.writers[plan.format].giveBack(data.buffer as ArrayBuffer);
  }

  private begin(body: Uint8Array, plan: CopyPlan): CellWriter {
    const writer = this.writers[plan.format];
    this.json.load(body);
    writer.length = 0;
    const { length } = plan.table.columns;
    if (this.starts.length < length) {
      this.starts = new Int32Array(length);
      this.places = new Int16Array(length);
    }
    this.starts.fill(-1);
    return writer;
  }

  /**
   * Writes the record whose opening brace ends at `at`. Cells are written as they come; those that come in the order of
   * the columns stay where they are.
   * @returns where the record ends, or -1
   */
  private record(at: number, writer: CellWriter, { table, keys }: CopyPlan, isFirst: boolean): number {
    const { json, starts, places } = this;
    const { bytes } = json;
    const start = writer.beginRow();
    // Of the first record the columns are known only when it is over.
    let inOrder = !isFirst;
    let place = 0;
    let defaults = 0;
    let key = keys.none;
    if ((bytes[at] as number) <= SPACE) at = json.skipSpace(at);
    if (bytes[at] === CLOSE_BRACE) at++;
    else {
      for (;;) {
        key = this.keyAt(at, keys, key);
        if (key < 0) return -1;
        at = json.behindColon(at + (keys.lengths[key] as number));
        const column = keys.columns[key] as number;
        if (at < 0 || (starts[column] as number) >= start) return -1;
        const shape = table.columns[column] as ColumnShape;
        if (shape.hasDefault) defaults++;
        if (!isFirst) {
          const own = places[column] as number;
          if (own < 0) return -1;
          if (own < place) inOrder = false;
          else for (; place <= own; place++) if (place < own) writer.null();
        }
        starts[column] = writer.length;
        at = writer.cell(shape, at);
        if (at < 0) return -1;
        if ((bytes[at] as number) <= SPACE) at = json.skipSpace(at);
        const byte = bytes[at++];
        if (byte === CLOSE_BRACE) break;
        if (byte !== COMMA) return -1;
        if (bytes[at] !== QUOTE) at = json.skipSpace(at);
      }
    }
    if (isFirst) this.columnsOfFirst(table, start, defaults);
    // A record of nothing has no line in COPY; one that leaves a default out, or adds one, needs an INSERT of its own.
    if (defaults !== this.defaults || this.columns.length === 0) return -1;
    const written = writer.length;
    if (inOrder) for (; place < this.columns.length; place++) writer.null();
    else writer.arrange(start, this.columns, starts);
    writer.endRow(start, this.columns.length);
    // The next row begins where cells of this one were.
    if (writer.length < written) starts.fill(-1);
    return at;
  }

  /** The spelling of a column's name that stands at `at`: mostly the one that came behind `previous` before. */
  private keyAt(at: number, keys: KeyTable, previous: number): number {
    const { view } = this.json;
    const expected = keys.followers[previous] as number;
    if (expected !== keys.none && keys.standsAt(expected, view, at)) return expected;
    const found = keys.find(view, at);
    if (found >= 0) keys.followers[previous] = found;
    return found;
  }

  /** All columns without a default, and those with one that the first record gives. */
  private columnsOfFirst({ columns }: TableShape, start: number, defaults: number): void {
    const { starts, places } = this;
    this.columns = [...columns.keys()].filter(
      (column) => !columns[column]?.hasDefault || (starts[column] as number) >= start,
    );
    this.defaults = defaults;
    places.fill(-1);
    this.columns.forEach((column, place) => (places[column] = place));
  }
}
