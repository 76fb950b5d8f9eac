/** What an error reports about values that a type change would lose. */

/** A value that cannot be converted, as text that may be cut, and the number of rows that have it. */
export interface ValueCount {
  value: string;
  rows: number;
}

/** The rows whose values cannot be converted: their number, and the first ids. */
export interface UnconvertibleRows {
  rows: number;
  ids: readonly string[];
}
