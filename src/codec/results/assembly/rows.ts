/**
 * The encoder of rows, from DataRow messages (Postgres manual, Message Formats) to the bytes of JSON or CSV. Written in
 * AssemblyScript, which has the syntax of TypeScript and the types and loads of WebAssembly; `row-encoder.ts` is its
 * host.
 *
 * The layout of a result: int32 number of columns, int32 format of the rows, int32 number of bytes after a row, these
 * bytes in four, int32 length of all keys; for each column int32 kind, int32 length of its key; then the keys, which
 * precede the values.
 */
import { writeArray } from './arrays';
import { copy, messages, layout, reserve, rows } from './memory';
import { FIXED_BYTES, MAX_ESCAPE_BYTES, writeCell } from './cells';
import { AS_JSON, ELEMENT } from './kinds';

const COUNT: usize = 0;
const FORMAT: usize = 4;
const ENDING_BYTES: usize = 8;
const ENDING: usize = 12;
const KEY_BYTES: usize = 16;
const COLUMNS: usize = 20;
const COLUMN_BYTES: usize = 8;

const DATA_ROW: u32 = 0x44;
/** Type, int32 length, int16 count of fields. */
const HEAD_BYTES: usize = 7;

const NULL: u32 = 0x6c6c756e;

export { rows };
export { allocMessages, allocLayout } from './memory';
export { allocValue } from './cells';

/** Results of the last call: the offset of the first message not taken, and the number of messages taken. */
export let read: usize = 0;
export let count: u32 = 0;

/**
 * Writes the rows of messages up to `end`: at least one, however long it becomes, but at most `most` rows and about
 * `bytes` bytes. Stops before a message that is incomplete or not a row.
 * @returns the bytes written
 */
export function encode(end: usize, most: u32, bytes: usize): usize {
  const columns: usize = load<u32>(layout + COUNT);
  const room = usize(load<u32>(layout + KEY_BYTES)) + columns * FIXED_BYTES;
  let at = messages;
  let to = rows;
  count = 0;
  while (count < most && at + HEAD_BYTES <= end && load<u8>(at) == DATA_ROW) {
    const next = at + 1 + bswap(load<u32>(at + 1));
    if (next > end) break;
    const longest = MAX_ESCAPE_BYTES * (next - at) + room;
    if (count > 0 && to + longest > rows + bytes) break;
    reserve(to, longest);
    to = row(at + HEAD_BYTES, next, columns, to);
    at = next;
    count++;
  }
  read = at;
  return to - rows;
}

/** @returns the position after the written row */
function row(from: usize, end: usize, columns: usize, to: usize): usize {
  const format = load<u32>(layout + FORMAT);
  let column = layout + COLUMNS;
  let key = column + columns * COLUMN_BYTES;
  for (let i: usize = 0; i < columns; i++) {
    const keyBytes: usize = load<u32>(column, 4);
    copy(key, to, keyBytes);
    key += keyBytes;
    to += keyBytes;
    const length = bswap(load<i32>(from));
    from += 4;
    if (length >= 0) {
      const next = from + length;
      // The sender violates the protocol.
      if (next > end) unreachable();
      const kind = load<u32>(column);
      to =
        kind > u32(ELEMENT)
          ? writeArray(kind, format, u32(i), from, next, to)
          : writeCell(kind, format, u32(i), from, next, to);
      from = next;
    } else if (format == AS_JSON) {
      store<u32>(to, NULL);
      to += 4;
    }
    column += COLUMN_BYTES;
  }
  if (from != end) unreachable();
  store<u32>(to, load<u32>(layout + ENDING));
  return to + load<u32>(layout + ENDING_BYTES);
}
