/** How much of the processors a backend of the embedded server takes while it runs one request. */
import { readFile } from 'node:fs/promises';
import { type BackendPriority, GIVES_WAY } from './priority.js';

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
   * @param backend the same object for the same connection
   * @returns true where the connection has given way for a while, and should be replaced by a fresh one
   */
  isTired(backend: Process): boolean {
    const since = this.lowered.get(backend);
    return since !== undefined && performance.now() - since > KEPT_MS;
  }

  /**
   * Looks at the backend of a request that goes on and on. Once it has taken much processor time it gives way to all
   * others, for as long as its connection lives.
   * @param first what the looks at this request before returned; null: there was none
   * @returns the processor time at the first look, in milliseconds
   */
  async look(backend: Process, first: number | null): Promise<number | null> {
    if (this.lowered.has(backend)) return first;
    const used = await cpuMs(backend.processId);
    if (used === null || first === null) return used;
    if (used - first >= GREEDY_MS) {
      this.lowered.set(backend, performance.now());
      await this.priority.lower(backend.processId, GIVES_WAY);
    }
    return first;
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
