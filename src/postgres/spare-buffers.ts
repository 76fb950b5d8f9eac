/**
 * The buffers that bodies are read into and answers written into, used again. Memory that is fresh for every answer of a
 * megabyte costs its page faults, and the garbage of it full collections.
 */

/** The least that is worth keeping, and more than any slab of Node's. */
export const SMALLEST = 16 * 1024;

/** From one size to the next: an answer grows through few, and what is not filled takes no memory of the machine. */
const GROWTH = 4;

/** Spare bytes that are kept: eight answers of up to four megabytes, with what they grew through. */
const MOST_SPARE = 40 * 1024 * 1024;

/** By size, the last one given first. */
const spare = new Map<number, Buffer[]>();
let spareBytes = 0;

/** @returns a buffer of `size` bytes or more, with whatever was left in it before */
export function takeBuffer(size: number): Buffer {
  // Small ones are cut from a slab of Node's.
  if (size < SMALLEST) return Buffer.allocUnsafe(size);
  const capacity = capacityFor(size);
  const used = spare.get(capacity)?.pop();
  if (used === undefined) return Buffer.allocUnsafeSlow(capacity);
  spareBytes -= capacity;
  return used;
}

/**
 * Gives a buffer of {@link takeBuffer} back; nobody may read it any more. One that is never given back is garbage like
 * any other object, and so is one that came from elsewhere.
 */
export function giveBuffer(buffer: Buffer): void {
  const { length } = buffer;
  if (length !== capacityFor(length) || spareBytes + length > MOST_SPARE) return;
  spareBytes += length;
  const list = spare.get(length);
  if (list === undefined) spare.set(length, [buffer]);
  else list.push(buffer);
}

function capacityFor(size: number): number {
  let capacity = SMALLEST;
  while (capacity < size) capacity *= GROWTH;
  return capacity;
}
