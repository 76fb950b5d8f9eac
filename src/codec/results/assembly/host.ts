/** What the encoder imports from `row-encoder.ts`, which instantiates it. */

/**
 * Writes a value that the encoder does not write itself: that of this column, from `start` to `end`. It goes to where
 * `placeValue` says, as JSON or, for CSV, without quotes.
 * @returns the bytes written
 */
export declare function writeValue(column: u32, start: usize, end: usize): usize;
