/** Texts, numbers, booleans, JSON and bytes (contract section 4). */

/** An integer or numeric: a JSON number with all its digits, or a string if it is beyond ±(2^53-1) or not a number. */
export const jsonNumber = (text: string): string => (isSafe(text) ? text : `"${text}"`);

const NUMBER = /^-?(\d+)(?:\.0*([1-9])?)?/;
const MAX_SAFE = String(Number.MAX_SAFE_INTEGER);

/** A number of any size: a JSON number, or a string for NaN or an infinity. */
export const rawNumber = (text: string): string => (NUMBER.test(text) ? text : `"${text}"`);

/**
 * Compares digits, because a double cannot distinguish 2^53 - 1 + 0.1 from 2^53 - 1. Postgres writes no leading zeros.
 */
function isSafe(text: string): boolean {
  const match = NUMBER.exec(text);
  if (match === null) return false;
  const [, whole = '', fraction] = match;
  if (whole.length !== MAX_SAFE.length) return whole.length < MAX_SAFE.length;
  return whole < MAX_SAFE || (whole === MAX_SAFE && fraction === undefined);
}

/** Postgres's `t` and `f`. */
export const booleanText = (text: string): string => (text === 't' ? 'true' : 'false');

/**
 * JSON text on one line, as NDJSON requires. In a JSON string a line break is always escaped, so an unescaped one is
 * white space between tokens and can be a space. (`jsonb` never has one; `json` is as sent.)
 */
export const onOneLine = (text: string): string => text.replace(/[\r\n]/g, ' ');

/** Hex format (Postgres manual 8.4.1): `\x00ff`. Postgres's text depends on bytea_output. */
export const byteaText = (bytes: Buffer): string => `\\x${bytes.toString('hex')}`;

/** A "char" as Postgres 16 and later write it: empty for 0, `\ooo` above ASCII, so that it is always UTF-8. */
export function charText(bytes: Buffer): string {
  const byte = bytes.readUInt8();
  if (byte >= 0x80) return `\\${byte.toString(8)}`;
  return byte === 0 ? '' : String.fromCharCode(byte);
}
