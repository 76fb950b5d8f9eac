/** Writes text as a JSON string (RFC 8259 section 7), or as a field of CSV (RFC 4180). */
import { AS_CSV_ALONE } from './kinds';

const LINE_FEED: u32 = 0x0a;
const CARRIAGE_RETURN: u32 = 0x0d;
const SPACE: u32 = 0x20;
export const QUOTE: u32 = 0x22;
export const COMMA: u32 = 0x2c;
export const MINUS: u32 = 0x2d;
export const POINT: u32 = 0x2e;
export const ZERO: u32 = 0x30;
export const BACKSLASH: u32 = 0x5c;

/** The letter after the backslash, for U+0000 to U+001F: `u` if four digits follow. */
const ESCAPES = memory.data<u8>([
  0x75, 0x75, 0x75, 0x75, 0x75, 0x75, 0x75, 0x75, 0x62, 0x74, 0x6e, 0x75, 0x66, 0x72, 0x75, 0x75, 0x75, 0x75, 0x75,
  0x75, 0x75, 0x75, 0x75, 0x75, 0x75, 0x75, 0x75, 0x75, 0x75, 0x75, 0x75, 0x75,
]);
const LOWER_U: u32 = 0x75;

export function writeString(from: usize, end: usize, to: usize): usize {
  store<u8>(to++, QUOTE);
  while (from < end) {
    const bytes = v128.load(from);
    v128.store(to, bytes);
    const stops = escaped(bytes) | (1 << 16);
    const clean = min<usize>(ctz(stops), end - from);
    from += clean;
    to += clean;
    // A run that ends within the sixteen bytes ends at a byte to escape. More such bytes may follow.
    while (from < end && clean < 16) {
      const byte: u32 = load<u8>(from);
      if (byte >= SPACE && byte != QUOTE && byte != BACKSLASH) break;
      to = writeEscape(byte, to);
      from++;
    }
  }
  store<u8>(to, QUOTE);
  return to + 1;
}

/** Bits for quotes, backslashes and control characters. */
function escaped(bytes: v128): u32 {
  const controls = i8x16.lt_u(bytes, i8x16.splat(0x20));
  const marks = v128.or(i8x16.eq(bytes, i8x16.splat(0x22)), i8x16.eq(bytes, i8x16.splat(0x5c)));
  return i8x16.bitmask(v128.or(controls, marks));
}

function writeEscape(byte: u32, to: usize): usize {
  const letter: u32 = byte < SPACE ? load<u8>(ESCAPES + byte) : byte;
  store<u16>(to, BACKSLASH | (letter << 8));
  if (letter != LOWER_U) return to + 2;
  const low = byte & 15;
  store<u16>(to + 2, 0x3030);
  store<u8>(to + 4, ZERO + (byte >> 4));
  store<u8>(to + 5, low + (low < 10 ? 0x30 : 0x57));
  return to + 6;
}

/** Writes JSON text without line breaks, which are white space in JSON. `to` may equal `from`. */
export function writeOnOneLine(from: usize, end: usize, to: usize): usize {
  for (; from < end; from++) {
    const byte: u32 = load<u8>(from);
    store<u8>(to++, byte == LINE_FEED || byte == CARRIAGE_RETURN ? SPACE : byte);
  }
  return to;
}

/** Quotes the field only if necessary. */
export function writeField(from: usize, end: usize, format: u32, to: usize): usize {
  let specials: u32 = 0;
  for (let at = from; at < end; at += 16) {
    const bytes = v128.load(at);
    v128.store(to + (at - from), bytes);
    const left = end - at;
    const mask: u32 = left < 16 ? (1 << u32(left)) - 1 : 0xffff;
    specials |= special(bytes) & mask;
  }
  const isEmpty = from == end;
  if (specials == 0 && !isEmpty && !(format == AS_CSV_ALONE && isEndOfData(from, end))) return to + (end - from);
  store<u8>(to++, QUOTE);
  for (; from < end; from++) {
    const byte: u32 = load<u8>(from);
    store<u8>(to++, byte);
    if (byte == QUOTE) store<u8>(to++, QUOTE);
  }
  store<u8>(to, QUOTE);
  return to + 1;
}

/** Bits for quotes, commas, line feeds and carriage returns. */
function special(bytes: v128): u32 {
  const marks = v128.or(i8x16.eq(bytes, i8x16.splat(i8(QUOTE))), i8x16.eq(bytes, i8x16.splat(i8(COMMA))));
  const lines = v128.or(i8x16.eq(bytes, i8x16.splat(i8(LINE_FEED))), i8x16.eq(bytes, i8x16.splat(i8(CARRIAGE_RETURN))));
  return i8x16.bitmask(v128.or(marks, lines));
}

/** Before Postgres 18, `\.` alone on a line ended the data for COPY. */
function isEndOfData(from: usize, end: usize): bool {
  return end - from == 2 && load<u8>(from) == BACKSLASH && load<u8>(from + 1) == POINT;
}
