/**
 * The geometric types (Postgres manual 8.8) from binary to Postgres's text. They are made of double precision numbers,
 * whose text depends on extra_float_digits.
 */
import type { ByteWriter } from './byte-writer.js';
import { postgresFloat8 } from './float.js';
import type { ValueWriter } from './value.js';

const POINT_BYTES = 16;

function float8(input: Buffer, at: number): string {
  return postgresFloat8(input.readDoubleBE(at));
}

function point(input: Buffer, at: number): string {
  return `(${float8(input, at)},${float8(input, at + 8)})`;
}

/** The points of `input[start, end)` with commas between them. */
function points(input: Buffer, start: number, end: number): string {
  const texts: string[] = [];
  for (let at = start; at < end; at += POINT_BYTES) texts.push(point(input, at));
  return texts.join(',');
}

function writer(textOf: (input: Buffer, start: number, end: number) => string): ValueWriter {
  return (input, start, end, out: ByteWriter) => out.ascii(textOf(input, start, end));
}

/** `(1,2)` */
export const writePoint = writer(point);

/** `[(1,2),(3,4)]` */
export const writeLineSegment = writer((input, start, end) => `[${points(input, start, end)}]`);

/** `(3,4),(1,2)` */
export const writeBox = writer(points);

/** A line Ax + By + C = 0: `{A,B,C}` */
export const writeLine = writer(
  (input, start) => `{${float8(input, start)},${float8(input, start + 8)},${float8(input, start + 16)}}`,
);

/** A byte that says whether it is closed, int32 count, points: `((1,2),(3,4))`, open in brackets. */
export const writePath = writer((input, start, end) => {
  const list = points(input, start + 5, end);
  return input[start] === 1 ? `(${list})` : `[${list}]`;
});

/** int32 count, points: `((1,2),(3,4))` */
export const writePolygon = writer((input, start, end) => `(${points(input, start + 4, end)})`);

/** Centre and radius: `<(1,2),3>` */
export const writeCircle = writer((input, start) => `<${point(input, start)},${float8(input, start + POINT_BYTES)}>`);
