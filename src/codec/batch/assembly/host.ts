/** What the encoder imports from `wasm-encoder.ts`, which instantiates it. */

/** The contract's limits. */
export declare const recordsPerBatch: i32;
export declare const jsonDepth: i32;

/** Odd and unpredictable: looking up columns whose names all share one hash would take quadratic time. */
export declare const hashFactor: u64;

/**
 * Reads a rare or wrong cell by the checked path: the well-formed JSON value from `start` to `end`, for the column with
 * this index. Writes it in binary to `to`, in text to where `placeText` says.
 * @returns the bytes written; -1 if the checked path has to look at the batch
 */
export declare function readCell(column: i32, start: usize, end: usize, to: usize): i32;

/** The double nearest to a JSON number. */
export declare function readDouble(start: usize, end: usize): f64;
