/** Writes decimal digits. */
import { MINUS, POINT, ZERO } from './text';

/** 00 to 99 in memory order. */
export function pair(number: u32): u32 {
  const tens = (number * 205) >> 11;
  return 0x3030 | tens | ((number - tens * 10) << 8);
}

/**
 * Writes a point and millionths (1 to 999,999) without trailing zeros.
 * @returns the position after them
 */
export function writeMillionths(millionths: u32, to: usize): usize {
  const high = millionths / 10_000;
  const rest = millionths - high * 10_000;
  const middle = rest / 100;
  store<u8>(to, POINT);
  store<u16>(to + 1, pair(high));
  store<u16>(to + 3, pair(middle));
  store<u16>(to + 5, pair(rest - middle * 100));
  let end = to + 7;
  while (load<u8>(end - 1) == ZERO) end--;
  return end;
}

/** @returns the position after it */
function writeWhole(whole: u32, to: usize): usize {
  const end = to + digits(whole);
  let at = end;
  while (whole >= 100) {
    const rest = whole / 100;
    at -= 2;
    store<u16>(at, pair(whole - rest * 100));
    whole = rest;
  }
  if (whole >= 10) store<u16>(at - 2, pair(whole));
  else store<u8>(at - 1, ZERO + whole);
  return end;
}

function digits(whole: u32): usize {
  if (whole < 10_000) return whole < 100 ? (whole < 10 ? 1 : 2) : whole < 1_000 ? 3 : 4;
  if (whole < 1_000_000) return whole < 100_000 ? 5 : 6;
  return whole < 100_000_000 ? (whole < 10_000_000 ? 7 : 8) : whole < 1_000_000_000 ? 9 : 10;
}

const MILLION: f64 = 1_000_000;
const BILLION: f64 = 1_000_000_000;

/**
 * Writes a double below a billion that has at most six decimals, with the fewest digits that read back as it. No two
 * numbers of at most 15 digits are the same double, so the one that reads back is the shortest.
 * @returns the position after it; 0 for other numbers
 */
export function writeFewDecimals(number: f64, to: usize): usize {
  const magnitude = Math.abs(number);
  if (!(magnitude < BILLION)) return 0;
  const millionths = nearest(magnitude * MILLION);
  if (millionths / MILLION != magnitude) return 0;
  if (reinterpret<i64>(number) < 0) store<u8>(to++, MINUS);
  const whole = u32(magnitude);
  const end = writeWhole(whole, to);
  const rest = u32(u64(millionths) - u64(whole) * 1_000_000);
  return rest == 0 ? end : writeMillionths(rest, end);
}

const SMALLEST_PLAIN: f64 = 0.001;
const MAX_PLACES: u32 = 9;

/**
 * Writes a real between a thousandth and a million with the fewest decimals that read back as it. Not for a power of
 * two: its lower neighbor is closer than the upper one, so the nearest decimal may not be the shortest.
 * @returns the position after it; 0 for other numbers
 */
export function writeReal(number: f32, to: usize): usize {
  const magnitude = f64(Math.abs(f64(number)));
  const bits = reinterpret<u32>(number);
  if (!(magnitude >= SMALLEST_PLAIN && magnitude < MILLION) || (bits & 0x7fffff) == 0) return 0;
  let scale: f64 = 1;
  for (let places: u32 = 0; places <= MAX_PLACES; places++) {
    // Exact: 24 bits and the 21 of 5^9. A tie goes to the larger number, as in JavaScript.
    const scaled = Math.floor(magnitude * scale + 0.5);
    if (f32(scaled / scale) == f32(magnitude)) {
      if (bits >> 31 != 0) store<u8>(to++, MINUS);
      const whole = u64(scaled) / u64(scale);
      const end = writeWhole(u32(whole), to);
      return places == 0 ? end : writePlaces(u64(scaled) - whole * u64(scale), places, end);
    }
    scale *= 10;
  }
  return 0;
}

/**
 * Writes a point and a number padded with zeros to `places` digits.
 * @returns the position after them
 */
function writePlaces(number: u64, places: u32, to: usize): usize {
  store<u8>(to, POINT);
  const end = to + 1 + places;
  for (let at = end - 1; at > to; at--) {
    const rest = number / 10;
    store<u8>(at, ZERO + u32(number - rest * 10));
    number = rest;
  }
  return end;
}
