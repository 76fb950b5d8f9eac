/** `postmaster.pid`, Postgres's lock on a data directory, which contains the process id and state of the postmaster. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing, readSmallFile } from '../files.js';
import { PORT } from './postgres-config.js';
import { isAlive } from './proc.js';
import { endOrphans, findPostmasters, serves, stopPostmaster } from './processes.js';
import type { ServerFolder } from './server-folder.js';

interface LockFile {
  readonly pid: number;
  /** `starting`, `ready` or `stopping`. */
  readonly status: string;
}

const lockPath = ({ data }: ServerFolder): string => join(data, 'postmaster.pid');

/** Lines 1 and 8 of the file (miscadmin.h of Postgres). */
export async function readLockFile(folder: ServerFolder): Promise<LockFile | undefined> {
  const path = lockPath(folder);
  const content = await readSmallFile(path).catch((error: Error) => {
    if (!isMissing(error)) throw new Error(`The lock file ${path} cannot be read: ${error.message}`, { cause: error });
  });
  if (content === undefined) return undefined;
  const lines = content.toString().split('\n');
  return { pid: Number.parseInt(lines[0] ?? ''), status: lines[7]?.trim() ?? '' };
}

/** The postmaster of the data directory; undefined if there is none. */
export async function findPostmaster(folder: ServerFolder): Promise<number | undefined> {
  const { pid } = (await readLockFile(folder)) ?? {};
  return pid !== undefined && (await serves(pid, folder.data)) ? pid : undefined;
}

/**
 * Removes everything that prevents Postgres from starting: a postmaster or backends that outlived their service, and
 * lock files whose process id now belongs to another process. A lock file whose process is gone stays: from it Postgres
 * finds shared memory.
 * @returns whether there was anything to remove
 */
export async function removeLeftovers(folder: ServerFolder): Promise<boolean> {
  // The server's account can replace its lock file by something else, which is none.
  const running = await findPostmaster(folder).catch(() => undefined);
  if (running !== undefined) await stopPostmaster(running, folder.data);
  let isOccupied = (await endOrphans(folder)) || running !== undefined;
  for (const path of [lockPath(folder), join(folder.socketDir, `.s.PGSQL.${PORT}.lock`)]) {
    // There is no lock file, or the account has put something else in its place.
    const pid = Number.parseInt((await readSmallFile(path).catch(() => '0')).toString());
    if (pid === 0 || !(await isStale(pid, folder))) continue;
    await rm(path, { force: true });
    isOccupied = true;
  }
  return isOccupied;
}

/** @param pid from a lock file; NaN: it is empty, as for a moment at the start of a postmaster */
async function isStale(pid: number, { data, root }: ServerFolder): Promise<boolean> {
  if (Number.isNaN(pid)) return !(await findPostmasters(root)).some((postmaster) => postmaster.data === data);
  return isAlive(pid) && !(await serves(pid, data));
}
