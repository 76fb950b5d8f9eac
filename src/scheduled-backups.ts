/** The backups that the service makes by itself: of everything at the scheduled times, and of archived WAL all the time. */
import { spawn } from 'node:child_process';
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
    runPeriodically(
      CHECK_EVERY_MS,
      'copy_archives',
      () => copyArchives(services, { folder, archiveDays, signal }),
      log,
    ),
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
async function runCommand(command: string, { folder, next }: BackupPlan, signal: AbortSignal): Promise<void> {
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
  const end = (why: string) => {
    reason ??= why;
    for (const [kill, ms] of [
      ['SIGTERM', 0],
      ['SIGKILL', GRACE_MS],
    ] as const)
      void sleep(ms, undefined, { ref: false }).then(() => endGroup(child.pid, kill));
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
    if (failure === null) return;
    throw new Error(
      `The backup is made, but backup-command failed: ${reason ?? failure}${output === '' ? '' : `\n${output.trim()}`}`,
    );
  } finally {
    clearInterval(watch);
    signal.removeEventListener('abort', stopped);
  }
}

function endGroup(pid: number | undefined, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, signal);
  } catch {
    // It has ended.
  }
}
