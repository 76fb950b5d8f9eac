/** The messages that clear a session of whatever statements have left in it. */
import { runUnnamed } from './messages.js';
import { fixed } from '../sql.js';

/** DISCARD ALL leaves the seed of random() as it is, and so the next request's random numbers to this one's choice. */
const SEED = 'SET seed = 0.';
const SEED_DIGITS = 15;

/** With a seed of zeros; {@link writeSeed} puts another one into a copy. */
export const RESET = Buffer.concat(runUnnamed(['DISCARD ALL', SEED + '0'.repeat(SEED_DIGITS)].map(fixed)));
const DIGITS_END = RESET.indexOf(SEED) + SEED.length + SEED_DIGITS;

/** @param at where {@link RESET} begins in `bytes` */
export function writeSeed(bytes: Buffer, at: number): void {
  let rest = Math.floor(Math.random() * 10 ** SEED_DIGITS);
  for (let i = at + DIGITS_END - 1; i >= at + DIGITS_END - SEED_DIGITS; i--) {
    bytes[i] = 0x30 + (rest % 10);
    rest = Math.floor(rest / 10);
  }
}

export function resetMessages(): Buffer {
  const bytes = Buffer.from(RESET);
  writeSeed(bytes, 0);
  return bytes;
}
