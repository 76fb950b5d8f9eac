/**
 * The Postgres processes of a data folder. A process id is trusted only if its command line is that of the service's
 * postmaster.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { hasCode } from '../files.js';
import { type Account, run } from './accounts.js';
import { commandLine, commandsOf, processes } from './proc.js';
import type { ServerFolder } from './server-folder.js';

/** The arguments that start a postmaster, and identify it. */
export const postmasterArguments = ({ data, config }: ServerFolder): string[] => [
  '-D',
  data,
  '-c',
  `config_file=${config}`,
];

/** The data directory of a postmaster; undefined for any other process. */
const directoryIn = (command: string): string | undefined => /postgres -D (.+) -c config_file=/.exec(command)?.[1];

/** Whether this process is the postmaster of this data directory, and not another program. */
export const serves = async (pid: number, data: string): Promise<boolean> =>
  directoryIn(await commandLine(pid)) === data;

/**
 * Signals, each with a time to wait (Postgres manual, Shutting Down the Server): fast, immediate, and kill for a
 * postmaster that hangs.
 */
const STOP_STEPS = [
  ['SIGINT', 10_000],
  ['SIGQUIT', 10_000],
  ['SIGKILL', 5_000],
] as const;

/** Stops the postmaster of a data directory and waits until it has exited. Committed data is always safe. */
export async function stopPostmaster(pid: number, data: string): Promise<void> {
  for (const [signal, waitMs] of STOP_STEPS) {
    if (!(await serves(pid, data))) return;
    signalTo(pid, signal);
    const deadline = performance.now() + waitMs;
    while (performance.now() < deadline) {
      await sleep(10);
      if (!(await serves(pid, data))) return;
    }
  }
  throw new Error(`The Postgres process ${pid} on ${data} cannot be stopped`);
}

/**
 * Kills the remaining processes of a server whose postmaster has died: a busy backend outlives it and prevents the next
 * start.
 * @returns whether there was any such process
 */
export async function endOrphans({ data, clusterName }: ServerFolder): Promise<boolean> {
  const deadline = performance.now() + 5_000;
  for (let hadProcesses = false; ; hadProcesses = true) {
    const all = await processes();
    const postmasters = new Set(all.filter(({ command }) => directoryIn(command) === data).map(({ pid }) => pid));
    const remaining = all.filter(
      ({ command, parent }) => command.startsWith(`postgres: ${clusterName}: `) && !postmasters.has(parent),
    );
    if (remaining.length === 0 || performance.now() > deadline) return hadProcesses;
    for (const { pid } of remaining) signalTo(pid, 'SIGKILL');
    await sleep(10);
  }
}

/** The running postmasters of data directories in a folder. */
export async function findPostmasters(folder: string): Promise<{ pid: number; data: string }[]> {
  return (await processes()).flatMap(({ pid, command }) => {
    const data = directoryIn(command);
    return data?.startsWith(`${folder}/`) ? [{ pid, data }] : [];
  });
}

/**
 * Kills all processes of the user of a server that has been stopped, also those that have left the server. Does nothing
 * if that user runs another server, such as one of another installation.
 */
export async function endUser(account: Account, data: string): Promise<void> {
  for (const deadline = performance.now() + 5_000; performance.now() < deadline; await sleep(10)) {
    const commands = await commandsOf(account.uid);
    const runsOther = commands.some((command) => (directoryIn(command) ?? data) !== data);
    if (commands.length === 0 || runsOther) return;
    // By one call, which no process escapes by forking. It may signal only processes of its own user (kill(2)).
    await run(account, '/bin/sh', ['-c', 'kill -KILL -1']);
  }
}

function signalTo(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!hasCode(error, 'ESRCH')) throw error; // otherwise it has exited by itself
  }
}
