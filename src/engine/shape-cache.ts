/**
 * Shapes of tables that were written to lately. One may serve an insert only when the insert's own transaction confirms
 * it (`shapeIsStill`), so that no change made in between, here or elsewhere, can be missed.
 */
import { LruMap } from 'toad-cache';
import { shapeIsStill, type TableDescription } from '../postgres/catalog.js';
import type { Statement } from '../postgres/sql.js';
import { type CopyPlan, copyPlan } from './batch/copy/plan.js';

export interface KnownShape {
  readonly table: TableDescription;
  readonly plan: CopyPlan;
  /** Run behind an insert, it confirms the shape. */
  readonly check: Statement;
}

/** Shapes kept, over all projects; each costs a few KiB. */
const MOST = 2_000;

export class ShapeCache {
  private readonly shapes = new LruMap<KnownShape | null>(MOST);

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
    this.shapes.set(name, known);
    return known;
  }

  /** The table is not like this any more. What others have learnt of it since then is kept. */
  forget(project: string, known: KnownShape): void {
    const name = key(project, known.table.name);
    if (this.shapes.get(name) === known) this.shapes.delete(name);
  }
}

const key = (project: string, table: string) => `${project} ${table}`;
