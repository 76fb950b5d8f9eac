/** What is remembered of tables is bounded by what it takes, and the least recently used goes first. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { ShapeCache } from '../../../src/engine/insert/shape-cache.js';
import type { TableDescription } from '../../../src/postgres/catalog/catalog.js';
import { column } from '../batch/shapes.js';

const MIB = 1024 * 1024;

/** Bytes of living objects, and of memory outside the heap. */
function used(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

const table = (name: string, columns: number, needsInsert = false): TableDescription => ({
  schema: 'data',
  name,
  kind: 'table',
  comment: null,
  approximateRows: 0,
  needsInsert,
  runsProjectCode: needsInsert,
  marksDefaults: true,
  version: name,
  columns: Array.from({ length: columns }, (_, i) =>
    // Bytes of its own, as they come from Postgres; each character is spelled in three ways.
    column(Buffer.from(`${String(i).padStart(4, '0')}${'é'.repeat(29)}`).toString(), 'TEXT'),
  ),
});

describe('shapes of tables', () => {
  it('are kept by project and table, the one that was used least recently goes first', () => {
    const shapes = new ShapeCache();
    for (let i = 0; i < 5_000; i++) {
      shapes.remember('p', table(`t${i}`, 5));
      expect(shapes.get('p', 't0')?.table.name).toBe('t0');
    }
    expect(shapes.get('p', 't4999')?.table.name).toBe('t4999');
    expect(shapes.get('p', 't1')).toBeUndefined();
    expect(shapes.get('q', 't4999')).toBeUndefined();
    expect(shapes.remember('p', table('views', 5, true))).toBeNull();
    expect(shapes.get('p', 'views')).toBeNull();
  });

  it('fit into their memory, however wide the tables are', () => {
    const shapes = new ShapeCache();
    const before = used();
    for (let i = 0; i < 250; i++) shapes.remember('p', table(`t${i}`, 1_600));
    expect(used() - before).toBeLessThan(100 * MIB);
    expect(shapes.get('p', 't249')?.table.name).toBe('t249');
  });
});
