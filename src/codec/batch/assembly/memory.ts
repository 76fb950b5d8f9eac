/**
 * The memory of the encoder: its constants, the table that the program describes, the body with zeros behind it, and what is
 * written. Addresses are bytes from its beginning. An address of 0 says that there is none: nothing begins there.
 */

/** What a load at the end of the body, or a store at the end of what is written, may reach over. */
const SLACK: usize = 128;

const PAGE_BITS: usize = 16;
const PAGE: usize = 1 << PAGE_BITS;

/** Where the body begins, and where its padding does. */
export let body: usize = 0;
export let bodyEnd: usize = 0;

/** Where the next byte is written. */
export let outAt: usize = 0;

/** Behind `outAt`, what the rest of the record and of the body may need. */
let reserved: usize = 0;

/** Makes room for a body of this length at `start`, with zeros behind it. @returns where it goes; 0: no memory */
export function placeBody(start: usize, length: usize): usize {
  body = aligned(start);
  bodyEnd = body + length;
  if (!reach(bodyEnd + SLACK)) return 0;
  memory.fill(bodyEnd, 0, SLACK);
  outAt = aligned(bodyEnd + SLACK);
  return body;
}

export function wrote(end: usize): void {
  outAt = end;
}

/** Room behind what is written for so many bytes, whatever is written before the next call. */
export function reserve(bytes: usize): bool {
  reserved = bytes;
  return reserveBeside(0);
}

/** Room for more than that, of which `extra` bytes may be written at once. */
export function reserveBeside(extra: usize): bool {
  return reach(outAt + reserved + extra + SLACK);
}

/** Makes the memory reach to there. */
export function reach(end: usize): bool {
  const size = usize(memory.size()) << PAGE_BITS;
  if (end <= size) return true;
  const missing = (end - size + PAGE - 1) >> PAGE_BITS;
  return memory.grow(i32(missing)) >= 0;
}

export function aligned(address: usize): usize {
  return (address + 15) & ~15;
}

/** Copies forwards, up to 15 bytes too many; what it reads it must not have written. */
export function copy(from: usize, to: usize, size: usize): void {
  if (size > 256) {
    memory.copy(to, from, size);
    return;
  }
  for (let i: usize = 0; i < size; i += 16) v128.store(to + i, v128.load(from + i));
}
