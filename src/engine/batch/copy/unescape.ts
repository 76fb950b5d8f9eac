/** Escapes of a JSON string in bytes (RFC 8259 section 7). */
import { HEX } from './bytes.js';

/** What the letter behind a backslash stands for; 0 for `u`. */
export const ESCAPED_BYTE = new Uint8Array(256);
for (const [letter, meant] of ['""', '\\\\', '//', 'b\b', 'f\f', 'n\n', 'r\r', 't\t']) {
  ESCAPED_BYTE[(letter as string).charCodeAt(0)] = (meant as string).charCodeAt(0);
}

/** The code unit of four hexadecimal digits, which are known to be some. */
export const hex4 = (bytes: Uint8Array, at: number): number =>
  ((HEX[bytes[at] as number] as number) << 12) |
  ((HEX[bytes[at + 1] as number] as number) << 8) |
  ((HEX[bytes[at + 2] as number] as number) << 4) |
  (HEX[bytes[at + 3] as number] as number);

/** U+0000, which Postgres cannot store, and surrogates, of which nobody here knows whether they are a pair. */
export const isAwkward = (unit: number): boolean => unit === 0 || (unit >= 0xd800 && unit <= 0xdfff);
