/** Converts bytes of the body to bytes of a cell: texts, and JSON that stays unchanged. */
import {
  BACKSLASH,
  CARRIAGE_RETURN,
  copyStops,
  LINE_FEED,
  LOWER_N,
  LOWER_R,
  LOWER_T,
  QUOTE,
  stringStops,
  TAB,
} from './bytes';
import { codePoint, escaped, LETTER_BYTES, unitsEnd, writeCharacter } from './escape';
import { copy, outAt, seek } from './memory';

const BACKSLASHES: u16 = 0x5c5c;

/** Where a string is written: in binary, in a cell of COPY text, or in an element of an array in such a cell. */
export const PLAIN = 0;
export const CELL = 1;
export const ELEMENT = 2;

/**
 * Copies the bytes from `start` to `end`.
 * @returns `end`; 0 if it is 0
 */
export function copied(start: usize, end: usize): usize {
  if (end == 0) return 0;
  copy(start, outAt, end - start);
  seek(outAt + end - start);
  return end;
}

/** At the opening quote. Writes the string's content with the escapes for `context`. */
export function string(at: usize, context: i32): usize {
  let to = outAt;
  at++;
  while (true) {
    let stops = stringStops(at);
    v128.store(to, v128.load(at));
    while (stops == 0) {
      at += 16;
      to += 16;
      stops = stringStops(at);
      v128.store(to, v128.load(at));
    }
    const plain = usize(ctz(stops));
    at += plain;
    to += plain;
    const byte: u32 = load<u8>(at);
    if (byte == QUOTE) {
      seek(to);
      return at + 1;
    }
    if (byte != BACKSLASH) return 0;
    // An escape is often followed by another.
    do {
      let code = escaped(at);
      if (code != 0) at += LETTER_BYTES;
      else {
        at = unitsEnd(at);
        if (at == 0) return 0;
        code = codePoint;
      }
      to = writeIn(context, code, to);
    } while (load<u8>(at) == BACKSLASH);
  }
}

/** Writes JSON unchanged, including white space and escapes, and escapes it again for COPY text. */
export function copiedEscaped(at: usize, end: usize): usize {
  if (end == 0) return 0;
  let to = outAt;
  while (at < end) {
    v128.store(to, v128.load(at));
    const stops = copyStops(at);
    const plain = usize(stops == 0 ? 16 : ctz(stops));
    if (at + plain >= end) {
      to += end - at;
      break;
    }
    at += plain;
    to += plain;
    if (stops == 0) continue;
    to = writeEscaped(load<u8>(at), to);
    at++;
  }
  seek(to);
  return end;
}

function writeIn(context: i32, code: u32, to: usize): usize {
  if (context == PLAIN) return writeCharacter(code, to);
  // The array literal's own escape; COPY text doubles its backslash.
  if (context == ELEMENT && (code == QUOTE || code == BACKSLASH)) {
    store<u16>(to, BACKSLASHES);
    to += 2;
  }
  return writeEscaped(code, to);
}

/**
 * Writes a character for COPY text.
 * @returns its end
 */
function writeEscaped(code: u32, to: usize): usize {
  const letter = copyLetter(code);
  if (letter == 0) return writeCharacter(code, to);
  store<u8>(to, BACKSLASH);
  store<u8>(to + 1, letter);
  return to + 2;
}

/** The letter with which COPY text escapes a character that would be syntax; 0 for other characters. */
function copyLetter(code: u32): u32 {
  switch (code) {
    case BACKSLASH:
      return BACKSLASH;
    case LINE_FEED:
      return LOWER_N;
    case CARRIAGE_RETURN:
      return LOWER_R;
    case TAB:
      return LOWER_T;
    default:
      return 0;
  }
}
