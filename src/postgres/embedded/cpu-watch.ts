/** How much of the processors a backend of the embedded server takes while it runs one request. */
import { readFile } from 'node:fs/promises';
import { type BackendPriority, GIVES_WAY } from './priority.js';

/** Between two looks at a request that runs. One that is over before the second look costs nothing. */
const LOOK_MS = 100;

/** Processor time after the first look beyond which a backend gives way to all others. */
const GREEDY_MS = 100;

/** USER_HZ, 100 wherever Linux runs on x86 and ARM (time(7)). */
const TICK_MS = 10;

export class CpuWatch {
  constructor(private readonly priority: BackendPriority) {}

  /**
   * Lets a backend give way to all others once it has taken much processor time, for as long as its connection lives.
   * @param onLowered the connection should not be kept: the next request would be slow from its beginning
   * @returns ends the watch
   */
  start(pid: number, onLowered: () => void): () => void {
    let first: number | null = null;
    const look = async (): Promise<void> => {
      const used = await cpuMs(pid);
      if (used === null) return stop();
      first ??= used;
      if (used - first < GREEDY_MS) return;
      stop();
      onLowered();
      await this.priority.lower(pid, GIVES_WAY);
    };
    // A process that is gone, or may not be touched, is left alone: the statement runs as it did before.
    const timer = setInterval(() => void look().catch(stop), LOOK_MS);
    const stop = (): void => clearInterval(timer);
    return stop;
  }
}

/** utime and stime, fields 14 and 15 of /proc/pid/stat (proc(5)); null for a process that is gone. */
async function cpuMs(pid: number): Promise<number | null> {
  const stat = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '');
  const [user, system] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13)
    .map(Number);
  return user === undefined || system === undefined ? null : (user + system) * TICK_MS;
}
