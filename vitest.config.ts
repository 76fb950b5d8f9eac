import { defineConfig } from 'vitest/config';

export const COMMON = {
  globalSetup: ['scripts/assembly.mjs', 'test/support/global-setup.ts'],
  // Real Postgres and real processes: a slow machine must not fail a right answer.
  testTimeout: 60_000,
  hookTimeout: 120_000,
  maxWorkers: 2,
};

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          ...COMMON,
          name: 'main',
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
          include: ['test/faults/**/*.test.ts'],
          // They measure how soon the service is back, and have the machine for themselves.
          maxWorkers: 1,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
