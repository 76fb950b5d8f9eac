/** The backups that the service makes by itself: of everything at the scheduled times, and of archived WAL all the time. */
import { type ChildProcess, spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BackupPlan } from './engine/backup-plan.js';
import type { Log } from './log.js';
import { runPeriodically } from './tasks.js';
import type { BackupServices } from './backup/backup-services.js';
import { backupToFolder, copyArchives } from './backup/folder/write-folder.js';

interface ScheduleSettings {
  readonly archiveDays: number;
  readonly postgresBin: string | null;
  /** Run with the folder after each backup; null: none. */
  readonly backupCommand: string | null;
}

const CHECK_EVERY_MS = 15_000;

/** @returns a function that ends them, and waits until they have ended */
export function startScheduledBackups(
  services: BackupServices,
  plan: BackupPlan,
  { archiveDays, postgresBin, backupCommand }: ScheduleSettings,
  log: Log,
): () => Promise<void> {
  const { folder } = plan;
  const stop = new AbortController();
  const { signal } = stop;
  let running: Promise<unknown> = Promise.resolve();
  const save = async () => {
    const done = await backupToFolder(services, {
      folder,
      isNew: false,
      programSearch: { folder: postgresBin, path: '' },
      jobs: 1,
      archiveDays,
      signal,
      progress: () => {},
      isDue: (lastStart) => plan.isDue(lastStart),
      afterwards: async () => {
        if (backupCommand !== null) await runCommand(backupCommand, plan, signal);
      },
    });
    if (done === null) return;
    const { projects, left_out: leftOut } = done;
    const fields = { folder, projects: projects.length, unchanged: projects.filter((one) => one.unchanged).length };
    if (leftOut.length === 0) log.info(fields, 'backup made');
    else log.error({ ...fields, left_out: leftOut }, 'backup made, but projects could not be saved');
  };
  const ends = [
    runPeriodically(CHECK_EVERY_MS, 'back_up', () => (running = save()), log, { isFirstNow: true }),
    runPeriodically(CHECK_EVERY_MS, 'copy_archives', () => copyArchives(services, { folder, signal }), log),
  ];
  return async () => {
    for (const end of ends) end();
    stop.abort(new Error('The service is stopping'));
    // Its failure was logged.
    await running.catch(() => {});
  };
}

/** The end of the command's output, for the log. */
const OUTPUT_CHARACTERS = 2_000;

/** Between a signal to end, and the one that ends. */
const GRACE_MS = 5_000;

/** Secrets of the service are not for the command. */
const WITHOUT_SECRETS = 'unset DATABASE_URL CDP_SECRET CDP_SECRET_PREVIOUS';

/**
 * Runs the command in a shell, with the folder as its last argument. It ends with the service, and when the next backup
 * is due.
 * @throws Error with the end of its output, unless it exits with 0
 */
export async function runCommand(
  command: string,
  { folder, next }: Pick<BackupPlan, 'folder' | 'next'>,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted();
  const child = spawn('/bin/sh', ['-c', `${WITHOUT_SECRETS}\n${command} "$@"`, 'sh', folder], {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output = `${output}${text}`.slice(-OUTPUT_CHARACTERS);
    });
  }
  let reason: string | null = null;
  const endings: Promise<void>[] = [];
  const end = (why: string) => {
    reason ??= why;
    if (endings.length === 0) endings.push(endGroup(child));
  };
  const stopped = () => end('the service was stopped');
  signal.addEventListener('abort', stopped);
  const watch = setInterval(() => {
    if (next !== null && next <= new Date()) end('the next backup is due');
  }, 1_000).unref();
  try {
    const failure = await new Promise<string | null>((resolve) => {
      child.on('error', (error) => resolve(error.message));
      child.on('close', (code, ended) => resolve(code === 0 ? null : `it ended with ${ended ?? `exit code ${code}`}`));
    });
    // One that was ended may still say that all is well.
    if (failure === null && reason === null) return;
    throw new Error(
      `The backup is made, but backup-command failed: ${reason ?? failure}${output === '' ? '' : `\n${output.trim()}`}`,
    );
  } finally {
    clearInterval(watch);
    signal.removeEventListener('abort', stopped);
    await Promise.all(endings);
  }
}

/** Ends a command with its children, also those that ignore the request to end. */
async function endGroup({ pid, stdout, stderr }: ChildProcess): Promise<void> {
  if (pid === undefined) return;
  signalGroup(pid, 'SIGTERM');
  for (const start = performance.now(); performance.now() - start < GRACE_MS && signalGroup(pid, 0);) await sleep(50);
  signalGroup(pid, 'SIGKILL');
  // A child that has left the group may keep the output open.
  stdout?.destroy();
  stderr?.destroy();
}

/** @returns whether there is one */
function signalGroup(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-pid, signal);
  } catch {
    return false;
  }
}
