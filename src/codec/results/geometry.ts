/**
 * Converts the geometric types (Postgres manual 8.8) from binary format to Postgres's text. They contain double
 * precision numbers, whose text depends on extra_float_digits.
 */
import { postgresFloat8 } from './float.js';

const POINT_BYTES = 16;

const float8 = (bytes: Buffer, at: number): string => postgresFloat8(bytes.readDoubleBE(at));

const point = (bytes: Buffer, at: number): string => `(${float8(bytes, at)},${float8(bytes, at + 8)})`;

/** The points from `start` on, separated by commas. */
function points(bytes: Buffer, start: number): string {
  const texts: string[] = [];
  for (let at = start; at < bytes.length; at += POINT_BYTES) texts.push(point(bytes, at));
  return texts.join(',');
}

/** Such as `(1,2)`. */
export const pointText = (bytes: Buffer): string => point(bytes, 0);

/** Such as `[(1,2),(3,4)]`. */
export const lineSegmentText = (bytes: Buffer): string => `[${points(bytes, 0)}]`;

/** Such as `(3,4),(1,2)`. */
export const boxText = (bytes: Buffer): string => points(bytes, 0);

/** A line Ax + By + C = 0, as `{A,B,C}`. */
export const lineText = (bytes: Buffer): string => `{${float8(bytes, 0)},${float8(bytes, 8)},${float8(bytes, 16)}}`;

/** Flag (closed), int32 count, points. A closed path is `((1,2),(3,4))`; an open one has brackets. */
export const pathText = (bytes: Buffer): string => (bytes[0] === 1 ? `(${points(bytes, 5)})` : `[${points(bytes, 5)}]`);

/** int32 count, points; such as `((1,2),(3,4))`. */
export const polygonText = (bytes: Buffer): string => `(${points(bytes, 4)})`;

/** Center and radius, such as `<(1,2),3>`. */
export const circleText = (bytes: Buffer): string => `<${point(bytes, 0)},${float8(bytes, POINT_BYTES)}>`;
