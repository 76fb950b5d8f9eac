/** What the encoder asks of `row-encoder.ts`, which makes an instance of it. */

/**
 * A value that the encoder does not write: that of this column, from `start` to `end`. Writes it, as JSON or, for CSV,
 * without quotes, to where `placeValue` says.
 * @returns the bytes written
 */
export declare function writeValue(column: u32, start: usize, end: usize): usize;
