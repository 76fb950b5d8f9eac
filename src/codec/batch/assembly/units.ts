/**
 * Escaped code units (`\u0441\u044a`) four at a time. Whoever writes JSON in ASCII alone writes runs of them for whatever is not
 * Latin, six bytes each.
 */
import { UNIT } from './escape';

/** Bytes of four. */
export const FOUR_BYTES: usize = 24;

const HEADS = i8x16(0x5c, 0x75, 0, 0, 0, 0, 0x5c, 0x75, 0, 0, 0, 0, 0, 0, 0, 0);
const HEAD_BITS: i32 = 0b1100_0011;
const NONE = i32x4.splat(0);

/** Where the last of four begins. */
const LAST: usize = 18;

/** Whether four may begin at `at`: spares an escape that is alone the closer look. */
export function mayBeFour(at: usize): bool {
  return load<u16>(at + LAST) == UNIT;
}

/**
 * Writes the characters of the four that begin at `at`.
 * @returns where they end; 0 where there are not four, or not two bytes of UTF-8 for each, or three for each
 */
export function writeFour(at: usize, to: usize): usize {
  const units = fourAt(at);
  const last = v128.and(units, i32x4.splat(0x3f));
  const middle = i32x4.shr_u(units, 6);
  if (i32x4.all_true(i32x4.lt_u(i32x4.sub(units, i32x4.splat(0x80)), i32x4.splat(0x780)))) {
    const bytes = v128.or(v128.or(middle, i32x4.shl(last, 8)), i32x4.splat(0x80c0));
    v128.store(to, i16x8.narrow_i32x4_u(bytes, bytes));
    return to + 8;
  }
  if (!i32x4.all_true(i32x4.ge_u(units, i32x4.splat(0x800)))) return 0;
  const first = i32x4.shr_u(units, 12);
  const second = i32x4.shl(v128.and(middle, i32x4.splat(0x3f)), 8);
  const bytes = v128.or(v128.or(v128.or(first, second), i32x4.shl(last, 16)), i32x4.splat(0x8080e0));
  v128.store(to, i8x16.swizzle(bytes, i8x16(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1)));
  return to + 12;
}

/** The units of four escapes that begin at `at`, of none a half of a surrogate pair; else {@link NONE}. */
function fourAt(at: usize): v128 {
  const left = v128.load(at);
  const right = v128.load(at + 12);
  const heads = v128.and(i8x16.eq(left, HEADS), i8x16.eq(right, HEADS));
  if ((i8x16.bitmask(heads) & HEAD_BITS) != HEAD_BITS) return NONE;
  const digits = i8x16.shuffle(left, right, 2, 3, 4, 5, 8, 9, 10, 11, 18, 19, 20, 21, 24, 25, 26, 27);
  const decimals = i8x16.sub(digits, i8x16.splat(0x30));
  const letters = i8x16.sub(v128.or(digits, i8x16.splat(0x20)), i8x16.splat(0x61));
  const isDecimal = i8x16.lt_u(decimals, i8x16.splat(10));
  if (!i8x16.all_true(v128.or(isDecimal, i8x16.lt_u(letters, i8x16.splat(6))))) return NONE;
  const nibbles = v128.bitselect(decimals, i8x16.add(letters, i8x16.splat(10)), isDecimal);
  // The first of two stands for more, and lies lower.
  const halves = v128.and(v128.or(i16x8.shl(nibbles, 4), i16x8.shr_u(nibbles, 8)), i16x8.splat(0xff));
  const units = v128.and(v128.or(i32x4.shl(halves, 8), i32x4.shr_u(halves, 16)), i32x4.splat(0xffff));
  const surrogates = i32x4.eq(v128.and(units, i32x4.splat(0xf800)), i32x4.splat(0xd800));
  return v128.any_true(surrogates) ? NONE : units;
}
