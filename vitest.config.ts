import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // They need programs that `npm test` must not ask a bare machine for; CI installs them (vitest.tools.config.ts).
    exclude: ['test/tools/**'],
    globalSetup: ['test/support/global-setup.ts'],
    // Real Postgres and real processes: a slow machine must not fail a right answer.
    testTimeout: 60_000,
    hookTimeout: 120_000,
    maxWorkers: 2,
  },
});
