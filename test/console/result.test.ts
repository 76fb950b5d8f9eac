/** The rows that the results of all tabs hold together. */
import { expect, it } from 'vitest';
import { HELD, HELD_IN_ALL, Result } from '../../console/src/results/result.js';

const row = JSON.stringify(['x'.repeat(1024 * 1024)]);

function filled(): Result {
  const result = new Result([{ name: 'text', type: 'TEXT' }]);
  for (let n = 0; n < 80; n++) result.take(row);
  return result;
}

it('releases the rows of the oldest result for those of the newest, and still counts them', () => {
  const results = [filled(), filled(), filled(), filled()];
  const held = results.map((result) => result.held);
  const full = Math.ceil(HELD.characters / row.length);
  expect(held.at(-1)).toBe(full);
  expect(held[0]).toBe(0);
  expect(results.map(({ isReleased }) => isReleased.value)).toEqual(held.map((rows) => rows === 0));
  expect(held.reduce((sum, rows) => sum + rows, 0) * row.length).toBeLessThanOrEqual(HELD_IN_ALL);
  results[0]?.end('SELECT 80', 80);
  expect(results[0]?.rowCount.value).toBe(80);
  // What is released stays so, even if rows still arrive, and leaves its room to others.
  results[0]?.take(row);
  expect(results[0]?.held).toBe(0);
  for (const result of results) result.release();
  const later = [filled(), filled()];
  expect(later.map((result) => result.held).filter((rows) => rows === full).length).toBeGreaterThanOrEqual(1);
  for (const result of later) result.release();
});
