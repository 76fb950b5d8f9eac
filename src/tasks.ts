/**
 * Tasks that the service repeats at intervals, and what happens if one fails: the log says what was not done, and it is
 * counted.
 */
import { messageOf } from './contract/errors.js';
import type { Log } from './log.js';

/**
 * What was not done if a run of a task fails. The names are the values of the label `task` of
 * `cdp_task_failures_total`.
 */
const NOT_DONE = {
  back_up: 'the backup is not made (setting backup-to)',
  clear_archives: 'old archived WAL is not removed',
  clear_audit_log: 'old audit entries are not removed',
  clear_connections: 'idle connections are not closed',
  clear_prepared_transactions: 'old prepared transactions are not rolled back',
  clear_projects: 'incomplete projects are not removed',
  copy_archives: 'archived WAL is not copied into the backup folder (setting backup-to)',
  keep_schedules: 'other instances take over the scheduled runs of this one',
  count_usage: 'what projects have used is not written; the next write has it, too',
  erase_subjects: 'erasures of people do not go on',
  recover_moves: 'interrupted moves are not cleaned up',
  run_schedules: 'schedules do not begin on this instance',
  watch_archives: 'archives are not checked',
  watch_feeds: 'changes that were not stored before a server ended are not stored, and old changes are not removed',
  watch_disk: 'the free disk space is not checked (setting disk-reserve-mib)',
  watch_servers: 'changes of the list of servers and replicas are not noticed',
  watch_session_times: 'the time limits and quotas of sessions of the Postgres port are not checked',
  watch_session_tokens: 'the tokens of sessions of the Postgres port are not checked',
} as const;

export type Task = keyof typeof NOT_DONE;

/** Failed runs of each task in this process. */
const failures = new Map<Task, number>(Object.keys(NOT_DONE).map((task) => [task as Task, 0]));

export const taskFailures = (): ReadonlyMap<Task, number> => failures;

/**
 * Runs a task at an interval, without keeping the process running. No run begins before the previous one has ended. A
 * failed run is logged, unless the one before it failed with the same message.
 * @param isFirstNow whether the first run begins at once; default: after the interval
 * @returns a function that stops it
 */
export function runPeriodically(
  ms: number,
  task: Task,
  work: () => unknown,
  log: Log,
  { isFirstNow = false }: { readonly isFirstNow?: boolean } = {},
): () => void {
  let isRunning = false;
  let failure: string | null = null;
  const run = async () => {
    if (isRunning) return;
    isRunning = true;
    try {
      await work();
      failure = null;
    } catch (error) {
      failures.set(task, (failures.get(task) ?? 0) + 1);
      const message = messageOf(error);
      if (failure !== message) log.error({ error: message, task }, NOT_DONE[task]);
      failure = message;
    } finally {
      isRunning = false;
    }
  };
  const timer = setInterval(() => void run(), ms).unref();
  if (isFirstNow) void run();
  return () => clearInterval(timer);
}
