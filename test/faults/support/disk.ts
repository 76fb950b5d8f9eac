/**
 * Two ways to take disk space from Postgres, and to give it back. A small disk of the test's own requires the right to
 * mount; a limit on the size of files (setrlimit(2)) requires nothing, and writes fail in the same places.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { newDataDir } from '../../support/program.js';

const run = promisify(execFile);

export interface Disk {
  readonly dataDir: string;
  /** It is the disk that has no room, for the control database too. */
  readonly isFull: boolean;
  /** What Postgres says of a write that fails. */
  readonly sqlstate: string;
  /** No table can grow any more; the write-ahead log goes on for a while. */
  fill(service: number): Promise<void>;
  /** Not even the write-ahead log can be written. */
  break(service: number): Promise<void>;
  makeRoom(service: number): Promise<void>;
  /** After everything on it has ended. */
  close(): Promise<void>;
}

/** Beside the cluster and its log there is room for a second or two of inserts. */
const DISK_MIB = 400;

/**
 * A tmpfs below the data folder, filled with ballast.
 * @param mib its size @returns null where it cannot be mounted
 */
export async function smallDisk(mib = DISK_MIB): Promise<Disk | null> {
  const dataDir = await newDataDir();
  const folder = dirname(dataDir);
  try {
    await run('mount', ['-t', 'tmpfs', '-o', `size=${mib}m,mode=711`, 'tmpfs', folder]);
  } catch {
    return null;
  }
  const ballast = join(folder, 'ballast');
  // Larger than what is left, so it takes all of it, to the last byte.
  const fill = async () => {
    const room = writeFile(ballast, Buffer.alloc(1024 * 1024 * mib), { flag: 'a' });
    await room.catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOSPC') throw error;
    });
  };
  return {
    dataDir,
    isFull: true,
    sqlstate: '53100',
    fill,
    break: fill,
    makeRoom: () => rm(ballast),
    close: async () => {
      // Lazily: what a failed test has left running may still be using it.
      await run('umount', ['--lazy', folder]);
    },
  };
}

/** A segment of the write-ahead log, which is written within a file that is there already. */
export const SEGMENT_BYTES = 16 * 1024 * 1024;

/** Files that may not become larger than a number of bytes, for Postgres and for the service, which starts it again. */
export async function limitedFiles(): Promise<Disk> {
  const dataDir = await newDataDir();
  const limit = async (bytes: number | 'unlimited', service: number) => {
    // What they start from then on inherits it; what they were just starting is there at the second look.
    for (let known = new Set<number>(); ;) {
      const all = await familyOf(service);
      if (all.every((pid) => known.has(pid))) return;
      for (const pid of all) await limitProcess(pid, bytes);
      known = new Set(all);
    }
  };
  return {
    dataDir,
    isFull: false,
    sqlstate: '(?:XX000|53100)',
    fill: (service) => limit(SEGMENT_BYTES, service),
    break: (service) => limit(64 * 1024, service),
    makeRoom: (service) => limit('unlimited', service),
    close: () => Promise.resolve(),
  };
}

/**
 * Only the soft limit, which its own account may raise again; root may not where the machine denies it
 * CAP_SYS_RESOURCE.
 */
async function limitProcess(pid: number, bytes: number | 'unlimited'): Promise<void> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => null);
  if (status === null) return; // it has ended
  const idOf = (field: 'Uid' | 'Gid') => Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(status)?.[1]);
  const account = { uid: idOf('Uid'), gid: idOf('Gid') };
  await run('prlimit', ['--pid', String(pid), `--fsize=${bytes}:`], account).catch((error: Error) => {
    if (existsSync(`/proc/${pid}`)) throw error;
  });
}

/** A process, its children, and theirs: the service, Postgres, and the processes of that. */
async function familyOf(root: number): Promise<number[]> {
  const parents = new Map<number, number>();
  for (const name of await readdir('/proc')) {
    const stat = /^\d+$/.test(name) ? await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '') : '';
    // Behind the name in parentheses: state, then the parent (proc(5)).
    if (stat !== '') parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]));
  }
  const family = [root];
  for (const parent of family) for (const [pid, its] of parents) if (its === parent) family.push(pid);
  return family;
}
