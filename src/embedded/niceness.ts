/**
 * Lowers the scheduling priority of Postgres processes that take much processor time, by niceness (sched(7)). On Linux alone;
 * elsewhere nothing changes.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { setPriority } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { hasCode } from '../files.js';
import { statOf } from './processes.js';

/**
 * A processor that both want is given to others nine times as long (sched(7)). At 19 it would be 68 times as long, and on
 * a machine with other work an honest query would never come to its end.
 */
export const LOW_PRIORITY_NICE = 10;

/** Processor time after the first look at a request beyond which its process gets the low priority. */
const GREEDY_MS = 100;

/**
 * The process keeps the low priority for the requests that follow: a greedy statement that is repeated gets it from the
 * beginning. Only root could raise it again, so after this time the connection is replaced.
 */
const KEPT_MS = 5_000;

/** USER_HZ, 100 wherever Linux runs on x86 and ARM (time(7)). */
const TICK_MS = 10;

/**
 * If the kernel schedules by autogroups, niceness counts only within one, and each Postgres process is in one of its own,
 * since it begins a session. Then the group's niceness has to be set as well (sched(7), "The autogroup feature").
 */
const AUTOGROUPS = '/proc/sys/kernel/sched_autogroup_enabled';

/** Without CAP_SYS_ADMIN the kernel sets the niceness of one group in a tenth of a second, over the whole machine. */
const AUTOGROUP_RETRY_MS = 110;
const AUTOGROUP_RETRIES = 30;

/** A connection's process: the same object for the same connection. */
interface Backend {
  readonly processId: number;
}

export class Niceness {
  /** When the processes with the low priority got it. */
  private readonly lowered = new WeakMap<Backend, number>();
  private autogroups: Promise<boolean> | undefined;

  /** @param isChild whether a process id is that of a child of one of our postmasters now: it may belong to anything */
  constructor(private readonly isChild: (pid: number) => boolean | Promise<boolean>) {}

  /** @returns true if the connection has had the low priority for a while, and should be closed after its request */
  shouldRecycle(backend: Backend): boolean {
    const since = this.lowered.get(backend);
    return since !== undefined && performance.now() - since > KEPT_MS;
  }

  /**
   * Watches the process of one request.
   * @returns what to call again and again while the request runs; it lowers the priority once much time was taken
   */
  watch(backend: Backend): () => Promise<void> {
    let first: number | null = null;
    return async () => {
      if (this.lowered.has(backend)) return;
      const used = await cpuMs(backend.processId);
      first ??= used;
      if (used === null || first === null || used - first < GREEDY_MS) return;
      this.lowered.set(backend, performance.now());
      await this.lower(backend.processId);
    };
  }

  /** @returns false if it is no process of ours (any more), or its priority may not be changed */
  async lower(pid: number): Promise<boolean> {
    if (process.platform !== 'linux' || !(await this.isChild(pid))) return false;
    try {
      setPriority(pid, LOW_PRIORITY_NICE);
      return !(await this.hasAutogroups()) || (await this.lowerGroup(pid));
    } catch (error) {
      if (hasCode(error, 'EACCES', 'EPERM', 'ESRCH', 'ENOENT', 'EROFS', 'ERR_SYSTEM_ERROR')) return false;
      throw error;
    }
  }

  private async lowerGroup(pid: number): Promise<boolean> {
    for (let attempt = 0; attempt < AUTOGROUP_RETRIES; attempt++) {
      try {
        await writeFile(`/proc/${pid}/autogroup`, String(LOW_PRIORITY_NICE));
        return true;
      } catch (error) {
        if (!hasCode(error, 'EAGAIN')) throw error;
        await sleep(AUTOGROUP_RETRY_MS);
        if (!(await this.isChild(pid))) return false;
      }
    }
    return false;
  }

  private hasAutogroups(): Promise<boolean> {
    this.autogroups ??= readFile(AUTOGROUPS, 'utf8').then(
      (text) => text.trim() === '1',
      () => false,
    );
    return this.autogroups;
  }
}

/** utime and stime, fields 14 and 15 of /proc/pid/stat (proc(5)); null for a process that is gone. */
async function cpuMs(pid: number): Promise<number | null> {
  const [user, system] = (await statOf(pid)).slice(11, 13).map(Number);
  return user === undefined || system === undefined ? null : (user + system) * TICK_MS;
}
