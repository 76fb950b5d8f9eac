/**
 * The buffers that bodies are read into and answers written into, used again. Memory that is fresh for every answer of a
 * megabyte costs its page faults, and the garbage of it full collections. So as much is kept as was in use at once within
 * the last seconds, and is freed without waiting for a collection.
 */
import { discard } from './discard.js';

/** The least that is worth keeping. */
export const MIN_POOLED_BYTES = 16 * 1024;

/** From one size to the next: an answer grows through few, and what is not filled takes no memory of the machine. */
const GROWTH = 4;

/** Spare bytes that are kept at most, whatever was in use at once a moment ago. */
const MAX_SPARE = 256 * 1024 * 1024;

/** What nobody has taken for so long, or for twice that, is freed. */
const UNUSED_MS = 5_000;

interface Shelf {
  /** The last one given first. */
  readonly buffers: Buffer[];
  /** The fewest that lay here since the last time: those were not needed. */
  fewest: number;
}

/** By size. */
const spare = new Map<number, Shelf>();
let spareBytes = 0;
let timer: NodeJS.Timeout | null = null;

/**
 * The memory that is out. Only that is taken back, and once: what was given twice, or is a slab that Node cuts others'
 * buffers from, would be written by two at a time.
 */
const lent = new WeakSet<ArrayBufferLike>();

/** @returns a buffer of `size` bytes or more, with whatever was left in it before */
export function takeBuffer(size: number): Buffer {
  // Small ones are cut from a slab of Node's.
  if (size < MIN_POOLED_BYTES) return Buffer.allocUnsafe(size);
  const capacity = capacityFor(size);
  const used = takeSpare(capacity);
  const buffer = used ?? Buffer.allocUnsafeSlow(capacity);
  lent.add(buffer.buffer);
  return buffer;
}

/**
 * Gives the memory of a buffer of {@link takeBuffer}, or of a part of it, back; nobody may read it any more. One that is
 * never given back is garbage like any other object, and so is one that came from elsewhere.
 */
export function giveBuffer({ buffer }: Uint8Array): void {
  const length = buffer.byteLength;
  if (!lent.delete(buffer)) return;
  const whole = Buffer.from(buffer);
  if (spareBytes + length > MAX_SPARE) return discard(whole);
  spareBytes += length;
  timer ??= setTimeout(freeUnused, UNUSED_MS).unref();
  const shelf = spare.get(length);
  if (shelf === undefined) spare.set(length, { buffers: [whole], fewest: 0 });
  else shelf.buffers.push(whole);
}

/** Frees the spare buffers that nobody has needed since this was called last, and comes back while there are any. */
function freeUnused(): void {
  for (const [size, shelf] of spare) {
    for (const unused of shelf.buffers.splice(0, shelf.fewest)) discard(unused);
    spareBytes -= size * shelf.fewest;
    shelf.fewest = shelf.buffers.length;
  }
  timer = spareBytes === 0 ? null : setTimeout(freeUnused, UNUSED_MS).unref();
}

function takeSpare(size: number): Buffer | undefined {
  const shelf = spare.get(size);
  const buffer = shelf?.buffers.pop();
  if (shelf === undefined || buffer === undefined) return undefined;
  shelf.fewest = Math.min(shelf.fewest, shelf.buffers.length);
  spareBytes -= size;
  return buffer;
}

function capacityFor(size: number): number {
  let capacity = MIN_POOLED_BYTES;
  while (capacity < size) capacity *= GROWTH;
  return capacity;
}
