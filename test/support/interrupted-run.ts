/** Cleans up after a test run that a signal has ended. */
import { appendFileSync, existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';

/** Variable with the path of a file that lists the folders of the run. */
const FOLDERS_OF_RUN = 'CDP_TEST_FOLDERS';

/** Starts the list, for this process and its workers. @param folder of the run */
export function listFolders(folder: string): void {
  process.env[FOLDERS_OF_RUN] = join(folder, 'folders');
  listFolder(folder);
}

export function listFolder(folder: string): void {
  const list = process.env[FOLDERS_OF_RUN];
  if (list !== undefined) appendFileSync(list, `${folder}\n`);
}

/** Ends the programs and servers of the run, and removes its folders. Synchronous, since it is called as Node exits. */
export function removeRun(): void {
  const folders = readFileSync(process.env[FOLDERS_OF_RUN] ?? '', 'utf8')
    .split('\n')
    .filter(Boolean);
  // The second time those that one of them had just started.
  for (let time = 0; time < 2; time++) endProcesses(folders);
  // The first has the list.
  for (const folder of folders.reverse()) {
    try {
      rmSync(folder, { recursive: true, force: true, maxRetries: 8 });
    } catch {
      // A disk is mounted there.
    }
  }
}

interface Process {
  readonly parent: number;
  readonly command: readonly string[];
}

/** Ends what this process and its children have started, and servers in the folders whose program has ended. */
function endProcesses(folders: readonly string[]): void {
  const all = allProcesses();
  const isOurs = (one: Process | undefined): boolean =>
    one !== undefined &&
    (one.parent === process.pid ||
      one.command.some((argument) => folders.some((folder) => argument.includes(folder))) ||
      isOurs(all.get(one.parent)));
  for (const [pid, one] of all) {
    if (!isOurs(one)) continue;
    try {
      // Killed, a postmaster would leave its children and its shared memory.
      process.kill(pid, basename(one.command[0] ?? '').startsWith('postgres') ? 'SIGQUIT' : 'SIGKILL');
    } catch {
      // It has ended.
    }
  }
}

/** By PID, without those that have ended; none on a system without `/proc`. */
function allProcesses(): Map<number, Process> {
  const all = new Map<number, Process>();
  const pids = existsSync('/proc') ? readdirSync('/proc').map(Number).filter(Number.isInteger) : [];
  for (const pid of pids) {
    try {
      const parent = Number(/\) \S (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1]);
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
      if (command !== '') all.set(pid, { parent, command: command.split('\0') });
    } catch {
      // It has just ended.
    }
  }
  return all;
}
