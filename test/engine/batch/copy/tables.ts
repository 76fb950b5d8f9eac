/** Tables for the tests of the fast path. */
import { type CopyPlan, copyPlan } from '../../../../src/engine/batch/copy/plan.js';
import type { ColumnShape } from '../../../../src/postgres/catalog/table-shape.js';

export function planOf(...columns: ColumnShape[]): CopyPlan {
  const plan = copyPlan({
    schema: 'data',
    name: 't',
    needsInsert: false,
    runsProjectCode: false,
    marksDefaults: false,
    columns,
  });
  if (plan === null) throw new Error('The table of this test must have a plan');
  return plan;
}

/** That of a table on a Postgres that takes marks for defaults, which is tried behind its own. */
export function markedPlanOf(...columns: ColumnShape[]): CopyPlan {
  const { table } = planOf(...columns);
  const plan = copyPlan({ ...table, marksDefaults: true })?.wider ?? null;
  if (plan === null) throw new Error('The table of this test must have a plan with marks');
  return plan;
}
