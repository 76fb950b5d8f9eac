/**
 * Skips JSON (RFC 8259) without storing it. Each function takes the start of a value and returns its end, or 0 if it is
 * not JSON, or so rare that the checked path must read it. The bytes are known to be UTF-8. The zeros after the body
 * end every loop, so that no loop needs to check for the end.
 */
import {
  BACKSLASH,
  CASE,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  isDigit,
  LOWER_E,
  MINUS,
  noSpaces,
  OPEN_BRACE,
  OPEN_BRACKET,
  PLUS,
  POINT,
  QUOTE,
  SPACE,
  stringStops,
  ZERO,
} from './bytes';
import { escaped, LETTER_BYTES, unitsEnd } from './escape';
import { jsonDepth, valuesPerCell } from './host';

export const NULL_WORD: u32 = 0x6c6c756e;
const TRUE_WORD: u32 = 0x65757274;
const FALS_WORD: u32 = 0x736c6166;

/** Numbers up to this length, with an exponent of up to four digits, are in the range of Postgres's numeric. */
const SAFE_NUMBER_BYTES: usize = 100;
const SAFE_EXPONENT_DIGITS: usize = 4;

/** The number of arrays and objects open around a cell: the array of records, and the record. */
export const CELL_DEPTH: i32 = 2;

/** By depth: whether an object is open there. */
const MAX_DEPTH = 256;
const isObjectAt = memory.data(MAX_DEPTH);

/** Skips white space. There is usually none, so this is small enough for the compiler to inline. */
export function skipSpace(at: usize): usize {
  return load<u8>(at) > SPACE ? at : spaceEnd(at);
}

function spaceEnd(at: usize): usize {
  // Most writers insert only one byte.
  if (noSpaces(at) & 1) return at;
  at++;
  while (load<u8>(at) <= SPACE) {
    const others = noSpaces(at);
    if (others != 0) return at + ctz(others);
    at += 16;
  }
  return at;
}

/** The position after `byte`, if it is at `at` or after white space there; otherwise 0. */
export function take(byte: u32, at: usize): usize {
  at = skipSpace(at);
  return load<u8>(at) == byte ? at + 1 : 0;
}

/** From the end of a key to the start of its value. */
export function skipColon(at: usize): usize {
  if (load<u8>(at) != COLON) {
    at = skipSpace(at);
    if (load<u8>(at) != COLON) return 0;
  }
  return skipSpace(at + 1);
}

/** Skips any value, except one with a string or number that Postgres might refuse. */
export function valueEnd(at: usize): usize {
  const byte: u32 = load<u8>(at);
  if (byte == OPEN_BRACE || byte == OPEN_BRACKET) return nestedEnd(at);
  return byte == QUOTE ? stringEnd(at) : scalarEnd(at);
}

/** Skips a number, `null`, `true` or `false`. */
export function scalarEnd(at: usize): usize {
  const byte: u32 = load<u8>(at);
  return isDigit(byte) || byte == MINUS ? numberEnd(at) : literalEnd(at);
}

export function literalEnd(at: usize): usize {
  const word = load<u32>(at);
  if (word == NULL_WORD || word == TRUE_WORD) return at + 4;
  return word == FALS_WORD && load<u8>(at + 4) == LOWER_E ? at + 5 : 0;
}

/** At the opening quote. Also returns 0 for an escape of U+0000 or of a lone surrogate. */
function stringEnd(at: usize): usize {
  at++;
  while (true) {
    let stops = stringStops(at);
    while (stops == 0) {
      at += 16;
      stops = stringStops(at);
    }
    at += ctz(stops);
    const byte: u32 = load<u8>(at);
    if (byte == QUOTE) return at + 1;
    if (byte != BACKSLASH) return 0;
    do {
      at = escaped(at) != 0 ? at + LETTER_BYTES : unitsEnd(at);
      if (at == 0) return 0;
    } while (load<u8>(at) == BACKSLASH);
  }
}

function numberEnd(start: usize): usize {
  let at = start;
  if (load<u8>(at) == MINUS) at++;
  if (load<u8>(at) == ZERO) at++;
  else {
    const whole = at;
    at = digitsEnd(at);
    if (at == whole) return 0;
  }
  if (load<u8>(at) == POINT) {
    const fraction = at + 1;
    at = digitsEnd(fraction);
    if (at == fraction) return 0;
  }
  if ((load<u8>(at) | CASE) == LOWER_E) {
    at++;
    const sign: u32 = load<u8>(at);
    if (sign == PLUS || sign == MINUS) at++;
    const exponent = at;
    at = digitsEnd(at);
    if (at == exponent || at - exponent > SAFE_EXPONENT_DIGITS) return 0;
  }
  return at - start <= SAFE_NUMBER_BYTES ? at : 0;
}

function digitsEnd(at: usize): usize {
  while (isDigit(load<u8>(at))) at++;
  return at;
}

/** At the opening brace or bracket of a cell. */
function nestedEnd(at: usize): usize {
  let depth = CELL_DEPTH;
  let isObject = false;
  // The cell itself does not count.
  let values = -1;
  while (at != 0) {
    // Start of a value.
    if (++values > valuesPerCell) return 0;
    const byte: u32 = load<u8>(at);
    if (byte == QUOTE) at = stringEnd(at);
    else if (byte == OPEN_BRACE || byte == OPEN_BRACKET) {
      if (depth == jsonDepth || depth == MAX_DEPTH) return 0;
      store<u8>(isObjectAt + usize(depth), u8(isObject));
      depth++;
      isObject = byte == OPEN_BRACE;
      at = skipSpace(at + 1);
      if (isObject) {
        if (load<u8>(at) != CLOSE_BRACE) {
          at = memberValue(at);
          continue;
        }
      } else if (load<u8>(at) != CLOSE_BRACKET) continue;
      // The array or object is empty: the loop below closes it.
    } else at = scalarEnd(at);
    if (at == 0) return 0;
    // End of a value.
    for (;;) {
      at = skipSpace(at);
      const next: u32 = load<u8>(at);
      at++;
      if (next == COMMA) {
        at = skipSpace(at);
        if (isObject) at = memberValue(at);
        break;
      }
      if (next != (isObject ? CLOSE_BRACE : CLOSE_BRACKET)) return 0;
      depth--;
      if (depth == CELL_DEPTH) return at;
      isObject = load<u8>(isObjectAt + usize(depth)) != 0;
    }
  }
  return 0;
}

/** From a key of a nested object to the start of its value. */
function memberValue(at: usize): usize {
  if (load<u8>(at) != QUOTE) return 0;
  at = stringEnd(at);
  return at == 0 ? 0 : skipColon(at);
}
