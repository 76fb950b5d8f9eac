/**
 * The fast way of a batch: from the bytes of the request straight to the bytes of COPY, in one walk, without an object
 * or a string for a record. It only ever says yes: whatever it does not understand at once, wrong or merely rare, it
 * leaves to the reference (`parse.ts`, `encode.ts`), which finds out and names what is wrong.
 *
 * The walk is WebAssembly (`assembly/walk.ts`), which has a memory of its own: a body is copied into it, its rows out of
 * it. Of single cells that are rare it asks the reference from within, see {@link CopyEncoder.readCell}.
 */
import { isUtf8 } from 'node:buffer';
import { giveBuffer, takeBuffer } from '../../../postgres/spare-buffers.js';
import type { ColumnShape } from '../../../postgres/catalog/table-shape.js';
import { readJson } from '../../json/read-json.js';
import { readCell } from '../cell.js';
import { Refusal } from '../refusal.js';
import type { ColumnSet } from './column-sets.js';
import type { CopyPlan } from './plan.js';
import { loadWalk, type Walk } from './walk.js';

export interface CopyData {
  /** Number of records. */
  readonly records: number;
  /** The one that was followed, and what of its columns the data has, in its order. */
  readonly plan: CopyPlan;
  readonly columns: ColumnSet;
  /** Rows in the plan's format, in memory that is lent: give it back when it has been sent. */
  readonly data: Uint8Array;
}

/**
 * A walk that has used more of its memory, which never becomes less, is not used again. The largest body and its rows take
 * less, unless it is all escapes: fresh memory costs ten times what it takes to write it again.
 */
const KEPT_BYTES = 32 * 1024 * 1024;

const NOT_HERE = -1;
const NONE = Buffer.alloc(0);

export class CopyEncoder {
  private readonly newWalk = loadWalk();
  /** Made when it is needed. */
  private walk: Walk | null = null;
  /** Its memory. */
  private memory = NONE;
  /** What the walk has in its memory. */
  private plan: CopyPlan | null = null;
  /** What the last batch gave, where the walk had placed the columns like this; null: of another plan. */
  private columns: ColumnSet | null = null;
  private placement = 0;

  /** @returns null where the reference has to look at the batch */
  encode(body: Uint8Array, plan: CopyPlan): CopyData | null {
    if (!isUtf8(body)) return null;
    return this.follow(plan, body) ?? (plan.wider === null ? null : this.follow(plan.wider, body));
  }

  private follow(plan: CopyPlan, body: Uint8Array): CopyData | null {
    const walk = (this.walk ??= this.make());
    const isWritten = this.use(plan, walk) && this.place(body, walk.placeBatch(body.length)) && walk.walk() !== 0;
    const start = walk.rows.value;
    const end = walk.rowsEnd.value;
    const result = isWritten ? this.take(walk, plan, start, end) : null;
    if (end > KEPT_BYTES) {
      this.walk = null;
      this.memory = NONE;
    }
    return result;
  }

  /** Takes back the memory of a batch that is with the server, or was given up. */
  release({ data }: CopyData): void {
    giveBuffer(data);
  }

  private make(): Walk {
    this.plan = null;
    return this.newWalk({
      readCell: (column, start, end, to) => this.readCell(column, start, end, to),
      readDouble: (start, end) => Number(this.bytes().toString('latin1', start, end)),
    });
  }

  private use(plan: CopyPlan, walk: Walk): boolean {
    if (this.plan === plan) return true;
    this.plan = null;
    this.columns = null;
    if (!this.place(plan.forWalk, walk.placePlan(plan.forWalk.length)) || walk.usePlan() === 0) return false;
    this.plan = plan;
    return true;
  }

  /** @param address 0: there is no memory for it */
  private place(bytes: Uint8Array, address: number): boolean {
    if (address !== 0) this.bytes().set(bytes, address);
    return address !== 0;
  }

  private take(walk: Walk, plan: CopyPlan, start: number, end: number): CopyData {
    const lent = takeBuffer(end - start);
    this.bytes().copy(lent, 0, start, end);
    const data = lent.length === end - start ? lent : lent.subarray(0, end - start);
    return { records: walk.records.value, plan, columns: this.columnsOf(walk, plan), data };
  }

  /** Asked of the walk where it has placed them anew: mostly they are those of the batch before. */
  private columnsOf(walk: Walk, { table, sets }: CopyPlan): ColumnSet {
    const placement = walk.placement.value;
    if (this.columns !== null && this.placement === placement) return this.columns;
    this.placement = placement;
    return (this.columns = sets.of([...table.columns.keys()].filter((index) => walk.hasColumn(index) !== 0)));
  }

  /** The memory of the walk: whenever that grows, it is another object, and the old one is empty. */
  private bytes(): Buffer {
    if (this.memory.length === 0 && this.walk !== null) this.memory = Buffer.from(this.walk.memory.buffer);
    return this.memory;
  }

  /**
   * A rare cell by the reference, {@link readCell}, so that there is one grammar: reads the valid JSON from `start` to
   * `end` in the walk's memory and writes the cell: in binary to `to`, in text where the walk has room for it.
   * @returns its bytes; -1 where the reference has to look at the batch
   */
  private readCell(index: number, start: number, end: number, to: number): number {
    const { plan } = this;
    const column = plan?.table.columns[index];
    if (plan === null || column === undefined) return NOT_HERE;
    const cell = readCell(column, readJson(this.bytes().subarray(start, end), undefined, 0).root);
    if (cell === null || cell instanceof Refusal) return NOT_HERE;
    return plan.format === 'binary' ? this.writeBinary(column, cell, to) : this.writeText(cell);
  }

  /** Times the reference spells for Postgres to parse; they are not written here. */
  private writeBinary({ type }: ColumnShape, text: string, to: number): number {
    if (type === 'INTEGER') return this.bytes().writeBigInt64BE(BigInt(text), to) - to;
    return type === 'FLOAT' ? this.bytes().writeDoubleBE(Number(text), to) - to : NOT_HERE;
  }

  /** The walk puts it in its place, escaped. */
  private writeText(text: string): number {
    const length = Buffer.byteLength(text);
    const address = this.walk?.placeText(length) ?? 0;
    return address === 0 ? NOT_HERE : this.bytes().write(text, address);
  }
}
