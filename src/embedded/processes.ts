/** Which Postgres processes belong to a data folder. Everything that signals a process asks here first. */
import { execFile } from 'node:child_process';
import { readFile, readdir } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { hasCode } from '../files.js';
import type { Home } from './home.js';

interface Process {
  readonly pid: number;
  readonly parent: number;
  /** The command line, or the title that a Postgres process gave itself, arguments joined by a space. */
  readonly command: string;
}

/** The arguments that start a postmaster; {@link servedFolder} reads them back from its command line. */
export const postmasterArguments = (home: Home): string[] => ['-D', home.data, '-c', `config_file=${home.config}`];

/** The data folder that a process was started on with {@link postmasterArguments}; undefined for any other program. */
export async function servedFolder(pid: number): Promise<string | undefined> {
  return folderOf(await commandLine(pid));
}

const folderOf = (command: string): string | undefined => /postgres -D (.+) -c config_file=/.exec(command)?.[1];

/** Whether this process is a postmaster that was started on this data folder, and not another program by now. */
export const serves = async (pid: number, data: string): Promise<boolean> => (await servedFolder(pid)) === data;

/** Whether the system knows the process id. True for a zombie too, whose command line is empty. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return !hasCode(error, 'ESRCH');
  }
}

/** Signals, each with a time to wait (manual 18.5): fast, immediate, and kill for a postmaster that hangs. */
const STOP_STEPS = [
  ['SIGINT', 10_000],
  ['SIGQUIT', 10_000],
  ['SIGKILL', 5_000],
] as const;

/** Ends the postmaster of the folder and waits until it is gone. What it has committed is safe in every case. */
export async function stopPostmaster(pid: number, data: string): Promise<void> {
  for (const [signal, patience] of STOP_STEPS) {
    if (!(await serves(pid, data))) return;
    signalTo(pid, signal);
    const deadline = Date.now() + patience;
    while (Date.now() < deadline) {
      await sleep(10);
      if (!(await serves(pid, data))) return;
    }
  }
  throw new Error(`The Postgres process ${pid} on ${data} cannot be stopped.`);
}

/**
 * Ends what is left of a cluster whose postmaster died. Crash recovery follows in any case.
 * @returns whether there was anything
 */
export async function endOrphans(home: Home): Promise<boolean> {
  const deadline = Date.now() + 5_000;
  let found = false;
  for (let left = await orphans(home); left.length > 0 && Date.now() < deadline; left = await orphans(home)) {
    found = true;
    for (const pid of left) signalTo(pid, 'SIGKILL');
    await sleep(10);
  }
  return found;
}

/** Servers that run on data directories below a folder, by one look at all processes. */
export async function foundServers(folder: string): Promise<{ pid: number; data: string; end: () => Promise<void> }[]> {
  return (await processes()).flatMap(({ pid, command }) => {
    const data = folderOf(command);
    return data?.startsWith(`${folder}/`) ? [{ pid, data, end: () => stopPostmaster(pid, data) }] : [];
  });
}

function signalTo(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!hasCode(error, 'ESRCH')) throw error; // else it has ended by itself
  }
}

/** Processes of the cluster whose postmaster is gone. A busy one outlives it and would block the next start. */
async function orphans(home: Home): Promise<number[]> {
  const all = await processes();
  const postmasters = new Set(all.filter(({ command }) => folderOf(command) === home.data).map(({ pid }) => pid));
  const isOurs = ({ command, parent }: Process): boolean =>
    command.startsWith(`postgres: ${home.clusterName}: `) && !postmasters.has(parent);
  return all.filter(isOurs).map(({ pid }) => pid);
}

/** Empty for a process that does not exist or has ended. Without /proc (macOS) `ps` answers. */
async function commandLine(pid: number): Promise<string> {
  try {
    if (process.platform === 'linux') return unpacked(await readFile(`/proc/${pid}/cmdline`, 'utf8'));
    return (await promisify(execFile)('ps', ['-ww', '-o', 'command=', '-p', String(pid)])).stdout.trim();
  } catch {
    return '';
  }
}

/** cmdline is readable by everyone, which `cwd` and `exe` are not: root in a container lacks CAP_SYS_PTRACE. */
const unpacked = (cmdline: string): string => cmdline.split('\0').join(' ').trim();

/** Every process of the machine. */
export async function processes(): Promise<Process[]> {
  if (process.platform !== 'linux') {
    const { stdout } = await promisify(execFile)('ps', ['-axww', '-o', 'pid=,ppid=,command=']);
    return Array.from(stdout.matchAll(/^ *(\d+) +(\d+) (.*)$/gm), ([, pid, parent, command = '']) => {
      return { pid: Number(pid), parent: Number(parent), command };
    });
  }
  return Promise.all(
    (await allPids()).map(async (pid) => ({ pid, parent: await parentOf(pid), command: await commandLine(pid) })),
  );
}

const allPids = async (): Promise<number[]> => (await readdir('/proc')).map(Number).filter(Number.isInteger);

/** 0 for a process that is gone. Field 4 of /proc/pid/stat (proc(5)). */
export async function parentOf(pid: number): Promise<number> {
  const [, parent] = await statOf(pid);
  return Number(parent ?? 0);
}

/**
 * The fields of /proc/pid/stat (proc(5)) from the third on; the name before them stands in parentheses and may hold
 * spaces. None for a process that is gone.
 */
export async function statOf(pid: number): Promise<string[]> {
  const stat = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '');
  return stat === '' ? [] : stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/** User ids that any process of the machine has, on Linux; elsewhere none. */
export async function runningUids(): Promise<number[]> {
  if (process.platform !== 'linux') return [];
  const pids = await allPids();
  const statuses = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')));
  return statuses.flatMap((status) => (/^Uid:\s+(.*)$/m.exec(status)?.[1] ?? '').split(/\s+/).map(Number));
}
