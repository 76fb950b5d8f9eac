/**
 * Shapes of tables that were written to lately. One may serve an insert only when the insert's own transaction confirms
 * it (`shapeIsStill`), so that no change made in between, here or elsewhere, can be missed.
 */
import { LruMap } from 'toad-cache';
import { shapeIsStill, type TableDescription } from '../../postgres/catalog/catalog.js';
import type { Statement } from '../../postgres/sql.js';
import { type CopyPlan, copyPlan } from '../batch/copy/plan.js';

export interface KnownShape {
  readonly table: TableDescription;
  readonly plan: CopyPlan;
  /** Run behind an insert, it confirms the shape. */
  readonly check: Statement;
}

/** Estimated bytes that are kept, over all projects: those of some two thousand tables of a few columns. */
const MAX_BYTES = 64 * 1024 * 1024;

/** Estimates: of an entry, of the statements that a plan comes to have, and of a column beside its bytes in the plan. */
const ENTRY_BYTES = 500;
const PLAN_BYTES = 32 * 1024;
const COLUMN_BYTES = 200;

export class ShapeCache {
  /** Its first item is the one that was used least recently. */
  private readonly shapes = new LruMap<KnownShape | null>(0);
  private bytes = 0;

  /** null: the fast path cannot write to the table; undefined: nobody has looked at it. */
  get(project: string, table: string): KnownShape | null | undefined {
    return this.shapes.get(key(project, table));
  }

  /** @returns what {@link get} does from now on */
  remember(project: string, table: TableDescription): KnownShape | null {
    const name = key(project, table.name);
    const before = this.shapes.get(name);
    // Several requests that look at the same time go on with the same.
    if (before?.table.version === table.version) return before;
    const plan = copyPlan(table);
    const known = plan === null ? null : { table, plan, check: shapeIsStill(table) };
    this.delete(name);
    this.shapes.set(name, known);
    this.bytes += sizeOf(known);
    while (this.bytes > MAX_BYTES && this.shapes.size > 1) this.delete((this.shapes.first as { key: string }).key);
    return known;
  }

  /** The table is not like this any more. What others have learnt of it since then is kept. */
  forget(project: string, known: KnownShape): void {
    const name = key(project, known.table.name);
    if (this.shapes.get(name) === known) this.delete(name);
  }

  private delete(name: string): void {
    const shape = this.shapes.get(name);
    if (shape === undefined) return;
    this.shapes.delete(name);
    this.bytes -= sizeOf(shape);
  }
}

/** A project makes its tables as wide as Postgres lets it: then a shape takes a megabyte. */
function sizeOf(shape: KnownShape | null): number {
  if (shape === null) return ENTRY_BYTES;
  const { table, plan } = shape;
  const forWalk = plan.forWalk.length + (plan.wider?.forWalk.length ?? 0);
  return ENTRY_BYTES + PLAN_BYTES + 2 * forWalk + COLUMN_BYTES * table.columns.length;
}

const key = (project: string, table: string) => `${project} ${table}`;
