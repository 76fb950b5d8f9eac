/** The cache of tables is bounded by memory, and evicts the least recently used entry first. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { TableCache } from '../../../src/engine/insert/table-cache.js';
import type { Table } from '../../../src/engine/catalog/catalog.js';
import { column } from '../../codec/batch/shapes.js';

const MIB = 1024 * 1024;

/** Bytes of living objects, and of memory outside the heap. */
function used(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

const table = (name: string, columns: number, needsInsert = false): Table => ({
  schema: 'data',
  name,
  kind: 'table',
  comment: null,
  approximateRows: 0,
  needsInsert,
  runsProjectCode: needsInsert,
  updateRunsProjectCode: needsInsert,
  marksDefaults: true,
  version: name,
  columns: Array.from({ length: columns }, (_, i) =>
    // Bytes of its own, as they come from Postgres; each character is spelled in three ways.
    column(Buffer.from(`${String(i).padStart(4, '0')}${'é'.repeat(29)}`).toString(), 'TEXT'),
  ),
});

describe('schemas of tables', () => {
  it('are cached by project and table, and the least recently used one is evicted first', () => {
    const schemas = new TableCache(64);
    for (let i = 0; i < 3_000; i++) {
      schemas.remember('p', table(`t${i}`, 5));
      expect(schemas.get('p', 't0')?.table.name).toBe('t0');
    }
    expect(schemas.get('p', 't2999')?.table.name).toBe('t2999');
    expect(schemas.get('p', 't1')).toBeUndefined();
    expect(schemas.get('q', 't2999')).toBeUndefined();
  });

  it('say which tables COPY cannot write to', () => {
    const schemas = new TableCache(64);
    schemas.remember('p', table('tables', 5));
    schemas.remember('p', table('views', 5, true));
    expect(schemas.get('p', 'tables')?.encoder).not.toBeNull();
    expect(schemas.get('p', 'views')?.encoder).toBeNull();
  });

  it('stay the same object until the table changes', () => {
    const schemas = new TableCache(64);
    schemas.remember('p', table('t', 5));
    const known = schemas.get('p', 't');
    schemas.remember('p', table('t', 5));
    expect(schemas.get('p', 't')).toBe(known);
    schemas.remember('p', { ...table('t', 6), version: 'later' });
    expect(schemas.get('p', 't')?.table.columns).toHaveLength(6);
  });

  it('stay within the memory limit, however wide the tables are', async () => {
    const schemas = new TableCache(64);
    const before = used();
    for (let i = 0; i < 60; i++) schemas.remember('p', table(`t${i}`, 1_600));
    // V8 frees array buffers in a thread of its own, after the collection.
    await expect.poll(() => used() - before, { timeout: 60_000, interval: 200 }).toBeLessThan(100 * MIB);
    expect(schemas.get('p', 't59')?.table.name).toBe('t59');
  });
});
