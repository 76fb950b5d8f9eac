/** Counts the rows in the bytes of a file as they pass. */
import { type Format, NO_ROWS_OF_JSON } from './rows.js';

const LF = 0x0a;
const QUOTE = 0x22;

export class RowCounter {
  bytes = 0;
  #lines = 0;
  #isQuoted = false;
  readonly #format: Format;

  constructor(format: Format) {
    this.#format = format;
  }

  /** The head of CSV is no row. JSON has a line a row as it is written here. */
  get rows(): number {
    if (this.#format === 'json' && this.bytes === NO_ROWS_OF_JSON.length) return 0;
    return this.#format === 'csv' ? Math.max(0, this.#lines - 1) : this.#lines;
  }

  add(bytes: Uint8Array): void {
    const isCsv = this.#format === 'csv';
    this.bytes += bytes.length;
    for (let at = 0; at < bytes.length; at++) {
      const unit = bytes[at];
      // A quote within quotes is doubled, which comes to the same.
      if (isCsv && unit === QUOTE) this.#isQuoted = !this.#isQuoted;
      else if (unit === LF && !this.#isQuoted) this.#lines++;
    }
  }
}
