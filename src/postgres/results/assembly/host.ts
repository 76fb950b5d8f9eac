/** What the walk asks of `row-walk.ts`, which makes an instance of it. */

/**
 * A value that the walk does not write: that of this column, from `start` to `end`. Writes it as it stands in JSON or, for
 * CSV, without quotes, to the place that it knows for that.
 * @returns the bytes written; -1 where they are more than there is room for
 */
export declare function writeValue(column: u32, start: usize, end: usize): i32;
