/** How much of the processors a backend of the embedded server takes while it runs one request. */
import { readFile } from 'node:fs/promises';
import { type BackendPriority, GIVES_WAY } from './priority.js';

/** Between two looks at a request that runs. One that is over before the second look costs nothing. */
const LOOK_MS = 100;

/** Processor time after the first look beyond which a backend gives way to all others. */
const GREEDY_MS = 100;

/**
 * Requests that follow at once give way from their beginning: whoever repeats a greedy statement does not begin anew each
 * time. Only root could raise the priority again, so after this time the connection is replaced.
 */
const KEPT_MS = 5_000;

/** USER_HZ, 100 wherever Linux runs on x86 and ARM (time(7)). */
const TICK_MS = 10;

/** What is known of a connection's process. */
interface Process {
  readonly processId: number;
}

export class CpuWatch {
  /** When the processes that give way began to. */
  private readonly lowered = new WeakMap<Process, number>();

  constructor(private readonly priority: BackendPriority) {}

  /**
   * Lets a backend give way to all others once it has taken much processor time, for as long as its connection lives.
   * @param backend the same object for the same connection
   * @param onTired the connection has given way for a while, and should be replaced by a fresh one behind this request
   * @returns ends the watch
   */
  start(backend: Process, onTired: () => void): () => void {
    const since = this.lowered.get(backend);
    if (since !== undefined) {
      if (performance.now() - since > KEPT_MS) onTired();
      return () => {};
    }
    const { processId } = backend;
    let first: number | null = null;
    const look = async (): Promise<void> => {
      const used = await cpuMs(processId);
      if (used === null) return stop();
      first ??= used;
      if (used - first < GREEDY_MS) return;
      stop();
      this.lowered.set(backend, performance.now());
      await this.priority.lower(processId, GIVES_WAY);
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
