/** Ids that the service puts into the rows of a COPY. */
import { describe, expect, it } from 'vitest';
import type { CopyData } from '../../../src/engine/batch/copy/copy-encoder.js';
import { CopyEncoder } from '../../../src/engine/batch/copy/copy-encoder.js';
import { copyPlan, type CopyPlan } from '../../../src/engine/batch/copy/plan.js';
import { withIds } from '../../../src/engine/insert/copied-ids.js';
import type { ColumnShape } from '../../../src/postgres/catalog/table-shape.js';

const column = (name: string, about: Partial<ColumnShape> = {}): ColumnShape => ({
  name,
  type: 'TEXT',
  sqlType: 'text',
  displayType: 'TEXT',
  isJson: false,
  isArray: false,
  isGeneratedAlways: false,
  hasDefault: false,
  isId: false,
  hasServiceDefault: false,
  comment: null,
  ...about,
});
const ID = column('id', {
  type: null,
  sqlType: 'uuid',
  displayType: 'uuid',
  hasDefault: true,
  isId: true,
  hasServiceDefault: true,
});

const planOf = (...columns: ColumnShape[]): CopyPlan => {
  const plan = copyPlan({
    schema: 'data',
    name: 't',
    columns,
    needsInsert: false,
    runsProjectCode: false,
    marksDefaults: false,
  });
  if (plan === null) throw new Error('The table has no plan');
  return plan;
};
const encode = (plan: CopyPlan, records: unknown): CopyData => {
  const batch = new CopyEncoder().encode(Buffer.from(JSON.stringify(records)), plan);
  if (batch === null) throw new Error('The batch was left to the reference');
  return batch;
};

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const RECORDS = [{ a: 'x\ny', n: 1 }, { a: null }, { a: '', n: -2 }];

describe('works', () => {
  it.each([
    ['binary', column('n', { type: 'INTEGER', sqlType: 'bigint' })],
    ['text', column('n', { type: null, sqlType: 'numeric', displayType: 'numeric' })],
  ])('the same rows, with an id in front of each: %s', (format, n) => {
    const plan = planOf(ID, column('a'), n);
    expect(plan.format).toBe(format);
    const records = format === 'binary' ? RECORDS : RECORDS.map(({ a }) => ({ a }));
    const batch = encode(plan, records);
    const found = withIds(batch);
    expect(found?.batch.columns.indices).toEqual([0, ...batch.columns.indices]);
    expect(found?.batch.records).toBe(records.length);

    // What the encoder makes of the records with these very ids, which it puts in the same order.
    const withOwn = records.map((record, i) => ({ id: found?.ids[i], ...record }));
    expect(Buffer.from(found?.batch.data ?? []).toString('hex')).toBe(
      Buffer.from(encode(plan, withOwn).data).toString('hex'),
    );
  });

  it('ids are of version 7, of this time, each greater than the one before, also beyond those of a millisecond', () => {
    const plan = planOf(ID, column('a'));
    const batch = encode(
      plan,
      Array.from({ length: 250 }, () => ({ a: 'x' })),
    );
    const before = Date.now();
    const ids = Array.from({ length: 40 }, () => withIds(batch)?.ids ?? []).flat();
    expect(ids).toHaveLength(10_000);
    for (const id of ids) expect(id).toMatch(UUID_V7);
    expect([...ids].sort()).toEqual(ids);
    expect(new Set(ids).size).toBe(ids.length);
    const time = Number.parseInt((ids[0] ?? '').replace('-', '').slice(0, 12), 16);
    expect(time).toBeGreaterThanOrEqual(before);
    expect(time).toBeLessThan(before + 60_000);
  });
});

describe('refuses', () => {
  it('records that bring their ids, and tables whose ids the service does not fill', () => {
    const plan = planOf(ID, column('a'));
    const own = encode(plan, [{ id: '0198c0de-0000-7000-8000-000000000001', a: 'x' }]);
    expect(withIds(own)).toBeNull();
    const without = planOf(column('a'));
    expect(withIds(encode(without, [{ a: 'x' }]))).toBeNull();
  });
});
