/**
 * Starts the Postgres servers of a test run, once: the embedded 18; with CDP_TEST_MAJORS=all also each older major
 * version on the machine. Tests get them from `postgres.ts` and create databases of their own. Also prepares a data
 * folder that tests of the program copy.
 */
import { chmod, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { accountFor } from '../../src/embedded/accounts.js';
import { makeFolder } from './folder.js';
import { listFolders, removeRun } from './interrupted-run.js';
import { debianMajors, startThrowaway } from './throwaway-postgres.js';
import type { TestServer } from './postgres.js';
import { prepareDataDir } from './prepared-data-dir.js';

declare module 'vitest' {
  interface ProvidedContext {
    postgresServers: TestServer[];
  }
}

const majors = process.env['CDP_TEST_MAJORS'] === 'all' ? [18, ...debianMajors()] : [18];

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  // A short path, so that the sockets fit; passable, so that an unprivileged server reaches its folder in it.
  const folder = makeFolder('cdp-test-');
  await chmod(folder, 0o711);
  const account = await accountFor(folder);
  listFolders(folder);
  const stops: (() => Promise<void>)[] = [];

  const teardown = async (): Promise<void> => {
    await Promise.all(stops.splice(0).map((stop) => stop()));
    await rm(folder, { recursive: true, force: true });
    process.off('exit', removeRun);
  };
  // Vitest does not tear down after a signal, it exits: then the servers are ended on the way out.
  process.once('exit', removeRun);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1));

  const start = async (major: number): Promise<TestServer> => {
    const server = await startThrowaway(join(folder, String(major)), {
      major,
      account,
      settings: ['synchronous_commit=off'],
    });
    stops.push(() => server.stop());
    return { major, connection: server.connection };
  };
  const prepared = join(folder, 'prepared');
  const started = await Promise.allSettled(majors.map(start));
  const failed = started.find((result) => result.status === 'rejected');
  if (failed !== undefined) {
    await teardown();
    throw failed.reason;
  }
  await prepareDataDir(prepared);
  project.provide('preparedDataDir', prepared);
  project.provide(
    'postgresServers',
    started.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : [])),
  );
  return teardown;
}
