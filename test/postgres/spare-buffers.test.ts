/** Memory that is used again belongs to one at a time, whoever gives what back. */
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { giveBuffer, MIN_POOLED_BYTES, takeBuffer } from '../../src/postgres/spare-buffers.js';

/** What nobody has taken for so long, or for twice that, is freed. */
const UNUSED_MS = 5_000;

// Before the first buffer is given back, which starts the time.
beforeAll(() => void vi.useFakeTimers());
afterAll(() => void vi.useRealTimers());

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
  vi.advanceTimersByTime(UNUSED_MS);
  expect(takeBuffer(size).buffer).toBe(used.buffer);
  giveBuffer(used);
  expect(unused.length).toBe(size);
  vi.advanceTimersByTime(UNUSED_MS);
  expect(unused.length).toBe(0);
  expect(takeBuffer(size).buffer).toBe(used.buffer);
});
