import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';
import { MAY_PASS_LATER } from './test/support/outcome-reporter.js';

/** Run once for the whole run. */
export const GLOBAL_SETUP = ['scripts/assembly.mjs', 'test/support/global-setup.ts'];

/**
 * They compare throughput between phases, take everything the machine has, or hold moves that wait for a limited time:
 * they run one at a time, after all others.
 */
const ALONE = ['test/faults/{moves-killed,overload}.test.ts', 'test/attacks/**/*.test.ts'];

/** Only `npm run test:all` runs these: random tests, programs as processes, races, and whatever takes half a minute. */
const LONG = [
  ...['backup', 'citus', 'embedded', 'faults', 'isolation', 'process', 'properties', 'tenancy/connections'].map(
    (name) => `test/${name}/**`,
  ),
  'test/cli/{changes,doctor,events,export,operator-commands,project-move,remote,schedules,segments,server,subject,webhooks}.test.ts',
  'test/cli/import/{binary-files,import,quarantine}.test.ts',
  'test/client/{changes,faults,generated,insert-stream,package}.test.ts',
  'test/codec/batch/differential.test.ts',
  'test/deploy.test.ts',
  'test/docs/{afternoon,cli,client,neon,recipes,roles,runbook,schedules,servers,tutorial}.test.ts',
  'test/engine/audit/audit-outage.test.ts',
  'test/engine/projects/projects.test.ts',
  'test/engine/parser/splitter.test.ts',
  'test/examples.test.ts',
  'test/postgres-port/{ends,late-cancels,prepared,reader,sessions,stopwatch,strangers}.test.ts',
  'test/http/access/{cors,jwt,rate-limit,role-matrix,wrong-tokens}.test.ts',
  'test/http/admin/{admin,admin-socket,audit,monitoring,project-races,quota,repair,servers,usage}.test.ts',
  'test/http/batches/{insert-races,quarantine-rare,records-property,upsert-order}.test.ts',
  'test/http/edge/{hard-crowd,hard-framing,hard-http,memory,slows-no-one}.test.ts',
  'test/http/events/hostile.test.ts',
  'test/http/feed/{webhook-targets,webhooks}.test.ts',
  'test/http/mcp/{mcp-conformance,mcp-hostile}.test.ts',
  'test/http/streams/{crowd,edges,resume,same-table}.test.ts',
  'test/http/schedules/schedules.test.ts',
  'test/http/schema/{columns-protected,indexes,own-schemas,type-change-map}.test.ts',
  'test/http/sql/{sql-leaves-nothing,sql-limits,sql-stream-clients,sql-streams}.test.ts',
  'test/tenancy/{replicas,revoked-rights,servers}.test.ts',
  'test/moves/{copy,copy-access,erasures,moves,moves-lock-lost,moves-stream,stream}.test.ts',
];

export const COMMON = {
  setupFiles: ['test/support/declared-errors.ts'],
  // Real Postgres and real processes: a slow machine must not fail a right answer.
  testTimeout: 400_000,
  hookTimeout: 400_000,
  expect: { poll: { timeout: 60_000 } },
  // A file keeps half of a processor busy: these are for two processors.
  maxWorkers: 4,
  // `test/support/outcome-reporter.ts` names each test that passed only when run again, and calls it a bug.
  retry: { count: 1, condition: MAY_PASS_LATER },
};

export const REPORTERS = ['default', './test/support/outcome-reporter.ts'];

/** A test that takes longer is named, below the line of its file. */
export const SLOW_MS = 10_000;

/** Each file has a process of its own, too short-lived for WebAssembly (`pg_dump`, the parser of SQL) to be optimized. */
const BRIEF = ['--liftoff-only'];

let order = 0;

/** Projects run one after the other, in the order in which they are listed. */
const project = (
  name: string,
  include: string[],
  exclude: string[] = [],
  maxWorkers = COMMON.maxWorkers,
  execArgv = BRIEF,
): TestProjectInlineConfiguration => ({
  test: { ...COMMON, name, include, exclude, maxWorkers, execArgv, sequence: { groupOrder: ++order } },
});

/** The tests in `test/tools` need a browser, Python and other shells: `.ci/run` installs them (vitest.tools.config.ts). */
export default defineConfig({
  test: {
    reporters: REPORTERS,
    slowTestThreshold: SLOW_MS,
    globalSetup: GLOBAL_SETUP,
    projects: [
      project('main', ['test/**/*.test.ts'], ['test/tools/**', 'test/attacks/**', ...LONG]),
      project(
        'long',
        LONG.map((place) => place.replace(/\*\*$/, '**/*.test.ts')),
        ALONE,
      ),
      project('alone', ALONE, [], 1, []),
    ],
  },
});
