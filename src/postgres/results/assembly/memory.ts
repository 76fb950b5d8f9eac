/**
 * The memory of the walk: its constants; the plan of a result; the messages; a value that was written outside; the rows.
 * It never grows, so that views of it stay what they are. Behind each part there is room for a load or store of sixteen
 * bytes that begins in it.
 */

const SLACK: usize = 64;

export const PLAN_BYTES: usize = 64 * 1024;
/** As much as is read from a socket at once. */
export const MESSAGE_BYTES: usize = 128 * 1024;
export const VALUE_BYTES: usize = 64 * 1024;
/** Room for the most that messages of common size become; mostly only the first part of it is touched. */
export const ROW_BYTES: usize = 1024 * 1024;

/** Constants take less. */
export const plan: usize = 16 * 1024;
export const messages: usize = plan + PLAN_BYTES + SLACK;
export const value: usize = messages + MESSAGE_BYTES + SLACK;
export const rows: usize = value + VALUE_BYTES + SLACK;
export const rowsEnd: usize = rows + ROW_BYTES;

/** Copies forwards, up to 15 bytes too many, between parts of the memory. */
export function copy(from: usize, to: usize, size: usize): void {
  if (size > 256) {
    memory.copy(to, from, size);
    return;
  }
  for (let i: usize = 0; i < size; i += 16) v128.store(to + i, v128.load(from + i));
}
