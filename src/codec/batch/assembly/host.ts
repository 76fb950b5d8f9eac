/** The imports of the encoder, which `batch-encoder.ts` provides. */

/** Limits of a batch (contract C1.5, C1.22). */
export declare const jsonDepth: i32;
export declare const valuesPerCell: i32;

/**
 * Odd and unpredictable: otherwise a caller could choose column names with the same hash, and lookups would take
 * quadratic time.
 */
export declare const hashFactor: u64;

/**
 * Reads a rare or wrong cell by the checked path: the well-formed JSON value from `start` to `end`, for the column with
 * this index. Writes it in binary to `to`, or in text to the address from `allocText`.
 * @returns the bytes written; -1 if the checked path must read the batch
 */
export declare function readCell(column: i32, start: usize, end: usize, to: usize): i32;

/** The double closest to a JSON number. */
export declare function readDouble(start: usize, end: usize): f64;
