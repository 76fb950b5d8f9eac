/** `postmaster.pid`, Postgres's own lock on a data directory, which names the postmaster and its state. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { PORT } from './config.js';
import { isMissing, readSmallFile } from '../files.js';
import type { Home } from './home.js';
import { endOrphans, isAlive, servedFolder, stopPostmaster } from './processes.js';

interface LockFile {
  readonly pid: number;
  readonly status: string;
  /** Of the SysV shared memory that marks the data directory as in use; undefined before there is any. */
  readonly sharedMemoryId: number | undefined;
}

/** Lines 1, 7 and 8 of the file (miscadmin.h of Postgres); the status is `starting`, `ready` or `stopping`. */
export async function readLockFile(home: Home): Promise<LockFile | undefined> {
  const content = await readSmallFile(lockPath(home)).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
  });
  if (content === undefined) return undefined;
  const lines = content.toString().split('\n');
  const [, id] = lines[6]?.trim().split(/\s+/) ?? [];
  return {
    pid: Number.parseInt(lines[0] ?? ''),
    status: lines[7]?.trim() ?? '',
    sharedMemoryId: id === undefined ? undefined : Number(id),
  };
}

const lockPath = (home: Home): string => join(home.data, 'postmaster.pid');

/** The postmaster that serves the data directory; undefined: there is none. */
export async function findPostmaster(home: Home): Promise<number | undefined> {
  const lock = await readLockFile(home);
  if (lock === undefined || Number.isNaN(lock.pid)) return undefined;
  return (await servedFolder(lock.pid)) === home.data ? lock.pid : undefined;
}

/**
 * Clears away what keeps Postgres from starting although nobody serves the data directory: a postmaster or backends
 * that outlived their service, and lock files whose pid belongs to another process or to a zombie by now. One whose
 * process is gone stays: Postgres learns from it whether the dead server's memory is still in use.
 * @returns whether there was anything
 */
export async function clearAway(home: Home): Promise<boolean> {
  const running = await findPostmaster(home);
  if (running !== undefined) await stopPostmaster(running, home.data);
  let found = (await endOrphans(home)) || running !== undefined;
  for (const path of [lockPath(home), join(home.socketDir, `.s.PGSQL.${PORT}.lock`)]) {
    const pid = Number.parseInt((await readSmallFile(path).catch(() => '0')).toString());
    if (pid === 0 || (isAlive(pid) && (await servedFolder(pid)) === home.data)) continue;
    if (Number.isNaN(pid) || isAlive(pid)) {
      await rm(path, { force: true });
      found = true;
    }
  }
  return found;
}
