/** The tests that need a browser or Python; `.ci/run` installs both and runs them. */
import { defineConfig } from 'vitest/config';
import common from './vitest.config.js';

export default defineConfig({ test: { ...common.test, include: ['test/tools/**/*.test.ts'], exclude: [] } });
