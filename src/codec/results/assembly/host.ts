/** The imports of the encoder, which `row-encoder.ts` provides. */

/**
 * Writes a value that the encoder does not write itself: the one of this column, from `start` to `end`. Writes it to
 * the address from `allocValue`, as JSON or, for CSV, without quotes.
 * @returns the bytes written
 */
export declare function writeValue(column: u32, start: usize, end: usize): usize;
