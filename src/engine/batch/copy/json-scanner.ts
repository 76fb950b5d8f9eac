/**
 * Walks over JSON in bytes (RFC 8259), once, without making anything of it: after each value it knows where that lies
 * and of which kind it is. Whatever is not JSON, and whatever is rare, ends the walk with `false`: the reference reader
 * then has the word. The bytes are known to be UTF-8.
 */
import { LIMITS } from '../../../contract/limits.js';
import {
  BACKSLASH,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  HEX,
  IN_STRING,
  isDigit,
  MINUS,
  OPEN_BRACE,
  OPEN_BRACKET,
  PLUS,
  POINT,
  QUOTE,
  SPACE,
  WHITE_SPACE,
  ZERO,
} from './bytes.js';
import { ESCAPED_BYTE, hex4, isAwkward } from './unescape.js';

/** Kinds of a value, as told by its bytes. */
export const NULL = 0;
export const TRUE = 1;
export const FALSE = 2;
/** A string without escapes. */
export const PLAIN_STRING = 3;
export const ESCAPED_STRING = 4;
/** Digits alone, perhaps with a minus. */
export const WHOLE_NUMBER = 5;
/** With a fraction, without an exponent. */
export const DECIMAL_NUMBER = 6;
export const EXPONENT_NUMBER = 7;
/** An array or object that is copied byte by byte in either format: no escapes, no line breaks, no tabs. */
export const PLAIN_NESTED = 8;
/** One that is copied byte by byte where COPY takes no byte for its own. */
export const VERBATIM_NESTED = 9;
/** Any other array or object: with exponents, huge numbers, or escapes that Postgres may not store. */
export const NESTED = 10;

/** Numbers up to this length, without an exponent, are within the range of every type that holds decimals. */
export const SAFE_NUMBER_BYTES = 100;

export class JsonScanner {
  /** Where the walk stands. */
  at = 0;
  /** Of the value that was walked over last. */
  kind = NULL;
  private bytes: Uint8Array = new Uint8Array(0);
  private end = 0;
  /** What the current nested value is, by all that was seen of it. */
  private nestedKind = PLAIN_NESTED;
  /** Whether the string that was walked over last has an escape of U+0000 or of a surrogate. */
  private isAwkward = false;

  begin(bytes: Uint8Array): void {
    this.bytes = bytes;
    this.end = bytes.length;
    this.at = 0;
  }

  get isAtEnd(): boolean {
    return this.at === this.end;
  }

  skipSpace(): void {
    const { bytes, end } = this;
    let at = this.at;
    while (at < end && WHITE_SPACE[bytes[at] as number] === 1) at++;
    this.at = at;
  }

  /** Steps over white space and then over `byte`, if that stands there. */
  take(byte: number): boolean {
    if (this.bytes[this.at] !== byte) {
      this.skipSpace();
      if (this.bytes[this.at] !== byte) return false;
    }
    this.at++;
    return true;
  }

  /** Walks over one value; {@link kind} says what it was. @param depth arrays and objects open around it */
  value(depth: number): boolean {
    const byte = this.bytes[this.at];
    if (byte === QUOTE) return this.string();
    if (isDigit(byte) || byte === MINUS) return this.number();
    if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      this.nestedKind = PLAIN_NESTED;
      if (!this.nested(depth)) return false;
      this.kind = this.nestedKind;
      return true;
    }
    return this.word('null', NULL) || this.word('true', TRUE) || this.word('false', FALSE);
  }

  /** At the opening quote. */
  string(): boolean {
    const { bytes, end } = this;
    let at = this.at + 1;
    this.kind = PLAIN_STRING;
    this.isAwkward = false;
    for (;;) {
      while (at < end && IN_STRING[bytes[at] as number] === 0) at++;
      const byte = bytes[at];
      if (byte === QUOTE) break;
      if (byte !== BACKSLASH || at + 1 >= end) return false;
      this.kind = ESCAPED_STRING;
      if (ESCAPED_BYTE[bytes[at + 1] as number] !== 0) at += 2;
      else if (bytes[at + 1] === LOWER_U && isHex4(bytes, at + 2, end)) {
        if (isAwkward(hex4(bytes, at + 2))) this.isAwkward = true;
        at += 6;
      } else return false;
    }
    this.at = at + 1;
    return true;
  }

  private number(): boolean {
    const { bytes } = this;
    let at = this.at;
    if (bytes[at] === MINUS) at++;
    if (bytes[at] === ZERO) at++;
    else if (isDigit(bytes[at])) at = this.digits(at);
    else return false;
    this.kind = WHOLE_NUMBER;
    if (bytes[at] === POINT) {
      if (!isDigit(bytes[at + 1])) return false;
      at = this.digits(at + 1);
      this.kind = DECIMAL_NUMBER;
    }
    const exponent = bytes[at];
    if (exponent === LOWER_E || exponent === UPPER_E) {
      at++;
      if (bytes[at] === PLUS || bytes[at] === MINUS) at++;
      if (!isDigit(bytes[at])) return false;
      at = this.digits(at);
      this.kind = EXPONENT_NUMBER;
    }
    this.at = at;
    return true;
  }

  private digits(from: number): number {
    const { bytes } = this;
    let at = from;
    while (isDigit(bytes[at])) at++;
    return at;
  }

  private nested(depth: number): boolean {
    if (depth >= LIMITS.jsonDepth) return false;
    const isObject = this.bytes[this.at++] === OPEN_BRACE;
    const close = isObject ? CLOSE_BRACE : CLOSE_BRACKET;
    this.nestedSpace();
    if (this.bytes[this.at] === close) {
      this.at++;
      return true;
    }
    for (;;) {
      if (isObject && !this.nestedKey()) return false;
      if (!this.nestedValue(depth + 1)) return false;
      this.nestedSpace();
      const byte = this.bytes[this.at++];
      if (byte === close) return true;
      if (byte !== COMMA) return false;
      this.nestedSpace();
    }
  }

  private nestedKey(): boolean {
    if (this.bytes[this.at] !== QUOTE || !this.string()) return false;
    if (this.kind !== PLAIN_STRING) this.atLeast(this.isAwkward ? NESTED : VERBATIM_NESTED);
    this.nestedSpace();
    if (this.bytes[this.at++] !== COLON) return false;
    this.nestedSpace();
    return true;
  }

  private nestedValue(depth: number): boolean {
    const byte = this.bytes[this.at];
    if (byte === OPEN_BRACE || byte === OPEN_BRACKET) return this.nested(depth);
    const start = this.at;
    if (!this.value(depth)) return false;
    if (this.kind === ESCAPED_STRING) this.atLeast(this.isAwkward ? NESTED : VERBATIM_NESTED);
    else if (this.kind === EXPONENT_NUMBER) this.atLeast(NESTED);
    else if (this.kind === WHOLE_NUMBER || this.kind === DECIMAL_NUMBER) {
      if (this.at - start > SAFE_NUMBER_BYTES) this.atLeast(NESTED);
    }
    return true;
  }

  private atLeast(kind: number): void {
    if (kind > this.nestedKind) this.nestedKind = kind;
  }

  /** White space inside a nested value is copied with it; COPY's text format would take some of it for its own. */
  private nestedSpace(): void {
    const from = this.at;
    this.skipSpace();
    for (let at = from; at < this.at; at++) if ((this.bytes[at] as number) < SPACE) this.atLeast(VERBATIM_NESTED);
  }

  private word(word: string, kind: number): boolean {
    for (let i = 0; i < word.length; i++) if (this.bytes[this.at + i] !== word.charCodeAt(i)) return false;
    this.at += word.length;
    this.kind = kind;
    return true;
  }
}

const LOWER_E = 0x65;
const UPPER_E = 0x45;
const LOWER_U = 0x75;

function isHex4(bytes: Uint8Array, from: number, end: number): boolean {
  if (from + 4 > end) return false;
  for (let at = from; at < from + 4; at++) if ((HEX[bytes[at] as number] as number) < 0) return false;
  return true;
}
