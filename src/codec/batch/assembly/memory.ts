/**
 * The memory of the encoder: its constants, the table from the layout, the body followed by zeros, and the output. An
 * address is an offset in bytes. Nothing is at 0, so the address 0 means "none".
 */

/** How far a load may reach past the end of the body, or a store past the end of the output. */
const SLACK: usize = 128;

const PAGE_BITS: usize = 16;
const PAGE: usize = 1 << PAGE_BITS;

/** The start of the body, and of the zeros after it. */
export let body: usize = 0;
export let bodyEnd: usize = 0;

/** The address of the next byte to write. */
export let outAt: usize = 0;

/** Bytes after `outAt` that the rest of the record and of the body may need. */
let reserved: usize = 0;

/**
 * Reserves memory for a body of this length at `start`, followed by zeros.
 * @returns its address; 0 if there is no memory
 */
export function allocBodyAt(start: usize, length: usize): usize {
  body = aligned(start);
  bodyEnd = body + length;
  if (!growTo(bodyEnd + SLACK)) return 0;
  memory.fill(bodyEnd, 0, SLACK);
  outAt = aligned(bodyEnd + SLACK);
  return body;
}

/** Continues to write at `address`. */
export function seek(address: usize): void {
  outAt = address;
}

export function write(byte: u32): void {
  store<u8>(outAt, byte);
  outAt++;
}

/**
 * Reserves `bytes` bytes for output, until the next call.
 * @returns false if there is no memory
 */
export function reserve(bytes: usize): bool {
  reserved = bytes;
  return reserveMore(0);
}

/**
 * Reserves `extra` bytes, in addition to those.
 * @returns false if there is no memory
 */
export function reserveMore(extra: usize): bool {
  return growTo(outAt + reserved + extra + SLACK);
}

/**
 * Grows the memory up to `end`.
 * @returns false if there is no memory
 */
export function growTo(end: usize): bool {
  const size = usize(memory.size()) << PAGE_BITS;
  if (end <= size) return true;
  const missing = (end - size + PAGE - 1) >> PAGE_BITS;
  return memory.grow(i32(missing)) >= 0;
}

export function aligned(address: usize): usize {
  return (address + 15) & ~15;
}

/** Copies forward, up to 15 bytes too many. The source must not overlap what is written. */
export function copy(from: usize, to: usize, size: usize): void {
  if (size > 256) {
    memory.copy(to, from, size);
    return;
  }
  for (let i: usize = 0; i < size; i += 16) v128.store(to + i, v128.load(from + i));
}
