/** Escapes of a JSON string (RFC 8259 section 7). */
import { BACKSLASH, CARRIAGE_RETURN, hex, LINE_FEED, LOWER_N, LOWER_R, LOWER_T, QUOTE, TAB } from './bytes';

const SLASH: u32 = 0x2f;
const LOWER_B: u32 = 0x62;
const LOWER_F: u32 = 0x66;
const BACKSPACE: u32 = 0x08;
const FORM_FEED: u32 = 0x0c;

/** Backslash and letter. */
export const LETTER_BYTES: usize = 2;
const UNIT_BYTES: usize = 6;

/** `\u` */
const UNIT: u16 = 0x755c;

const HIGH_SURROGATE: i32 = 0xd800;
const LOW_SURROGATE: i32 = 0xdc00;
const SURROGATES_END: i32 = 0xe000;

/** The character for the letter after a backslash; 0: none. */
const CHARACTERS = memory.data(256);
setCharacter(QUOTE, QUOTE);
setCharacter(BACKSLASH, BACKSLASH);
setCharacter(SLASH, SLASH);
setCharacter(LOWER_N, LINE_FEED);
setCharacter(LOWER_T, TAB);
setCharacter(LOWER_R, CARRIAGE_RETURN);
setCharacter(LOWER_B, BACKSPACE);
setCharacter(LOWER_F, FORM_FEED);

function setCharacter(letter: u32, character: u32): void {
  store<u8>(CHARACTERS + usize(letter), character);
}

/** The character for the letter after the backslash at `at`; 0: none, or a code unit follows. */
export function escaped(at: usize): u32 {
  return load<u8>(CHARACTERS + usize(load<u8>(at + 1)));
}

/** The last character that {@link unitsEnd} has read. */
export let codePoint: u32 = 0;

/**
 * Reads the `\uXXXX` escape, or the surrogate pair of escapes, whose backslash is at `at`.
 * @returns its end; 0 if it is malformed, or Postgres cannot store it (U+0000, a lone surrogate)
 */
export function unitsEnd(at: usize): usize {
  const unit = unitAt(at);
  if (unit <= 0) return 0;
  at += UNIT_BYTES;
  codePoint = unit;
  if (unit < HIGH_SURROGATE || unit >= SURROGATES_END) return at;
  if (unit >= LOW_SURROGATE) return 0;
  const low = unitAt(at);
  if (low < LOW_SURROGATE || low >= SURROGATES_END) return 0;
  codePoint = 0x10000 + ((unit - HIGH_SURROGATE) << 10) + (low - LOW_SURROGATE);
  return at + UNIT_BYTES;
}

/** The code unit of the `\uXXXX` at `at`; negative if there is none. */
function unitAt(at: usize): i32 {
  const unit = (hex(at + 2) << 12) | (hex(at + 3) << 8) | (hex(at + 4) << 4) | hex(at + 5);
  return load<u16>(at) == UNIT ? unit : -1;
}

/**
 * Writes a character in UTF-8.
 * @returns its end
 */
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
