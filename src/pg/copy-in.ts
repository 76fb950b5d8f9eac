/** The messages of COPY … FROM STDIN. */
import { COPY_DONE, copyDataHeader } from './messages.js';

/** COPY's binary format before the first row: signature, flags, length of an absent extension (Postgres manual, COPY). */
export const BINARY_HEADER = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
/** After the last row. */
export const BINARY_TRAILER = Buffer.from([0xff, 0xff]);

/**
 * Bytes of one CopyData message, which need not end with a row. Postgres takes a message as a whole, into memory that it
 * copies the rows from, and reports progress after each: long data is sent in several.
 */
const MESSAGE_BYTES = 64 * 1024;

/** The messages after `COPY … FROM STDIN` that bring its rows. */
export function copyMessages(data: readonly Uint8Array[]): Uint8Array[] {
  const length = data.reduce((sum, part) => sum + part.length, 0);
  if (length <= MESSAGE_BYTES) return [copyDataHeader(length), ...data, COPY_DONE];
  return [...data.flatMap(dataMessages), COPY_DONE];
}

export function dataMessages(part: Uint8Array): Uint8Array[] {
  const messages: Uint8Array[] = [];
  for (let at = 0; at < part.length; at += MESSAGE_BYTES) {
    const piece = part.subarray(at, at + MESSAGE_BYTES);
    messages.push(copyDataHeader(piece.length), piece);
  }
  return messages;
}
