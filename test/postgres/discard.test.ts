/** Memory that nobody needs any more is free at once, and memory of others stays as it is. */
import { expect, it } from 'vitest';
import { discard } from '../../src/postgres/discard.js';

it('frees the memory of a piece without waiting for the garbage collector', () => {
  const size = 64 * 1024 * 1024;
  const piece = Buffer.allocUnsafeSlow(size);
  const before = process.memoryUsage().arrayBuffers;
  discard(piece);
  expect(before - process.memoryUsage().arrayBuffers).toBeGreaterThan(size / 2);
  expect(piece.length).toBe(0);
});

it('leaves a piece alone that is cut from memory of others', () => {
  const slab = Buffer.allocUnsafeSlow(64 * 1024).fill('theirs');
  discard(slab.subarray(0, 32 * 1024));
  discard(slab.subarray(32 * 1024));
  discard(Buffer.from('short'));
  expect(slab.toString('latin1', 0, 6)).toBe('theirs');
  expect(slab.length).toBe(64 * 1024);
});
