/** bytea and "char" from the binary format: bytea's text depends on bytea_output, that of "char" on the version. */
import type { ByteWriter } from './byte-writer.js';
import type { ValueWriter } from './value.js';

const HEX_DIGITS = Buffer.from('0123456789abcdef', 'ascii');

/** A bytea in hex format (Postgres manual 8.4.1) behind `prefix` and before `suffix`. */
function hexWriter(prefix: string, suffix: string): ValueWriter {
  return (input, start, end, out) => {
    out.ascii(prefix);
    out.ensure(2 * (end - start));
    const { bytes } = out;
    let at = out.length;
    for (let i = start; i < end; i++) {
      const byte = input[i] as number;
      bytes[at++] = HEX_DIGITS[byte >> 4] as number;
      bytes[at++] = HEX_DIGITS[byte & 15] as number;
    }
    out.length = at;
    out.ascii(suffix);
  };
}

/** `\x00ff`. */
export const writeBytea = hexWriter('\\x', '');

/** The same as a JSON string, where the backslash is escaped. */
export const writeJsonBytea = hexWriter('"\\\\x', '"');

/** A "char" as Postgres 16 and later write it: nothing for 0, `\ooo` above ASCII, so that it is UTF-8 in any case. */
export function writeChar(input: Buffer, start: number, _end: number, out: ByteWriter): void {
  const byte = input[start] as number;
  if (byte >= 0x80) out.ascii(`\\${byte.toString(8)}`);
  else if (byte !== 0) out.byte(byte);
}
