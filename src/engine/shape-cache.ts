/**
 * Shapes of tables that were written to lately. One may serve an insert only when the insert's own transaction confirms
 * it (`shapeIsStill`), so that no change made in between, here or elsewhere, can be missed.
 */
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
  private readonly shapes = new Map<string, KnownShape>();

  get(project: string, table: string): KnownShape | undefined {
    const found = this.shapes.get(key(project, table));
    if (found === undefined) return undefined;
    // To the end: the first of the map is the one that was not used for the longest time.
    this.shapes.delete(key(project, table));
    this.shapes.set(key(project, table), found);
    return found;
  }

  /** Remembers a shape, where the fast path can write to the table; else forgets it. */
  remember(project: string, table: TableDescription): void {
    const plan = copyPlan(table);
    const name = key(project, table.name);
    this.shapes.delete(name);
    if (plan === null) return;
    this.shapes.set(name, { table, plan, check: shapeIsStill(table) });
    if (this.shapes.size > MOST) for (const oldest of this.shapes.keys()) return void this.shapes.delete(oldest);
  }

  forget(project: string, table: string): void {
    this.shapes.delete(key(project, table));
  }
}

const key = (project: string, table: string) => `${project} ${table}`;
