/**
 * A body as bytes, and walks over JSON in it (RFC 8259), which make nothing of what they pass: each takes where a value
 * begins and returns where it ends, or -1 where that is no JSON, or something rare, which the reference has to look at.
 * The bytes are known to be UTF-8.
 */
import { LIMITS } from '../../../contract/limits.js';
import {
  BACKSLASH,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  IN_FALSE,
  isDigit,
  LOWER_F,
  LOWER_N,
  LOWER_T,
  MINUS,
  NULL_WORD,
  OPEN_BRACE,
  OPEN_BRACKET,
  PLUS,
  POINT,
  QUOTE,
  SPACE,
  TRUE_WORD,
  WHITE_SPACE,
  ZERO,
} from './bytes.js';
import { escapeLength } from './unescape.js';
import { firstMarked, stringStops } from '../../../postgres/words.js';

/** Zeros behind the body: they end every walk, so that none has to look for the end, and words may reach over it. */
const PADDING = 16;

/** Memory for a body, at least and as it is kept for the next one at most. */
const LEAST_BYTES = 64 * 1024;
const KEPT_BYTES = 4 * 1024 * 1024;

/** Numbers up to this length, with an exponent of up to four digits, are within the range of Postgres's numeric. */
const SAFE_NUMBER_BYTES = 100;
const SAFE_EXPONENT_DIGITS = 4;

/** Arrays and objects open around a cell: the array of records and the record. */
const CELL_DEPTH = 2;

const LOWER_E = 0x65;
const UPPER_E = 0x45;

export class JsonBytes {
  bytes = new Uint8Array(LEAST_BYTES);
  view = new DataView(this.bytes.buffer);
  /** Where the body ends; the padding begins. */
  end = 0;
  /** Whether the array that is open at this depth of a nested value is an object. */
  private readonly isObject = new Uint8Array(LIMITS.jsonDepth + 1);

  load(body: Uint8Array): void {
    const needed = body.length + PADDING;
    if (needed > this.bytes.length || this.bytes.length > KEPT_BYTES) {
      this.bytes = new Uint8Array(Math.max(needed + (needed >> 2), LEAST_BYTES));
      this.view = new DataView(this.bytes.buffer);
    }
    this.bytes.set(body);
    this.bytes.fill(0, body.length, needed);
    this.end = body.length;
  }

  /** @returns where what is no white space stands, from `at` on */
  skipSpace(at: number): number {
    const { bytes } = this;
    while (WHITE_SPACE[bytes[at] as number] === 1) at++;
    return at;
  }

  /** @returns where `byte` ends, when it stands at `at` or behind white space there; -1 where it does not */
  take(byte: number, at: number): number {
    if (this.bytes[at] !== byte) {
      at = this.skipSpace(at);
      if (this.bytes[at] !== byte) return -1;
    }
    return at + 1;
  }

  /** Any value, but one with a string or number that Postgres might refuse. */
  valueEnd(at: number): number {
    const byte = this.bytes[at];
    if (byte === OPEN_BRACE || byte === OPEN_BRACKET) return this.nestedEnd(at);
    return byte === QUOTE ? this.stringEnd(at) : this.scalarEnd(at);
  }

  /** A number, `null`, `true` or `false`. */
  scalarEnd(at: number): number {
    const byte = this.bytes[at] as number;
    return isDigit(byte) || byte === MINUS ? this.numberEnd(at) : this.literalEnd(at);
  }

  /** At the opening quote. The string has no escape of U+0000 or of half a surrogate pair. */
  stringEnd(at: number): number {
    const { bytes, view } = this;
    at++;
    for (;;) {
      const stops = stringStops(view.getInt32(at, true));
      if (stops === 0) {
        at += 4;
        continue;
      }
      at += firstMarked(stops);
      const byte = bytes[at];
      if (byte === QUOTE) return at + 1;
      if (byte !== BACKSLASH) return -1;
      const length = escapeLength(bytes, at);
      if (length === 0) return -1;
      at += length;
    }
  }

  numberEnd(start: number): number {
    const { bytes } = this;
    let at = start;
    if (bytes[at] === MINUS) at++;
    if (bytes[at] === ZERO) at++;
    else {
      if (!isDigit(bytes[at] as number)) return -1;
      do at++;
      while (isDigit(bytes[at] as number));
    }
    if (bytes[at] === POINT) {
      at++;
      if (!isDigit(bytes[at] as number)) return -1;
      do at++;
      while (isDigit(bytes[at] as number));
    }
    const byte = bytes[at];
    if (byte === LOWER_E || byte === UPPER_E) {
      at++;
      if (bytes[at] === PLUS || bytes[at] === MINUS) at++;
      const digits = at;
      while (isDigit(bytes[at] as number)) at++;
      if (at === digits || at - digits > SAFE_EXPONENT_DIGITS) return -1;
    }
    return at - start <= SAFE_NUMBER_BYTES ? at : -1;
  }

  /** `null`, `true`, `false` */
  literalEnd(at: number): number {
    const byte = this.bytes[at];
    if (byte !== LOWER_N && byte !== LOWER_T && byte !== LOWER_F) return -1;
    const word = this.view.getInt32(at, true);
    if (word === NULL_WORD || word === TRUE_WORD) return at + 4;
    return byte === LOWER_F && this.view.getInt32(at + 1, true) === IN_FALSE ? at + 5 : -1;
  }

  /** At the opening brace or bracket of a cell. */
  nestedEnd(at: number): number {
    const { bytes, isObject } = this;
    let depth = CELL_DEPTH;
    for (;;) {
      // At the beginning of a value.
      const byte = bytes[at] as number;
      if (byte === QUOTE) at = this.stringEnd(at);
      else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
        if (depth === LIMITS.jsonDepth) return -1;
        at++;
        if ((bytes[at] as number) <= SPACE) at = this.skipSpace(at);
        isObject[++depth] = byte === OPEN_BRACE ? 1 : 0;
        if (byte === OPEN_BRACE) {
          if (bytes[at] !== CLOSE_BRACE) {
            at = this.memberValue(at);
            if (at < 0) return -1;
            continue;
          }
        } else if (bytes[at] !== CLOSE_BRACKET) continue;
        // What is empty is closed by what follows.
      } else at = this.scalarEnd(at);
      if (at < 0) return -1;
      // Behind a value.
      for (;;) {
        if ((bytes[at] as number) <= SPACE) at = this.skipSpace(at);
        const next = bytes[at++];
        if (next === COMMA) {
          if ((bytes[at] as number) <= SPACE) at = this.skipSpace(at);
          if (isObject[depth] === 0) break;
          at = this.memberValue(at);
          if (at < 0) return -1;
          break;
        }
        if (next !== (isObject[depth] === 1 ? CLOSE_BRACE : CLOSE_BRACKET)) return -1;
        if (--depth === CELL_DEPTH) return at;
      }
    }
  }

  /** From a key of a nested object to the value behind it. */
  private memberValue(at: number): number {
    const { bytes } = this;
    if (bytes[at] !== QUOTE) return -1;
    at = this.stringEnd(at);
    return at < 0 ? -1 : this.behindColon(at);
  }

  /** From the end of a key to the value behind it. */
  behindColon(at: number): number {
    const { bytes } = this;
    if (bytes[at] !== COLON) {
      at = this.skipSpace(at);
      if (bytes[at] !== COLON) return -1;
    }
    at++;
    return (bytes[at] as number) <= SPACE ? this.skipSpace(at) : at;
  }
}
