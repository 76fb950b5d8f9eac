/**
 * The share of the processors that single Postgres processes get, by the scheduler's niceness (sched(7)). On Linux
 * alone; elsewhere nothing changes.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { setPriority } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { hasCode } from '../files.js';
import { parentOf } from './processes.js';

/**
 * Where the kernel schedules by autogroups, niceness counts only within one, and each Postgres process is in one of its
 * own, since it begins a session. Then the group's niceness has to be set as well (sched(7), "The autogroup feature").
 */
const AUTOGROUPS = '/proc/sys/kernel/sched_autogroup_enabled';

/** Without CAP_SYS_ADMIN the kernel sets the niceness of one group in a tenth of a second, over the whole machine. */
const AUTOGROUP_RETRY_MS = 110;
const AUTOGROUP_RETRIES = 30;

/**
 * A processor that both want is given to others nine times as long (sched(7)). At 19 it would be 68 times as long, and on
 * a machine with other work an honest query would never come to its end.
 */
export const GIVES_WAY = 10;

export class BackendPriority {
  private autogroups: Promise<boolean> | undefined;
  /** What each process was told last, as long as that is being carried out. */
  private readonly wanted = new Map<number, number>();

  /** @param isPostmaster whether a process is the postmaster of a server of ours */
  constructor(private readonly isPostmaster: (pid: number) => boolean) {}

  /**
   * Lowers the priority of a backend. It cannot be raised again: only root may.
   * @param pid as the server reported it for a connection that is still open
   * @param niceness 0 to 19; the higher, the more it gives way
   * @returns false where it is no process of our server (any more), or may not be changed
   */
  async lower(pid: number, niceness: number): Promise<boolean> {
    if (process.platform !== 'linux') return false;
    this.wanted.set(pid, niceness);
    try {
      return await this.carryOut(pid, niceness);
    } catch (error) {
      if (hasCode(error, 'EACCES', 'EPERM', 'ESRCH', 'ENOENT', 'EROFS', 'ERR_SYSTEM_ERROR')) return false;
      throw error;
    } finally {
      if (this.wanted.get(pid) === niceness) this.wanted.delete(pid);
    }
  }

  private async carryOut(pid: number, niceness: number): Promise<boolean> {
    if (!(await this.isOurs(pid))) return false;
    setPriority(pid, niceness);
    if (!(await this.hasAutogroups())) return true;
    for (let attempt = 0; attempt < AUTOGROUP_RETRIES; attempt++) {
      // Meanwhile it may have ended, or been told to give way further.
      if (this.wanted.get(pid) !== niceness) return true;
      if (attempt > 0 && !(await this.isOurs(pid))) return false;
      try {
        await writeFile(`/proc/${pid}/autogroup`, String(niceness));
        return true;
      } catch (error) {
        if (!hasCode(error, 'EAGAIN')) throw error;
        await sleep(AUTOGROUP_RETRY_MS);
      }
    }
    return false;
  }

  /** A process id may belong to anything by now; a child of our postmaster is a process of our server. */
  private async isOurs(pid: number): Promise<boolean> {
    return this.isPostmaster(await parentOf(pid));
  }

  private hasAutogroups(): Promise<boolean> {
    this.autogroups ??= readFile(AUTOGROUPS, 'utf8').then(
      (text) => text.trim() === '1',
      () => false,
    );
    return this.autogroups;
  }
}
