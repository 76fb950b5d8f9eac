/** How many servers may run at once on this machine, as far as it can be read at the start. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { memoryBytes } from './limits.js';

export interface Capacity {
  readonly servers: number;
  /** What bounds it: `memory`, `processes`, `open files` or `shared memory segments`. */
  readonly bound: string;
}

const MIB = 1024 * 1024;

/** A running server with a few connections; all of them together may take half of the memory. */
const SERVER_MIB = 48;

/** Postgres's own processes, and some connections. */
const SERVER_PROCESSES = 12;

/** Connections of the service to one server. */
const SERVER_FILES = 6;

/** Kept for everything else. */
const OTHER_PROCESSES = 200;
const OTHER_FILES = 256;
const OTHER_SEGMENTS = 8;

export async function capacityOf(): Promise<Capacity> {
  const { processes, files, segments } = await limits();
  const bounds: Capacity[] = [
    { bound: 'memory', servers: memoryBytes() / 2 / (SERVER_MIB * MIB) },
    { bound: 'processes', servers: (processes - OTHER_PROCESSES) / SERVER_PROCESSES },
    { bound: 'open files', servers: (files - OTHER_FILES) / SERVER_FILES },
    // Each Postgres marks its data directory as in use by one (manual 18.4.1).
    { bound: 'shared memory segments', servers: segments - OTHER_SEGMENTS },
  ];
  const { bound, servers } = bounds.reduce((least, other) => (other.servers < least.servers ? other : least));
  return { bound, servers: Math.max(2, Math.floor(servers)) };
}

async function limits(): Promise<{ processes: number; files: number; segments: number }> {
  if (process.platform !== 'linux') {
    const [processes, files, segments] = await Promise.all(
      ['kern.maxprocperuid', 'kern.maxfilesperproc', 'kern.sysv.shmmni'].map(async (name) => {
        const { stdout } = await promisify(execFile)('sysctl', ['-n', name]);
        return Number(stdout);
      }),
    );
    return { processes: processes ?? Infinity, files: files ?? Infinity, segments: segments ?? Infinity };
  }
  const own = await readFile('/proc/self/limits', 'utf8');
  const soft = (name: string): number => numberIn(new RegExp(`^${name} +(\\S+)`, 'm').exec(own)?.[1]);
  const [ids, segments, group] = await Promise.all(
    ['/proc/sys/kernel/pid_max', '/proc/sys/kernel/shmmni', '/sys/fs/cgroup/pids.max'].map(async (path) =>
      numberIn(await readFile(path, 'utf8').catch(() => undefined)),
    ),
  );
  return {
    processes: Math.min(soft('Max processes'), ids ?? Infinity, group ?? Infinity),
    files: soft('Max open files'),
    segments: segments ?? Infinity,
  };
}

/** `unlimited`, `max` and what cannot be read are no limit. */
const numberIn = (text: string | undefined): number => {
  const value = Number.parseInt(text ?? '');
  return Number.isNaN(value) ? Infinity : value;
};
