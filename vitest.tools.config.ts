/** The tests that need a browser, Python or other shells; `.ci/run` installs them and runs them. */
import { defineConfig } from 'vitest/config';
import { COMMON, GLOBAL_SETUP, REPORTERS, SLOW_MS } from './vitest.config.js';

export default defineConfig({
  test: {
    ...COMMON,
    // Other people's suites and browsers have time limits of their own.
    maxWorkers: 2,
    reporters: REPORTERS,
    slowTestThreshold: SLOW_MS,
    globalSetup: GLOBAL_SETUP,
    include: ['test/tools/**/*.test.ts'],
  },
});
