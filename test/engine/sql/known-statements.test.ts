/** What is remembered of statements is bounded, and the least recently used goes first. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { KnownStatements } from '../../../src/engine/sql/known-statements.js';
import { fitsOneWrite } from '../../../src/engine/sql/one-write-eligibility.js';

const MIB = 1024 * 1024;

/** Bytes of living objects. */
function heapUsed(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  return process.memoryUsage().heapUsed;
}

const described = (columns: number) => ({
  parameterOids: [],
  columns: Array.from({ length: columns }, (_, i) => ({ name: `c${i}`, typeOid: 25, typeModifier: -1 })),
});

describe('known statements', () => {
  it('are kept by project, lane and text', () => {
    const known = new KnownStatements();
    const kept = known.of('a').remember(false, 'SELECT 1', described(1), '[]');
    expect(known.of('a').get(false, 'SELECT 1')).toBe(kept);
    expect(known.of('a').get(true, 'SELECT 1')).toBeUndefined();
    expect(known.of('a').get(false, 'SELECT 2')).toBeUndefined();
    expect(known.of('b').get(false, 'SELECT 1')).toBeUndefined();
    known.of('a').forget(false, 'SELECT 1');
    expect(known.of('a').get(false, 'SELECT 1')).toBeUndefined();
    expect(known.of('a').bytes).toBe(0);
  });

  it('are not kept where they are long or wide, or their answers were large', () => {
    const statements = new KnownStatements().of('a');
    expect(statements.remember(false, `SELECT '${'x'.repeat(6_000)}'`, described(1), '[]')).toBeUndefined();
    expect(statements.remember(false, 'SELECT *', described(100), '[]')).toBeUndefined();
    // Nobody goes through its words to find out more.
    expect(fitsOneWrite(`SELECT 1 IN (${'1, '.repeat(2_000)}1)`, described(1).columns, 10)).toBe(false);
    expect(fitsOneWrite(`SELECT 1 IN (${'1, '.repeat(1_000)}1)`, described(1).columns, 10)).toBe(true);
    statements.markLarge(false, 'TABLE t');
    expect(statements.remember(false, 'TABLE t', described(1), '[]')).toBeUndefined();
    expect(statements.get(false, 'TABLE t')).toBeUndefined();
  });

  it('of one project go one by one, those that were used last', () => {
    const statements = new KnownStatements().of('a');
    statements.remember(true, 'reader', described(1), '[]');
    for (let i = 0; i < 1_000; i++) {
      statements.get(false, '0');
      statements.remember(false, String(i), described(1), '[]');
    }
    expect(statements.bytes).toBeGreaterThan(200 * 1024);
    expect(statements.bytes).toBeLessThanOrEqual(256 * 1024);
    expect(statements.get(false, '0')).toBeDefined();
    expect(statements.get(false, '1')).toBeUndefined();
    expect(statements.get(false, '999')).toBeDefined();
    expect(statements.get(true, 'reader')).toBeDefined();
  });

  it('do not keep the bodies that their texts were parts of', () => {
    const partOfBody = (i: number) => `${'x'.repeat(4 * MIB)}SELECT ${i} AS number`.slice(4 * MIB);
    const statements = new KnownStatements().of('a');
    const before = heapUsed();
    for (let i = 0; i < 20; i++) {
      statements.remember(false, partOfBody(i), described(1), '[]');
      statements.markLarge(true, partOfBody(i));
    }
    for (let i = 0; i < 20; i++) expect(statements.get(false, partOfBody(i))).toBeDefined();
    expect(heapUsed() - before).toBeLessThan(16 * MIB);
    expect(statements.get(false, 'SELECT 7 AS number')).toBeDefined();
  });

  it('of all projects are at most 16 MiB; those of the project go that was idle for longest', () => {
    const known = new KnownStatements();
    known.of('first').remember(false, 'SELECT 1', described(1), '[]');
    known.of('second').remember(false, 'SELECT 1', described(1), '[]');
    for (let p = 0; p < 100; p++) {
      known.of('first');
      for (let i = 0; i < 300; i++) known.of(`p${p}`).remember(false, String(i), described(1), '[]');
    }
    expect(known.of('first').get(false, 'SELECT 1')).toBeDefined();
    expect(known.of('second').get(false, 'SELECT 1')).toBeUndefined();
    expect(known.of('p0').get(false, '299')).toBeUndefined();
    expect(known.of('p99').get(false, '299')).toBeDefined();
  });
});
