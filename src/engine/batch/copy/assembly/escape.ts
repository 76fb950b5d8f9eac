/** Escapes of a JSON string (RFC 8259 section 7). */
import { BACKSLASH, CARRIAGE_RETURN, hex, LINE_FEED, LOWER_N, LOWER_R, LOWER_T, LOWER_U, QUOTE, TAB } from './bytes';

const SLASH: u32 = 0x2f;
const LOWER_B: u32 = 0x62;
const LOWER_F: u32 = 0x66;
const BACKSPACE: u32 = 0x08;
const FORM_FEED: u32 = 0x0c;

const LETTER_BYTES: u32 = 2;
const UNIT_BYTES: u32 = 6;
const PAIR_BYTES: u32 = 12;

const HIGH_SURROGATE: u32 = 0xd800;
const LOW_SURROGATE: u32 = 0xdc00;
const BEHIND_SURROGATES: u32 = 0xe000;
const NO_UNIT: u32 = 0x10000;

/**
 * The escape that begins with the backslash at `at`, both of a surrogate pair: its length and its code point.
 * @returns 0 where it is none that Postgres can store (U+0000, half of a pair), or none at all
 */
export function escapeAt(at: usize): u32 {
  const letter = load<u8>(at + 1);
  if (letter != LOWER_U) {
    const meant = meaning(letter);
    return meant == 0 ? 0 : escape(LETTER_BYTES, meant);
  }
  const unit = unitAt(at);
  if (unit == 0 || unit == NO_UNIT) return 0;
  if (unit < HIGH_SURROGATE || unit >= BEHIND_SURROGATES) return escape(UNIT_BYTES, unit);
  if (unit >= LOW_SURROGATE || load<u8>(at + 6) != BACKSLASH || load<u8>(at + 7) != LOWER_U) return 0;
  const low = unitAt(at + UNIT_BYTES);
  if (low < LOW_SURROGATE || low >= BEHIND_SURROGATES) return 0;
  return escape(PAIR_BYTES, 0x10000 + ((unit - HIGH_SURROGATE) << 10) + (low - LOW_SURROGATE));
}

export function escapeLength(escape: u32): u32 {
  return escape >> 24;
}

export function codePoint(escape: u32): u32 {
  return escape & 0xffffff;
}

function escape(length: u32, code: u32): u32 {
  return (length << 24) | code;
}

function meaning(letter: u32): u32 {
  switch (letter) {
    case QUOTE:
    case BACKSLASH:
    case SLASH:
      return letter;
    case LOWER_N:
      return LINE_FEED;
    case LOWER_T:
      return TAB;
    case LOWER_R:
      return CARRIAGE_RETURN;
    case LOWER_B:
      return BACKSPACE;
    case LOWER_F:
      return FORM_FEED;
    default:
      return 0;
  }
}

/** The code unit of `\uXXXX`, whose first two bytes are there. */
function unitAt(at: usize): u32 {
  const a = hex(load<u8>(at + 2));
  const b = hex(load<u8>(at + 3));
  const c = hex(load<u8>(at + 4));
  const d = hex(load<u8>(at + 5));
  return (a | b | c | d) > 15 ? NO_UNIT : (a << 12) | (b << 8) | (c << 4) | d;
}

/** Writes a character in UTF-8. @returns where it ends */
export function writeCharacter(code: u32, to: usize): usize {
  if (code < 0x80) {
    store<u8>(to, code);
    return to + 1;
  }
  const last = 0x80 | (code & 0x3f);
  if (code < 0x800) {
    store<u8>(to, 0xc0 | (code >> 6));
    store<u8>(to + 1, last);
    return to + 2;
  }
  const third = 0x80 | ((code >> 6) & 0x3f);
  if (code < 0x10000) {
    store<u8>(to, 0xe0 | (code >> 12));
    store<u8>(to + 1, third);
    store<u8>(to + 2, last);
    return to + 3;
  }
  store<u8>(to, 0xf0 | (code >> 18));
  store<u8>(to + 1, 0x80 | ((code >> 12) & 0x3f));
  store<u8>(to + 2, third);
  store<u8>(to + 3, last);
  return to + 4;
}
