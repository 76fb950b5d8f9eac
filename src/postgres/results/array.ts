/** Postgres arrays as JSON arrays, one level for each dimension. Lower bounds other than 1 are not shown. */
import { BACKSLASH, CLOSE_BRACE, CLOSE_BRACKET, COMMA, EQUALS, OPEN_BRACE, OPEN_BRACKET, QUOTE } from './ascii.js';
import { notTheProtocol } from '../errors.js';
import { OTHER } from './assembly/kinds.js';
import { ByteWriter } from './byte-writer.js';
import { BINARY_FORMAT, type ValueEncoder, type ValueWriter, writeField } from './value.js';

/** An array comes in the format of its elements; in CSV it is the JSON text too. */
export function arrayOf(element: ValueEncoder): ValueEncoder {
  const json = element.format === BINARY_FORMAT ? binaryArray(element.json) : textArray(element.json);
  return { kind: OTHER, format: element.format, json, plain: json };
}

/** MAXDIM of Postgres. */
const MAX_DIMENSIONS = 6;

/**
 * Binary format (array_send of Postgres): int32 dimensions, int32 flags, oid of the elements; for each dimension int32
 * size, int32 lower bound; then the elements in row-major order, each int32 length (-1: NULL) and bytes.
 */
function binaryArray(writeElement: ValueWriter): ValueWriter {
  return (input, start, _end, out) => {
    const dimensions = input.readInt32BE(start);
    const firstSize = start + 12;
    if (dimensions > MAX_DIMENSIONS) throw notTheProtocol();
    let at = firstSize + 8 * dimensions;

    const writeLevel = (level: number): void => {
      if (level === dimensions) {
        at = writeField(input, at, writeElement, out);
        return;
      }
      const size = input.readInt32BE(firstSize + 8 * level);
      // What is empty has no dimensions: each step takes some of what is there.
      if (size < 1) throw notTheProtocol();
      out.byte(OPEN_BRACKET);
      for (let i = 0; i < size; i++) {
        if (i > 0) out.byte(COMMA);
        writeLevel(level + 1);
      }
      out.byte(CLOSE_BRACKET);
    };

    if (dimensions === 0) out.ascii('[]');
    else writeLevel(0);
  };
}

/**
 * Text format (Postgres manual 8.15.6): `{1,NULL,"a \"quoted\" one"}`, nested braces for more dimensions, and
 * `[0:1]={…}` where a lower bound is not 1.
 */
function textArray(writeElement: ValueWriter): ValueWriter {
  const scratch = new ByteWriter(256);
  return (input, start, end, out) => {
    let at = input[start] === OPEN_BRACKET ? input.indexOf(EQUALS, start) + 1 : start;
    while (at < end) {
      const byte = input[at] as number;
      if (byte === OPEN_BRACE) out.byte(OPEN_BRACKET);
      else if (byte === CLOSE_BRACE) out.byte(CLOSE_BRACKET);
      else if (byte === COMMA) out.byte(COMMA);
      else if (byte === QUOTE) {
        scratch.clear();
        at = unquote(input, at, end, scratch);
        writeElement(scratch.bytes, 0, scratch.length, out);
        continue;
      } else {
        const stop = endOfBareElement(input, at, end);
        // A text that reads NULL is quoted by Postgres; bare, it is the missing value.
        if (stop - at === 4 && input.toString('latin1', at, stop) === 'NULL') out.ascii('null');
        else writeElement(input, at, stop, out);
        at = stop;
        continue;
      }
      at++;
    }
  };
}

/** Writes the element whose opening quote is at `at`, without its backslashes; returns the position behind it. */
function unquote(input: Buffer, at: number, end: number, out: ByteWriter): number {
  for (let i = at + 1; i < end; i++) {
    const byte = input[i] as number;
    if (byte === QUOTE) return i + 1;
    if (byte === BACKSLASH) i++;
    out.byte(input[i] as number);
  }
  throw notTheProtocol();
}

function endOfBareElement(input: Buffer, at: number, end: number): number {
  let stop = at;
  while (stop < end && input[stop] !== COMMA && input[stop] !== CLOSE_BRACE) stop++;
  return stop;
}
