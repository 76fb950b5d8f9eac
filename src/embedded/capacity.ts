/** The number of servers that can run at once on this machine. */
import { readFile } from 'node:fs/promises';
import { lowestLimit } from './cgroup.js';
import { memoryBytes } from './process-limits.js';
import { softLimit } from './proc.js';

interface Capacity {
  readonly servers: number;
  /** The limiting resource: `memory`, `processes`, `open files` or `shared memory segments`. */
  readonly bound: string;
}

/** Memory of a running server with a few connections. All servers together may use half of the machine's memory. */
const SERVER_BYTES = 48 * 1024 * 1024;

/** Postgres's own processes, and some connections. */
const SERVER_PROCESSES = 12;

/** File descriptors that the service needs for its connections to one server. */
const SERVER_FILES = 6;

/** Reserved for everything else. */
const OTHER_PROCESSES = 200;
const OTHER_FILES = 256;
const OTHER_SEGMENTS = 8;

/** SysV segments that macOS allows (`kern.sysv.shmmni`). */
const MACOS_SEGMENTS = 32;

/** A limit that the system does not report counts as no limit. */
export async function capacityOf(): Promise<Capacity> {
  const [ids, segments] = await Promise.all(['/proc/sys/kernel/pid_max', '/proc/sys/kernel/shmmni'].map(numberIn));
  const [own, files] = await Promise.all([softLimit('self', 'Max processes'), softLimit('self', 'Max open files')]);
  const processes = Math.min(own ?? Infinity, ids ?? Infinity, lowestLimit('pids'));
  const bounds: Capacity[] = [
    { bound: 'memory', servers: memoryBytes() / 2 / SERVER_BYTES },
    { bound: 'processes', servers: (processes - OTHER_PROCESSES) / SERVER_PROCESSES },
    { bound: 'open files', servers: ((files ?? Infinity) - OTHER_FILES) / SERVER_FILES },
    // Each Postgres server holds one segment, which marks its data directory as in use (Postgres manual, Shared Memory
    // and Semaphores).
    {
      bound: 'shared memory segments',
      servers: (process.platform === 'darwin' ? MACOS_SEGMENTS : (segments ?? Infinity)) - OTHER_SEGMENTS,
    },
  ];
  const { bound, servers } = bounds.reduce((least, other) => (other.servers < least.servers ? other : least));
  return { bound, servers: Math.max(2, Math.floor(servers)) };
}

/** A missing file means no limit. */
async function numberIn(path: string): Promise<number> {
  // Only Linux has the file; without it there is no limit.
  const value = Number.parseInt(await readFile(path, 'utf8').catch(() => ''));
  return Number.isNaN(value) ? Infinity : value;
}
