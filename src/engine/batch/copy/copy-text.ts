/**
 * The fast way of a batch: from the bytes of the request straight to the bytes of COPY, in one walk, without an object
 * or a string for a record. It only ever says yes: whatever it does not understand at once, wrong or merely rare, it
 * leaves to the reference (`parse.ts`, `encode.ts`), which finds out and names what is wrong.
 */
import { isUtf8 } from 'node:buffer';
import { LIMITS } from '../../../contract/limits.js';
import { CLOSE_BRACE, CLOSE_BRACKET, COLON, COMMA, LINE_FEED, OPEN_BRACE, OPEN_BRACKET, QUOTE, TAB } from './bytes.js';
import { CellWriter } from './cell-writer.js';
import { JsonScanner, PLAIN_STRING } from './json-scanner.js';
import type { CopyPlan } from './plan.js';

export interface CopyText {
  /** Number of records. */
  readonly records: number;
  /** Indices of the plan's columns that the data has, in its order. */
  readonly columns: readonly number[];
  /** Lines of COPY text, in memory that is lent: give it back when it has been sent. */
  readonly data: Uint8Array;
}

/** Depth of a cell: the array of records and the record are open around it. */
const CELL_DEPTH = 2;

/** What a cell may grow by beyond twice its bytes: a date alone gets a time. */
const CELL_SLACK = 16;

export class CopyTextEncoder {
  private readonly scanner = new JsonScanner();
  private readonly writer = new CellWriter();
  private plan: CopyPlan = {
    table: { schema: '', name: '', columns: [], runsProjectCode: true },
    columns: [],
    indexByName: new Map(),
  };
  private body: Uint8Array = new Uint8Array(0);
  /** Where the cell of each column lies in the current record; `seen` tells which record it belongs to. */
  private starts = new Int32Array(0);
  private ends = new Int32Array(0);
  private kinds = new Uint8Array(0);
  private seen = new Int32Array(0);
  /** The column that each key of the last record belonged to: the next one mostly has the same order. */
  private order: number[] = [];

  /** @returns null where the reference has to look at the batch */
  encode(body: Uint8Array, plan: CopyPlan): CopyText | null {
    if (!isUtf8(body)) return null;
    this.begin(body, plan);
    const { scanner, writer } = this;
    if (!scanner.take(OPEN_BRACKET)) return null;
    let columns: readonly number[] = [];
    let records = 0;
    do {
      if (++records > LIMITS.recordsPerBatch) return null;
      const start = scanner.at;
      const given = this.record(records);
      if (given < 0) return null;
      if (records === 1) columns = this.columnsOfFirst();
      // A record of nothing has no line in COPY; one that leaves a default out, or adds one, needs an INSERT of its own.
      if (columns.length === 0 || !this.hasDefaultsOf(columns, given, records)) return null;
      writer.beginRecord(2 * (scanner.at - start) + CELL_SLACK * columns.length);
      if (!this.line(columns, records)) return null;
    } while (scanner.take(COMMA));
    if (!scanner.take(CLOSE_BRACKET)) return null;
    scanner.skipSpace();
    if (!scanner.isAtEnd) return null;
    return { records, columns, data: writer.take() };
  }

  /** Takes back the memory of a batch that is with the server, or was given up. */
  release({ data }: CopyText): void {
    this.writer.giveBack(data.buffer as ArrayBuffer);
  }

  private begin(body: Uint8Array, plan: CopyPlan): void {
    this.body = body;
    this.scanner.begin(body);
    this.writer.begin(body);
    const { length } = plan.columns;
    if (this.plan !== plan) this.order = [...plan.columns.keys()];
    this.plan = plan;
    if (this.seen.length < length) {
      this.starts = new Int32Array(length);
      this.ends = new Int32Array(length);
      this.kinds = new Uint8Array(length);
      this.seen = new Int32Array(length);
    }
    this.seen.fill(0);
  }

  /** Notes where the cells of the next record lie. @returns how many columns with a default it gives, -1 to give up */
  private record(number: number): number {
    const { scanner, seen, starts, ends, kinds, plan } = this;
    if (!scanner.take(OPEN_BRACE)) return -1;
    if (scanner.take(CLOSE_BRACE)) return 0;
    let defaults = 0;
    for (let position = 0; ; position++) {
      scanner.skipSpace();
      const column = this.column(position);
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
  private column(position: number): number {
    const { scanner, body, order, plan } = this;
    const expected = order[position];
    if (expected !== undefined) {
      const { key } = plan.columns[expected] as { key: Uint8Array };
      let i = 0;
      while (i < key.length && body[scanner.at + i] === key[i]) i++;
      if (i === key.length) {
        scanner.at += i;
        return expected;
      }
    }
    const start = scanner.at;
    if (body[start] !== QUOTE || !scanner.string() || scanner.kind !== PLAIN_STRING) return -1;
    const name = Buffer.from(body.buffer, body.byteOffset + start + 1, scanner.at - start - 2).toString('utf8');
    const index = plan.indexByName.get(name) ?? -1;
    order[position] = index < 0 ? 0 : index;
    return index;
  }

  /** All columns without a default, and those with one that the first record gives. */
  private columnsOfFirst(): number[] {
    const { columns } = this.plan;
    return [...columns.keys()].filter((index) => !columns[index]?.shape.hasDefault || this.seen[index] === 1);
  }

  private hasDefaultsOf(columns: readonly number[], given: number, record: number): boolean {
    const { plan, seen } = this;
    let expected = 0;
    for (const index of columns) {
      if (!plan.columns[index]?.shape.hasDefault) continue;
      if (seen[index] !== record) return false;
      expected++;
    }
    return expected === given;
  }

  private line(columns: readonly number[], record: number): boolean {
    const { writer, plan, seen, kinds, starts, ends } = this;
    for (let i = 0; i < columns.length; i++) {
      const index = columns[i] as number;
      if (i > 0) writer.byte(TAB);
      if (seen[index] !== record) writer.null();
      else {
        const { shape } = plan.columns[index] as { shape: CopyPlan['columns'][number]['shape'] };
        if (!writer.cell(shape, kinds[index] as number, starts[index] as number, ends[index] as number)) return false;
      }
    }
    writer.byte(LINE_FEED);
    return true;
  }
}
