/** The escapes of JSON strings (RFC 8259 section 7): quote, backslash and U+0000 to U+001F. */
import { BACKSLASH, LOWER_U, QUOTE } from './ascii.js';
import { stringStops } from './words.js';
import type { ByteWriter } from './byte-writer.js';

/** What stands behind the backslash for each byte: 0 if the byte needs none, `u` if four digits follow. */
const ESCAPES = new Uint8Array(256);
/** How many bytes more the escape of a byte has. */
const EXTRA_BYTES = new Uint8Array(256);
for (const byte of [...Array(0x20).keys(), QUOTE, BACKSLASH]) {
  const escape = JSON.stringify(String.fromCharCode(byte)).slice(1, -1);
  ESCAPES[byte] = escape.charCodeAt(1);
  EXTRA_BYTES[byte] = escape.length - 1;
}

const HEX_DIGITS = Buffer.from('0123456789abcdef', 'latin1');

function escapeBytes(from: DataView, start: number, end: number, to: DataView, at: number): number {
  for (let i = start; i < end; i++) {
    const byte = from.getUint8(i);
    const escape = ESCAPES[byte] as number;
    if (escape === 0) to.setUint8(at++, byte);
    else {
      to.setUint8(at, BACKSLASH);
      to.setUint8(at + 1, escape);
      at += 2;
      if (escape === LOWER_U) {
        to.setUint8(at, HEX_DIGITS[0] as number);
        to.setUint8(at + 1, HEX_DIGITS[0] as number);
        to.setUint8(at + 2, HEX_DIGITS[byte >> 4] as number);
        to.setUint8(at + 3, HEX_DIGITS[byte & 15] as number);
        at += 4;
      }
    }
  }
  return at;
}

/** Escapes in place what was written from `from` on, so that it can stand in a JSON string. */
export function escapeJson(from: number, out: ByteWriter): void {
  const { bytes, words, length } = out;
  let clean = from;
  while (clean <= length - 4 && stringStops(words.getInt32(clean, true)) === 0) clean += 4;
  let extra = 0;
  for (let at = clean; at < length; at++) extra += EXTRA_BYTES[bytes[at] as number] as number;
  if (extra > 0) insertEscapes(clean, extra, out);
}

/** Moves the bytes to the end of the room and from there each to its place, so that none is overwritten before it is read. */
function insertEscapes(from: number, extra: number, out: ByteWriter): void {
  const { length } = out;
  out.ensure(extra);
  out.bytes.copyWithin(from + extra, from, length);
  out.length = escapeBytes(out.words, from + extra, length + extra, out.words, from);
}
