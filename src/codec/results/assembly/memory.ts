/**
 * The memory of the encoder: its constants, the layout of a result, the messages, and at the end the rows, which can
 * grow. After each part there is room for a load or store of sixteen bytes that begins in the part.
 */

const SLACK: usize = 64;
const PAGE_BITS: usize = 16;
const PAGE: usize = 1 << PAGE_BITS;

/** The constants before it take less. */
export const layout: usize = 16 * 1024;
export let messages: usize = 0;
export let rows: usize = 0;

/** Maximum number of bytes that the current row may need. */
let reserved: usize = 0;

/** @returns the address for a layout of this length */
export function allocLayout(length: usize): usize {
  messages = aligned(layout + length);
  growTo(messages);
  return layout;
}

/** @returns the address for messages of this length */
export function allocMessages(length: usize): usize {
  rows = aligned(messages + length);
  growTo(rows);
  return messages;
}

/** Reserves room at `to` for a row of at most this length. */
export function reserve(to: usize, length: usize): void {
  reserved = length;
  growTo(to + length);
}

/** Reserves this many more bytes. */
export function reserveMore(to: usize, extra: usize): void {
  growTo(to + extra + reserved);
}

/** Grows the memory beyond `end`. The host limits the messages, so the maximum size of the memory suffices. */
function growTo(end: usize): void {
  const size = usize(memory.size()) << PAGE_BITS;
  if (end + SLACK <= size) return;
  const missing = i32((end + SLACK - size + PAGE - 1) >> PAGE_BITS);
  // A long array with values from the host asks for a little more again and again.
  if (memory.grow(max(missing, memory.size() >> 3)) >= 0) return;
  if (memory.grow(missing) < 0) unreachable();
}

function aligned(address: usize): usize {
  return (address + SLACK + 15) & ~15;
}

/** Copies forward between parts of the memory, up to 15 bytes too many. */
export function copy(from: usize, to: usize, size: usize): void {
  if (size > 256) {
    memory.copy(to, from, size);
    return;
  }
  for (let i: usize = 0; i < size; i += 16) v128.store(to + i, v128.load(from + i));
}
