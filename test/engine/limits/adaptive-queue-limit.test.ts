/**
 * How long a queue may be: full length for a burst, short if more requests arrive than are served for a longer time.
 */
import { expect, it } from 'vitest';
import { AdaptiveQueueLimit } from '../../../src/engine/limits/adaptive-queue-limit.js';

const WHOLE = 64;
const SHORT = 16;

/** Somebody asks every 10 ms behind a queue that is always full. @returns how long it may be after that */
function crowd(queue: AdaptiveQueueLimit, from: number, ms: number): number {
  for (let now = from; now < from + ms; now += 10) queue.tryAdmit(WHOLE, now);
  return lengthAt(queue, from + ms);
}

/** The first number of waiters behind which nobody may wait. */
function lengthAt(queue: AdaptiveQueueLimit, now: number): number {
  let waiting = 0;
  while (waiting < WHOLE && queue.tryAdmit(waiting, now)) waiting++;
  return waiting;
}

it('accepts a whole burst', () => {
  const queue = new AdaptiveQueueLimit(WHOLE, SHORT);
  expect(lengthAt(queue, 0)).toBe(WHOLE);
  expect(crowd(queue, 0, 900)).toBe(WHOLE);
});

it('is short while more requests arrive than are served, and full again a second after the last refusal', () => {
  const queue = new AdaptiveQueueLimit(WHOLE, SHORT);
  expect(crowd(queue, 0, 1_500)).toBe(SHORT);
  expect(lengthAt(queue, 2_400)).toBe(SHORT);
  expect(lengthAt(queue, 3_500)).toBe(WHOLE);
});

it('treats separate bursts as bursts', () => {
  const queue = new AdaptiveQueueLimit(WHOLE, SHORT);
  for (let start = 0; start < 60_000; start += 2_000) expect(crowd(queue, start, 500)).toBe(WHOLE);
});

it('is tried at full length every half minute, and shortened at once if that is still too long', () => {
  const queue = new AdaptiveQueueLimit(WHOLE, SHORT);
  crowd(queue, 0, 1_500);
  for (let now = 1_500; now < 31_500; now += 100) queue.tryAdmit(SHORT, now);
  expect(queue.tryAdmit(SHORT, 31_500)).toBe(true);
  expect(queue.tryAdmit(WHOLE, 31_600)).toBe(false);
  expect(queue.tryAdmit(SHORT, 31_700)).toBe(false);
});
