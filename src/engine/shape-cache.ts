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
  private readonly shapes = new LruMap<KnownShape>(MOST);

  get(project: string, table: string): KnownShape | undefined {
    return this.shapes.get(key(project, table));
  }

  /** Remembers a shape, where the fast path can write to the table; else forgets it. */
  remember(project: string, table: TableDescription): void {
    const plan = copyPlan(table);
    const name = key(project, table.name);
    if (plan === null) this.shapes.delete(name);
    else this.shapes.set(name, { table, plan, check: shapeIsStill(table) });
  }
}

const key = (project: string, table: string) => `${project} ${table}`;
