/**
 * The buffers that bodies are read into and answers written into, used again. Memory that is fresh for every answer of a
 * megabyte costs its page faults, and the garbage of it full collections.
 */

/** The least that is worth keeping. */
export const SMALLEST = 16 * 1024;

/** From one size to the next: an answer grows through few, and what is not filled takes no memory of the machine. */
const GROWTH = 4;

/** Spare bytes that are kept: eight answers of up to four megabytes, with what they grew through. */
const MOST_SPARE = 40 * 1024 * 1024;

/** By size, the last one given first. */
const spare = new Map<number, Buffer[]>();
let spareBytes = 0;

/**
 * The memory that is out. Only that is taken back, and once: what was given twice, or is a slab that Node cuts others'
 * buffers from, would be written by two at a time.
 */
const lent = new WeakSet<ArrayBufferLike>();

/** @returns a buffer of `size` bytes or more, with whatever was left in it before */
export function takeBuffer(size: number): Buffer {
  // Small ones are cut from a slab of Node's.
  if (size < SMALLEST) return Buffer.allocUnsafe(size);
  const capacity = capacityFor(size);
  const used = spare.get(capacity)?.pop();
  if (used !== undefined) spareBytes -= capacity;
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
  if (!lent.delete(buffer) || spareBytes + length > MOST_SPARE) return;
  spareBytes += length;
  const whole = Buffer.from(buffer);
  const list = spare.get(length);
  if (list === undefined) spare.set(length, [whole]);
  else list.push(whole);
}

function capacityFor(size: number): number {
  let capacity = SMALLEST;
  while (capacity < size) capacity *= GROWTH;
  return capacity;
}
