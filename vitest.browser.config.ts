/** The tests that need a real browser; `.ci/run` installs one and runs them. */
import { defineConfig } from 'vitest/config';
import common from './vitest.config.js';

export default defineConfig({ test: { ...common.test, include: ['test/browser/**/*.test.ts'], exclude: [] } });
