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
export const SLASH = 0x2f;
export const ZERO = 0x30;
export const NINE = 0x39;
export const COLON = 0x3a;
export const OPEN_BRACKET = 0x5b;
export const BACKSLASH = 0x5c;
export const CLOSE_BRACKET = 0x5d;
export const OPEN_BRACE = 0x7b;
export const CLOSE_BRACE = 0x7d;

/** What stops the walk over a JSON string: its end, an escape, or a control character that may not stand there. */
export const IN_STRING = new Uint8Array(256);
IN_STRING.fill(1, 0, SPACE);
IN_STRING[QUOTE] = 1;
IN_STRING[BACKSLASH] = 1;

/** White space of JSON (RFC 8259 section 2). */
export const WHITE_SPACE = new Uint8Array(256);
for (const byte of [TAB, LINE_FEED, CARRIAGE_RETURN, SPACE]) WHITE_SPACE[byte] = 1;

/** Value of a hexadecimal digit, -1 for any other byte. */
export const HEX = new Int8Array(256).fill(-1);
for (let digit = 0; digit < 16; digit++) {
  HEX[digit.toString(16).charCodeAt(0)] = digit;
  HEX[digit.toString(16).toUpperCase().charCodeAt(0)] = digit;
}

export const isDigit = (byte: number | undefined): boolean => byte !== undefined && byte >= ZERO && byte <= NINE;
