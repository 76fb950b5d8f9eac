/**
 * The fast way of a batch: from the bytes of the request straight to the bytes of COPY, in one walk, without an object
 * or a string for a record. It only ever says yes: whatever it does not understand at once, wrong or merely rare, it
 * leaves to the reference (`parse.ts`, `encode.ts`), which finds out and names what is wrong.
 */
import { isUtf8 } from 'node:buffer';
import { LIMITS } from '../../../contract/limits.js';
import { BinaryCells } from './binary-cells.js';
import { CLOSE_BRACE, CLOSE_BRACKET, COLON, COMMA, OPEN_BRACE, OPEN_BRACKET } from './bytes.js';
import type { CellWriter } from './cell-writer.js';
import { JsonScanner } from './json-scanner.js';
import { KeyTable } from './key-table.js';
import type { CopyColumn, CopyPlan } from './plan.js';
import { TextCells } from './text-cells.js';

export interface CopyData {
  /** Number of records. */
  readonly records: number;
  /** Indices of the plan's columns that the data has, in its order. */
  readonly columns: readonly number[];
  /** Rows in the plan's format, in memory that is lent: give it back when it has been sent. */
  readonly data: Uint8Array;
}

/** Depth of a cell: the array of records and the record are open around it. */
const CELL_DEPTH = 2;

/** What a cell may grow by beyond twice its bytes: a date alone gets a time, a digit becomes eight bytes and a length. */
const CELL_SLACK = 16;

export class CopyEncoder {
  private readonly scanner = new JsonScanner();
  private readonly writers = { binary: new BinaryCells(), text: new TextCells() };
  private writer: CellWriter = this.writers.binary;
  private plan: CopyPlan | null = null;
  private keys = new KeyTable([]);
  private body: Uint8Array = new Uint8Array(0);
  /** Where the cell of each column lies in the current record; `seen` tells which record it belongs to. */
  private starts = new Int32Array(0);
  private ends = new Int32Array(0);
  private kinds = new Uint8Array(0);
  private seen = new Int32Array(0);
  /** The column whose key came behind that of a column, or first of all (at the end), the last time. */
  private followers = new Int32Array(0);

  /** @returns null where the reference has to look at the batch */
  encode(body: Uint8Array, plan: CopyPlan): CopyData | null {
    if (!isUtf8(body)) return null;
    this.begin(body, plan);
    const { scanner, writer } = this;
    if (!scanner.take(OPEN_BRACKET)) return null;
    let columns: readonly number[] = [];
    let records = 0;
    do {
      if (++records > LIMITS.recordsPerBatch) return null;
      const start = scanner.at;
      const given = this.record(records, plan);
      if (given < 0) return null;
      if (records === 1) columns = this.columnsOfFirst(plan);
      // A record of nothing has no line in COPY; one that leaves a default out, or adds one, needs an INSERT of its own.
      if (columns.length === 0 || !this.hasDefaultsOf(columns, given, records, plan)) return null;
      writer.beginRow(columns.length, 2 * (scanner.at - start) + CELL_SLACK * (columns.length + 1));
      if (!this.row(columns, records, plan)) return null;
    } while (scanner.take(COMMA));
    if (!scanner.take(CLOSE_BRACKET)) return null;
    scanner.skipSpace();
    if (!scanner.isAtEnd) return null;
    return { records, columns, data: writer.take() };
  }

  /** Takes back the memory of a batch that is with the server, or was given up. */
  release({ data }: CopyData, plan: CopyPlan): void {
    this.writers[plan.format].giveBack(data.buffer as ArrayBuffer);
  }

  private begin(body: Uint8Array, plan: CopyPlan): void {
    this.body = body;
    this.scanner.begin(body);
    this.writer = this.writers[plan.format];
    this.writer.begin(body);
    this.keys = plan.keys;
    const { length } = plan.columns;
    if (this.seen.length < length) {
      this.starts = new Int32Array(length);
      this.ends = new Int32Array(length);
      this.kinds = new Uint8Array(length);
      this.seen = new Int32Array(length);
    }
    if (this.plan !== plan) this.followers = Int32Array.from({ length: length + 1 }, (_, i) => (i + 1) % (length + 1));
    this.plan = plan;
    this.seen.fill(0);
  }

  /** Notes where the cells of the next record lie. @returns how many columns with a default it gives, -1 to give up */
  private record(number: number, plan: CopyPlan): number {
    const { scanner, seen, starts, ends, kinds } = this;
    if (!scanner.take(OPEN_BRACE)) return -1;
    if (scanner.take(CLOSE_BRACE)) return 0;
    let defaults = 0;
    let column = plan.columns.length;
    for (;;) {
      scanner.skipSpace();
      column = this.columnBehind(column);
      if (column < 0 || seen[column] === number || !scanner.take(COLON)) return -1;
      scanner.skipSpace();
      seen[column] = number;
      starts[column] = scanner.at;
      if (!scanner.value(CELL_DEPTH)) return -1;
      ends[column] = scanner.at;
      kinds[column] = scanner.kind;
      if (plan.columns[column]?.shape.hasDefault) defaults++;
      if (scanner.take(COMMA)) continue;
      return scanner.take(CLOSE_BRACE) ? defaults : -1;
    }
  }

  /** The column of the key at which the walk stands, and steps over the key; -1 where there is none. */
  private columnBehind(last: number): number {
    const { scanner, body, keys, followers } = this;
    let column = followers[last] as number;
    if (column === followers.length - 1 || !keys.standsAt(column, body, scanner.at)) {
      column = keys.find(body, scanner.at);
      if (column < 0) return -1;
      followers[last] = column;
    }
    scanner.at += keys.lengthOf(column);
    return column;
  }

  /** All columns without a default, and those with one that the first record gives. */
  private columnsOfFirst({ columns }: CopyPlan): number[] {
    return [...columns.keys()].filter((index) => !columns[index]?.shape.hasDefault || this.seen[index] === 1);
  }

  private hasDefaultsOf(columns: readonly number[], given: number, record: number, plan: CopyPlan): boolean {
    const { seen } = this;
    let expected = 0;
    for (const index of columns) {
      if (!plan.columns[index]?.shape.hasDefault) continue;
      if (seen[index] !== record) return false;
      expected++;
    }
    return expected === given;
  }

  private row(columns: readonly number[], record: number, plan: CopyPlan): boolean {
    const { writer, seen, kinds, starts, ends } = this;
    for (const index of columns) {
      if (seen[index] !== record) writer.null();
      else {
        const { shape } = plan.columns[index] as CopyColumn;
        if (!writer.cell(shape, kinds[index] as number, starts[index] as number, ends[index] as number)) return false;
      }
    }
    writer.endRow();
    return true;
  }
}
