/** Memory that is no longer needed is freed at once, and memory of other owners is left alone. */
import { expect, it } from 'vitest';
import { BufferList, freeBuffer, GrowingBuffer } from '../../src/codec/buffers.js';

it('frees the memory of a chunk without waiting for the garbage collector', () => {
  const size = 64 * 1024 * 1024;
  const piece = Buffer.allocUnsafeSlow(size);
  const before = process.memoryUsage().arrayBuffers;
  freeBuffer(piece);
  expect(before - process.memoryUsage().arrayBuffers).toBeGreaterThan(size / 2);
  expect(piece.length).toBe(0);
});

it('leaves a chunk alone that is a view of other memory', () => {
  const slab = Buffer.allocUnsafeSlow(64 * 1024).fill('theirs');
  freeBuffer(slab.subarray(0, 32 * 1024));
  freeBuffer(slab.subarray(32 * 1024));
  freeBuffer(Buffer.from('short'));
  expect(slab.toString('latin1', 0, 6)).toBe('theirs');
  expect(slab.length).toBe(64 * 1024);
});

it('joins the buffers of a list and empties it', () => {
  const list = new BufferList();
  expect(list.take().bytes.length).toBe(0);
  for (const text of ['a', 'bc', 'd'.repeat(10_000)]) list.push(Buffer.from(text));
  expect(list.length).toBe(10_003);
  expect(list.take().bytes.toString()).toBe(`abc${'d'.repeat(10_000)}`);
  expect([list.length, list.buffers]).toEqual([0, []]);
});

it('grows with the chunks that it copies, and frees them', () => {
  const grown = new GrowingBuffer(4);
  const large = Buffer.allocUnsafeSlow(100_000).fill('d');
  for (const chunk of [Buffer.from('abc'), Buffer.from('dd'), large]) grown.append(chunk);
  expect(grown.bytes.toString()).toBe(`abc${'d'.repeat(100_002)}`);
  expect(large.length).toBe(0);
  const { bytes } = grown;
  grown.free();
  expect(bytes.length).toBe(0);
});
