/** What the encoder asks of `wasm-encoder.ts`, which makes an instance of it. */

/** The contract's limits. */
export declare const recordsPerBatch: i32;
export declare const jsonDepth: i32;

/** Odd, and nobody's to guess: names of columns that all have one hash would take a time that grows with their square. */
export declare const hashFactor: u64;

/**
 * A cell that is rare, or wrong: the JSON value of valid form from `start` to `end`, for the column of this index. Writes
 * what the checked path makes of it: in binary to `to`, in text to where `placeText` says.
 * @returns the bytes written; -1 where the checked path has to look at the batch
 */
export declare function readCell(column: i32, start: usize, end: usize, to: usize): i32;

/** The double nearest to a JSON number. */
export declare function readDouble(start: usize, end: usize): f64;
