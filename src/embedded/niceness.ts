/** Lowers the priority of Postgres processes that use much processor time (niceness, sched(7)). Linux only. */
import { writeFile } from 'node:fs/promises';
import { setPriority } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { hasCode } from '../files.js';
import { cpuMs, readProc } from './proc.js';

/**
 * If a normal process wants the same processor, it gets nine times as much. At 19 it would get 68 times as much, and
 * honest queries would starve.
 */
export const LOW_PRIORITY_NICE = 10;

/** Processor time within one request after which its process gets the low priority. */
const GREEDY_MS = 100;

/** Only root could raise the priority again, so the connection is replaced after this time. */
const KEPT_MS = 5_000;

/** Without CAP_SYS_ADMIN, the kernel lets only one autogroup per 0.1 s change its niceness, on the whole machine. */
const AUTOGROUP_RETRY_MS = 110;
const AUTOGROUP_RETRIES = 30;

export class Niceness {
  /** When the process of each connection got the low priority. Each connection has its own object. */
  private readonly lowered = new WeakMap<{ processId: number }, number>();
  private autogroups: Promise<boolean> | undefined;

  /**
   * @param isChild whether a process is a child of one of the service's postmasters now; another program may have its
   * id
   */
  constructor(private readonly isChild: (pid: number) => boolean | Promise<boolean>) {}

  /** @returns true if the connection has had the low priority for a while, and should be closed after its request */
  shouldRecycle(backend: { processId: number }): boolean {
    const since = this.lowered.get(backend);
    return since !== undefined && performance.now() - since > KEPT_MS;
  }

  /** @returns a function to call repeatedly while a request runs; it lowers the priority of a busy process */
  watch(backend: { processId: number }): () => Promise<void> {
    let first: number | null = null;
    return async () => {
      if (this.lowered.has(backend)) return;
      const usedMs = await cpuMs(backend.processId);
      first ??= usedMs;
      if (usedMs === null || first === null || usedMs - first < GREEDY_MS) return;
      this.lowered.set(backend, performance.now());
      await this.lower(backend.processId);
    };
  }

  /** @returns false if the process does not belong to the service, or its priority may not be changed */
  async lower(pid: number): Promise<boolean> {
    if (process.platform !== 'linux' || !(await this.isChild(pid))) return false;
    try {
      setPriority(pid, LOW_PRIORITY_NICE);
      return !(await this.hasAutogroups()) || (await this.lowerAutogroup(pid));
    } catch (error) {
      if (hasCode(error, 'EACCES', 'EPERM', 'ESRCH', 'ENOENT', 'EROFS', 'ERR_SYSTEM_ERROR')) return false;
      throw error;
    }
  }

  private async lowerAutogroup(pid: number): Promise<boolean> {
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

  /**
   * With autogroups, niceness counts only within an autogroup, and each Postgres process has its own, because it begins
   * a session (sched(7)).
   */
  private hasAutogroups(): Promise<boolean> {
    this.autogroups ??= readProc('sys/kernel/sched_autogroup_enabled').then((text) => text.trim() === '1');
    return this.autogroups;
  }
}
