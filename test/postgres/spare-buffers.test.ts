/** Memory that is used again belongs to one at a time, whoever gives what back. */
import { expect, it } from 'vitest';
import { freeUnused, giveBuffer, MIN_POOLED_BYTES, takeBuffer } from '../../src/postgres/spare-buffers.js';

/** The memory of so many buffers that are out at the same time. */
const memoryOf = (count: number, size: number) => Array.from({ length: count }, () => takeBuffer(size).buffer);

it('lends what was given back, also by a part of it', () => {
  const first = takeBuffer(MIN_POOLED_BYTES * 3);
  giveBuffer(first.subarray(10, 20));
  expect(takeBuffer(MIN_POOLED_BYTES * 2).buffer).toBe(first.buffer);
});

it('lends nothing to two, though it was given back twice', () => {
  const buffer = takeBuffer(MIN_POOLED_BYTES);
  giveBuffer(buffer);
  giveBuffer(buffer);
  expect(new Set(memoryOf(3, MIN_POOLED_BYTES)).size).toBe(3);
});

it('takes nothing that it has not lent: a slab of Node, cut for others too, may have any size', () => {
  const slab = Buffer.allocUnsafeSlow(MIN_POOLED_BYTES).fill('theirs');
  const ours = slab.subarray(0, 100);
  giveBuffer(ours);
  expect(memoryOf(3, MIN_POOLED_BYTES)).not.toContain(slab.buffer);
});

it('frees what nobody has needed for two turns, and nothing else', () => {
  const size = 4 * 1024 * 1024;
  const [unused, used] = [takeBuffer(size), takeBuffer(size)];
  giveBuffer(unused);
  giveBuffer(used);
  freeUnused();
  expect(takeBuffer(size).buffer).toBe(used.buffer);
  giveBuffer(used);
  freeUnused();
  expect(unused.length).toBe(0);
  expect(takeBuffer(size).buffer).toBe(used.buffer);
});
