/**
 * Starts the Postgres servers of a test run, once: the embedded 18; with CDP_TEST_MAJORS=all also each older major
 * version on the machine. Tests get them from `postgres.ts` and create databases of their own. Also prepares a data
 * folder that tests of the program copy.
 */
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { chmod, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { accountFor } from '../../src/embedded/accounts.js';
import { FOLDERS_OF_RUN, makeFolder } from './folder.js';
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
  const list = join(folder, 'folders');
  process.env[FOLDERS_OF_RUN] = list;
  const stops: (() => Promise<void>)[] = [];

  const teardown = async (): Promise<void> => {
    await Promise.all(stops.splice(0).map((stop) => stop()));
    await rm(folder, { recursive: true, force: true });
    process.off('exit', leave);
  };
  // Vitest does not tear down after a signal, it exits: then the servers are ended on the way out.
  const leave = (): void => {
    removeAll(list);
    rmSync(folder, { recursive: true, force: true, maxRetries: 8 });
  };
  process.once('exit', leave);
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

/** What still works while Node exits: ends the programs and servers of the run, and removes its folders. */
function removeAll(list: string): void {
  const folders = existsSync(list) ? readFileSync(list, 'utf8').split('\n').filter(Boolean) : [];
  // The second time those that one of them had just started.
  for (let time = 0; time < 2; time++) endProcesses(folders);
  for (const folder of folders.reverse()) {
    try {
      rmSync(folder, { recursive: true, force: true, maxRetries: 8 });
    } catch {
      // A disk is mounted there.
    }
  }
}

interface Process {
  readonly parent: number;
  readonly command: readonly string[];
}

/** Ends what this process and its children have started, and servers in the folders whose program has ended. */
function endProcesses(folders: readonly string[]): void {
  const all = allProcesses();
  const isOurs = (one: Process | undefined): boolean =>
    one !== undefined &&
    (one.parent === process.pid ||
      one.command.some((argument) => folders.some((folder) => argument.includes(folder))) ||
      isOurs(all.get(one.parent)));
  for (const [pid, one] of all) {
    if (!isOurs(one)) continue;
    try {
      // Killed, a postmaster would leave its children and its shared memory.
      process.kill(pid, basename(one.command[0] ?? '').startsWith('postgres') ? 'SIGQUIT' : 'SIGKILL');
    } catch {
      // It has ended.
    }
  }
}

/** By PID, without those that have ended; none on a system without `/proc`. */
function allProcesses(): Map<number, Process> {
  const all = new Map<number, Process>();
  const pids = existsSync('/proc') ? readdirSync('/proc').map(Number).filter(Number.isInteger) : [];
  for (const pid of pids) {
    try {
      const parent = Number(/\) \S (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1]);
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
      if (command !== '') all.set(pid, { parent, command: command.split('\0') });
    } catch {
      // It has just ended.
    }
  }
  return all;
}
