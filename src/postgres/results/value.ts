/** What the encoders of single values share: the shape of a value writer, and how to make one out of another. */
import { QUOTE } from './ascii.js';
import type { ByteWriter } from './byte-writer.js';
import { escapeJson } from './escape.js';

/** Writes one value that is not NULL; `input[start, end)` is the value as Postgres sent it. */
export type ValueWriter = (input: Buffer, start: number, end: number, out: ByteWriter) => void;

export const TEXT_FORMAT = 0;
export const BINARY_FORMAT = 1;

/** How the values of one Postgres type get into an answer. */
export interface ValueEncoder {
  /** What they are to the walk, one of `assembly/kinds.ts`. */
  readonly kind: number;
  /** The format to ask Postgres for (Postgres manual 54.1.3). The writers below read exactly this one. */
  readonly format: typeof TEXT_FORMAT | typeof BINARY_FORMAT;
  /** Writes the value as JSON. */
  readonly json: ValueWriter;
  /** Writes the value as plain text, for CSV; the caller quotes it. */
  readonly plain: ValueWriter;
}

/** Writes a value or null that its int32 length precedes (-1: NULL); returns the position behind it. */
export function writeField(input: Buffer, at: number, write: ValueWriter, out: ByteWriter): number {
  const length = input.readInt32BE(at);
  const start = at + 4;
  if (length < 0) {
    out.ascii('null');
    return start;
  }
  write(input, start, start + length, out);
  return start + length;
}

/** Plain text as a JSON string, for text that never holds a character to escape. */
export function quoted(plain: ValueWriter): ValueWriter {
  return (input, start, end, out) => {
    out.byte(QUOTE);
    plain(input, start, end, out);
    out.byte(QUOTE);
  };
}

/** Any plain text as a JSON string. */
export function escaped(plain: ValueWriter): ValueWriter {
  return (input, start, end, out) => {
    out.byte(QUOTE);
    const from = out.length;
    plain(input, start, end, out);
    escapeJson(from, out);
    out.byte(QUOTE);
  };
}
