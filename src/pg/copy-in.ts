/** The messages of COPY … FROM STDIN. */
import { COPY_DONE, copyDataHeader } from './messages.js';

/** Precedes the rows in binary format: signature, flags, length of an absent extension (Postgres manual, COPY). */
const BINARY_HEADER = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
/** Follows the rows in binary format. */
const BINARY_TRAILER = Buffer.from([0xff, 0xff]);

/**
 * The size of a CopyData message, which need not end with a row. Postgres reads a whole message into memory and reports
 * progress after each, so long data is sent in several.
 */
const MESSAGE_BYTES = 64 * 1024;

/**
 * The messages with the rows for `COPY … FROM STDIN`.
 * @param rows in one format, without COPY's header and trailer
 */
export function copyMessages(rows: readonly Uint8Array[], isBinary: boolean): Uint8Array[] {
  const data: readonly Uint8Array[] = isBinary ? [BINARY_HEADER, ...rows, BINARY_TRAILER] : rows;
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
