/** Information about processes, from /proc on Linux (proc(5)), elsewhere from `ps`. It is empty for a dead process. */
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { hasCode } from '../files.js';

interface Process {
  readonly pid: number;
  readonly parent: number;
  /** The command line, or the title that a Postgres process has set; arguments are joined by a space. */
  readonly command: string;
}

const isLinux = process.platform === 'linux';

/** USER_HZ is 100 on Linux for x86 and ARM (time(7)). */
const TICK_MS = 10;

/** A file in /proc; empty if the process has exited, or the system has no /proc. */
export const readProc = (path: string): Promise<string> => readFile(`/proc/${path}`, 'utf8').catch(() => '');

/** All processes of the machine. */
export async function processes(): Promise<Process[]> {
  if (!isLinux) {
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

/** Any user may read `cmdline`, but not `cwd` and `exe`: root in a container lacks CAP_SYS_PTRACE. */
export async function commandLine(pid: number): Promise<string> {
  if (isLinux) return (await readProc(`${pid}/cmdline`)).split('\0').join(' ').trim();
  // The process has ended.
  const output = await promisify(execFile)('ps', ['-ww', '-o', 'command=', '-p', String(pid)]).catch(() => null);
  return output?.stdout.trim() ?? '';
}

/** 0 if the process has exited. */
export async function parentOf(pid: number): Promise<number> {
  return Number((await statOf(pid))[1] ?? 0);
}

/** The processor time that a process has used; null if it has exited. */
export async function cpuMs(pid: number): Promise<number | null> {
  const [user, system] = (await statOf(pid)).slice(11, 13).map(Number);
  return user === undefined || system === undefined ? null : (user + system) * TICK_MS;
}

/** The fields of /proc/pid/stat from the third on. The second is a name in parentheses, which may contain spaces. */
async function statOf(pid: number): Promise<string[]> {
  const stat = await readProc(`${pid}/stat`);
  return stat === '' ? [] : stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/** The user ids of all processes on the machine: each of them has four (proc(5)). Empty without /proc. */
async function userIds(): Promise<{ pid: number; uids: number[] }[]> {
  if (!isLinux) return [];
  const uidsIn = (status: string) => (/^Uid:\s+(.*)$/m.exec(status)?.[1] ?? '').split(/\s+/).map(Number);
  return Promise.all((await allPids()).map(async (pid) => ({ pid, uids: uidsIn(await readProc(`${pid}/status`)) })));
}

/** The user ids of all processes on the machine; empty without /proc. */
export const runningUids = async (): Promise<number[]> => (await userIds()).flatMap(({ uids }) => uids);

/** The command lines of the processes of a user; not of those that have exited. Empty without /proc. */
export async function commandsOf(uid: number): Promise<string[]> {
  const own = (await userIds()).filter(({ uids }) => uids.includes(uid));
  return (await Promise.all(own.map(({ pid }) => commandLine(pid)))).filter((command) => command !== '');
}

/**
 * A soft limit of a process (getrlimit(2)), such as `Max open files`; Infinity: no limit; null: the system does not
 * report it.
 */
export async function softLimit(pid: number | 'self', name: string): Promise<number | null> {
  const value = new RegExp(`^${name} +(\\S+)`, 'm').exec(await readProc(`${pid}/limits`))?.[1];
  return value === undefined ? null : value === 'unlimited' ? Infinity : Number(value);
}

/** Whether the process id exists. It does for a zombie, too, whose command line is empty. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return !hasCode(error, 'ESRCH');
  }
}
