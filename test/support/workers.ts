/** The worker processes of a service, from outside. */
import { processes } from '../../src/embedded/processes.js';
import type { RunningProgram } from './program.js';

/** Their process ids. */
export async function workersOf({ process: { pid } }: Pick<RunningProgram, 'process'>): Promise<number[]> {
  const all = await processes();
  return all.filter(({ parent, command }) => parent === pid && isWorker(command)).map((worker) => worker.pid);
}

/** Those of these processes that are still workers. */
export async function stillThere(pids: readonly number[]): Promise<number[]> {
  const all = await processes();
  return all.filter(({ pid, command }) => pids.includes(pid) && isWorker(command)).map(({ pid }) => pid);
}

const isWorker = (command: string): boolean => command.includes('workers/worker.js');
