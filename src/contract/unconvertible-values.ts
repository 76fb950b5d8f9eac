/** What an error says of the values that a type change would lose. */

/** A value that cannot be converted, as text that may be cut, and how many rows have it. */
export interface ValueCount {
  value: string;
  rows: number;
}

/** The rows whose values cannot be converted: how many, and the ids of the first. */
export interface UnconvertibleRows {
  rows: number;
  ids: readonly string[];
}
