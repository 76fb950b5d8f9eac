import { defineConfig } from 'vitest/config';

/** Of the whole run, once. */
export const GLOBAL_SETUP = ['scripts/assembly.mjs', 'test/support/global-setup.ts'];

/** It compares how much is served in one phase and in the next, and has the machine for itself. */
const ALONE = ['test/faults/overload.test.ts'];

export const COMMON = {
  // Real Postgres and real processes: a slow machine must not fail a right answer.
  testTimeout: 180_000,
  hookTimeout: 120_000,
  // A file keeps two thirds of a processor busy: these are for two processors.
  maxWorkers: 3,
};

/**
 * A test that failed runs once more, and `scripts/flaky-reporter.mjs` names it with its failure: one that races says little
 * of a change, and must be mended all the same. Not for what looks for rare defects: a property with its random
 * example, or a table that contradicts an answer (`UNTRUE` in test/faults/support/ledger.ts).
 */
export const ONCE_MORE = { count: 1, condition: /^(?!Property failed after|answers that the tables contradict)/ };

export const REPORTERS = ['default', './scripts/flaky-reporter.mjs'];

export default defineConfig({
  test: {
    reporters: REPORTERS,
    globalSetup: GLOBAL_SETUP,
    projects: [
      {
        test: {
          ...COMMON,
          name: 'main',
          retry: ONCE_MORE,
          include: ['test/**/*.test.ts'],
          // test/tools needs programs that `npm test` must not ask a bare machine for; CI installs them
          // (vitest.tools.config.ts).
          exclude: ['test/tools/**', 'test/faults/**'],
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          ...COMMON,
          name: 'faults',
          retry: ONCE_MORE,
          include: ['test/faults/**/*.test.ts'],
          exclude: ALONE,
          // They measure how soon the service is back, and mostly wait.
          maxWorkers: 2,
          sequence: { groupOrder: 2 },
        },
      },
      {
        test: {
          ...COMMON,
          name: 'alone',
          retry: ONCE_MORE,
          include: ALONE,
          maxWorkers: 1,
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
});
