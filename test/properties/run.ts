/**
 * How long the properties in this folder run: with a fixed seed and a bounded number of runs under `npm test`; with a
 * new seed and as many runs as time allows under `npm run fuzz` (scripts/fuzz.mjs).
 */
import type fc from 'fast-check';
import { expect, inject } from 'vitest';
import { expectFailure, type TestResponse } from '../support/service.js';

declare module 'vitest' {
  interface ProvidedContext {
    /** Only under `npm run fuzz`. */
    fuzz?: { seed: number; millisecondsEach: number };
  }
}

const SEED = 20_261_121;

/** @param numRuns under `npm test` */
export function parameters<T>(numRuns: number): fc.Parameters<T> {
  const fuzz = inject('fuzz');
  if (fuzz === undefined) return { seed: SEED, numRuns };
  return { seed: fuzz.seed, numRuns: 1_000_000_000, interruptAfterTimeLimit: fuzz.millisecondsEach };
}

/** A success, or a refusal in the usual shape (contract C2.1) that is the caller's own doing: never a 500. */
export function checkClear(response: TestResponse): void {
  expect([response.status === 500, response.text]).toEqual([false, response.text]);
  if (response.status >= 400) expectFailure(response, response.status, String(response.body?.error));
  else expect([200, 201]).toContain(response.status);
}
