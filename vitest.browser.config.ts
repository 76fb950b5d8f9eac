/** The tests that need a real browser; `.ci/run` installs one and runs them. */
import { defineConfig } from 'vitest/config';
import { COMMON } from './vitest.config.js';

export default defineConfig({ test: { ...COMMON, include: ['test/browser/**/*.test.ts'] } });
