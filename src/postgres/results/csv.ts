/**
 * Rows as CSV, from the bytes of a DataRow message: RFC 4180 with the choices of Postgres's COPY (manual, COPY, "CSV
 * Format"). Records end in a line feed, a field is quoted only where it must be, an empty field is NULL and `""` the
 * empty string.
 */
import { AS_CSV, AS_CSV_ALONE } from './assembly/kinds.js';
import { BACKSLASH, CARRIAGE_RETURN, COMMA, LINE_FEED, POINT, QUOTE } from './ascii.js';
import type { ByteWriter } from './byte-writer.js';
import { outputNames, type ResultColumn } from './columns.js';
import { RowEncoder } from './row-encoder.js';
import { encoderOf } from './types.js';

/** The first record: the names of the columns. */
export function writeCsvHeader(columns: readonly ResultColumn[], out: ByteWriter): void {
  outputNames(columns).forEach((name, i) => {
    if (i > 0) out.byte(COMMA);
    const from = out.length;
    out.append(Buffer.from(name));
    quoteWhereNeeded(from, columns.length === 1, out);
  });
  out.byte(LINE_FEED);
}

/** Rows as CSV records with their line end. */
export function csvRowEncoder(columns: readonly ResultColumn[]): RowEncoder {
  const isOnlyField = columns.length === 1;
  return new RowEncoder(
    columns.map(({ typeOid }) => encoderOf(typeOid)),
    {
      format: isOnlyField ? AS_CSV_ALONE : AS_CSV,
      keys: columns.map((_, i) => Buffer.from(i === 0 ? '' : ',')),
      ending: Buffer.from('\n'),
      writerOf: ({ plain }) => plain,
      writeField(input, at, write, out) {
        const length = input.readInt32BE(at);
        const start = at + 4;
        if (length < 0) return start;
        const from = out.length;
        write(input, start, start + length, out);
        quoteWhereNeeded(from, isOnlyField, out);
        return start + length;
      },
    },
  );
}

/** 1 for each byte that would end or open something if its field were not quoted. */
const SPECIAL = new Uint8Array(256);
for (const byte of [QUOTE, COMMA, LINE_FEED, CARRIAGE_RETURN]) SPECIAL[byte] = 1;

/** Quotes the field that was written from `from` on, if it would be read as something else without. */
function quoteWhereNeeded(from: number, isOnlyField: boolean, out: ByteWriter): void {
  const { bytes, length } = out;
  let special = 0;
  for (let at = from; at < length; at++) special += SPECIAL[bytes[at] as number] as number;
  if (special > 0 || length === from || (isOnlyField && isEndOfData(bytes, from, length))) quoteField(from, out);
}

/** `\.` alone on a line ended the data for COPY before Postgres 18. */
function isEndOfData(bytes: Buffer, from: number, end: number): boolean {
  return end - from === 2 && bytes[from] === BACKSLASH && bytes[from + 1] === POINT;
}

/** Puts quotes around the field and doubles those in it, moving its bytes from the last to the first. */
function quoteField(from: number, out: ByteWriter): void {
  let quotes = 0;
  for (let at = from; at < out.length; at++) if (out.bytes[at] === QUOTE) quotes++;
  let read = out.length - 1;
  out.ensure(quotes + 2);
  out.length += quotes + 2;
  const { bytes } = out;
  let write = out.length;
  bytes[--write] = QUOTE;
  for (; read >= from; read--) {
    const byte = bytes[read] as number;
    bytes[--write] = byte;
    if (byte === QUOTE) bytes[--write] = QUOTE;
  }
  bytes[--write] = QUOTE;
}
