/** ASCII bytes and byte classes of the fast path, as tables that one array access answers. */

export const TAB = 0x09;
export const LINE_FEED = 0x0a;
export const CARRIAGE_RETURN = 0x0d;
export const SPACE = 0x20;
export const QUOTE = 0x22;
export const PLUS = 0x2b;
export const COMMA = 0x2c;
export const MINUS = 0x2d;
export const POINT = 0x2e;
export const ZERO = 0x30;
export const COLON = 0x3a;
export const UPPER_N = 0x4e;
export const OPEN_BRACKET = 0x5b;
export const BACKSLASH = 0x5c;
export const CLOSE_BRACKET = 0x5d;
export const LOWER_F = 0x66;
export const LOWER_N = 0x6e;
export const LOWER_R = 0x72;
export const LOWER_T = 0x74;
export const LOWER_U = 0x75;
export const OPEN_BRACE = 0x7b;
export const CLOSE_BRACE = 0x7d;

/** `null`, `true` and the end of `false` as words (`words.ts`). */
export const NULL_WORD = 0x6c6c756e;
export const TRUE_WORD = 0x65757274;
export const IN_FALSE = 0x65736c61;

/** White space of JSON (RFC 8259 section 2). */
export const WHITE_SPACE = new Uint8Array(256);
for (const byte of [TAB, LINE_FEED, CARRIAGE_RETURN, SPACE]) WHITE_SPACE[byte] = 1;

/** Value of a hexadecimal digit, -1 for any other byte. */
export const HEX = new Int8Array(256).fill(-1);
for (let digit = 0; digit < 16; digit++) {
  HEX[digit.toString(16).charCodeAt(0)] = digit;
  HEX[digit.toString(16).toUpperCase().charCodeAt(0)] = digit;
}

export const isDigit = (byte: number): boolean => byte >= ZERO && byte < COLON;

/** Behind the closing quote, where one stands at `at`; else -1, also where `at` is -1 already. */
export const behindQuote = (bytes: Uint8Array, at: number): number => (at >= 0 && bytes[at] === QUOTE ? at + 1 : -1);
