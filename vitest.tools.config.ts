/** The tests that need a browser or Python; `.ci/run` installs both and runs them. */
import { defineConfig } from 'vitest/config';
import { COMMON } from './vitest.config.js';

export default defineConfig({ test: { ...COMMON, include: ['test/tools/**/*.test.ts'] } });
