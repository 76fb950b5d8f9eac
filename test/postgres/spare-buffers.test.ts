/** Memory that is used again belongs to one at a time, whoever gives what back. */
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { giveBuffer, SMALLEST, takeBuffer } from '../../src/postgres/spare-buffers.js';

beforeAll(() => void vi.useFakeTimers());
afterAll(() => void vi.useRealTimers());

/** The memory of so many buffers that are out at the same time. */
const memoryOf = (count: number, size: number) => Array.from({ length: count }, () => takeBuffer(size).buffer);

it('lends what was given back, also by a part of it', () => {
  const first = takeBuffer(SMALLEST * 3);
  giveBuffer(first.subarray(10, 20));
  expect(takeBuffer(SMALLEST * 2).buffer).toBe(first.buffer);
});

it('lends nothing to two, though it was given back twice', () => {
  const buffer = takeBuffer(SMALLEST);
  giveBuffer(buffer);
  giveBuffer(buffer);
  expect(new Set(memoryOf(3, SMALLEST)).size).toBe(3);
});

it('takes nothing that it has not lent: a slab of Node, cut for others too, may have any size', () => {
  const slab = Buffer.allocUnsafeSlow(SMALLEST).fill('theirs');
  const ours = slab.subarray(0, 100);
  giveBuffer(ours);
  expect(memoryOf(3, SMALLEST)).not.toContain(slab.buffer);
});

it('frees what nobody has needed for two turns, and nothing else', () => {
  const size = 4 * 1024 * 1024;
  const [unused, used] = [takeBuffer(size), takeBuffer(size)];
  giveBuffer(unused);
  giveBuffer(used);
  vi.runOnlyPendingTimers();
  expect(takeBuffer(size).buffer).toBe(used.buffer);
  giveBuffer(used);
  vi.runOnlyPendingTimers();
  expect(unused.length).toBe(0);
  expect(takeBuffer(size).buffer).toBe(used.buffer);
});
