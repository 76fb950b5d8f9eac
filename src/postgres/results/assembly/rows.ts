/**
 * The walk over rows: from DataRow messages (Postgres manual 54.7) to the bytes of JSON or CSV, without leaving the memory
 * in between. Written in AssemblyScript, which has the syntax of TypeScript and the types and loads of WebAssembly;
 * `row-walk.ts` is its host.
 *
 * The plan of a result: int32 count of columns, int32 what rows become, int32 bytes behind a row, these four bytes, int32
 * bytes of all keys; for each column int32 kind, int32 bytes of the key; then the keys, one behind the other, which stand before the
 * values.
 */
import { copy, messages, plan, rows, rowsEnd, value } from './memory';
import { FIXED_BYTES, LONGEST_ESCAPE, writeCell } from './cells';
import { AS_JSON } from './kinds';

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

/** Where the parts of the memory are. */
export { messages, plan, rows, value };
export { MESSAGE_BYTES, PLAN_BYTES, ROW_BYTES, VALUE_BYTES } from './memory';

/** Of the last walk: where the message begins that was not taken, and how many were. */
export let read: usize = 0;
export let count: u32 = 0;

/**
 * Writes rows of whole messages up to `end`, at most `most` of them and `bytes` bytes. It stops before a message that is
 * no row, or is not whole, or is not for it.
 * @returns bytes written
 */
export function walk(end: usize, most: u32, bytes: usize): usize {
  const columns: usize = load<u32>(plan + COUNT);
  const room = usize(load<u32>(plan + KEY_BYTES)) + columns * FIXED_BYTES;
  const last = min(rowsEnd, rows + bytes);
  let at = messages;
  let to = rows;
  count = 0;
  while (count < most && at + HEAD_BYTES <= end && load<u8>(at) == DATA_ROW) {
    const next = at + 1 + bswap(load<u32>(at + 1));
    if (next > end || to + LONGEST_ESCAPE * (next - at) + room > last) break;
    const behind = row(at + HEAD_BYTES, next, columns, to);
    if (behind == 0) break;
    to = behind;
    at = next;
    count++;
  }
  read = at;
  return to - rows;
}

/** @returns the position behind the row that was written; 0 where a value of it needs more room than there is */
function row(from: usize, end: usize, columns: usize, to: usize): usize {
  const format = load<u32>(plan + FORMAT);
  let column = plan + COLUMNS;
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
      // Whoever sends this does not speak the protocol.
      if (next > end) unreachable();
      to = writeCell(load<u32>(column), format, u32(i), from, next, to);
      if (to == 0) return 0;
      from = next;
    } else if (format == AS_JSON) {
      store<u32>(to, NULL);
      to += 4;
    }
    column += COLUMN_BYTES;
  }
  if (from != end) unreachable();
  store<u32>(to, load<u32>(plan + ENDING));
  return to + load<u32>(plan + ENDING_BYTES);
}
