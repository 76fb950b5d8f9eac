import { defineConfig } from 'vitest/config';
import { MAY_PASS_LATER } from './test/support/outcome-reporter.js';

/** Of the whole run, once. */
export const GLOBAL_SETUP = ['scripts/assembly.mjs', 'test/support/global-setup.ts'];

/** They compare how much is served in one phase and in the next, or take all that there is, and have the machine for themselves. */
const ALONE = ['test/faults/overload.test.ts', 'test/attacks/**/*.test.ts'];

export const COMMON = {
  // Real Postgres and real processes: a slow machine must not fail a right answer.
  testTimeout: 180_000,
  hookTimeout: 120_000,
  // A file keeps two thirds of a processor busy: these are for two processors.
  maxWorkers: 3,
};

/** `test/support/outcome-reporter.ts` names each test that passed only then. */
export const ONCE_MORE = { count: 1, condition: MAY_PASS_LATER };

export const REPORTERS = ['default', './test/support/outcome-reporter.ts'];

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
          exclude: ['test/tools/**', 'test/faults/**', 'test/attacks/**'],
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
