/** What `cdp schedule` and `cdp segment` have in common: when they run, and how they ran. */
import { Command, Option } from 'commander';
import { counted } from '../../contract/message-text.js';
import { MISSED, type RunScheduleResponse, type Schedule, type ScheduleRun } from '../../contract/wire/schedules.js';
import { UsageError } from '../exit.js';
import { fitting } from '../terminal/grid.js';
import { milliseconds } from './remote-options.js';
import { readTextFile } from './user-files.js';

/** A schedule or a segment. */
type Timed = Omit<Schedule, 'role'>;

export const named = (word: string, description: string): Command =>
  new Command(word).description(description).argument('<NAME>').option('--json', 'Print JSON');

export const saving = (description: string, sql: string): Command =>
  named('save', description)
    .argument('[SQL]', sql)
    .option('-f, --file <FILE>', 'File that holds the SQL')
    .addOption(new Option('--cron <PATTERN>', "When: '0 3 * * *' is every day at 3:00").conflicts('every'))
    .option('--every <TIME>', 'Or an interval, from 10s to 366d: 15m, 6h')
    .option('--time-zone <ZONE>', 'Time zone of --cron (default: UTC)')
    .option(
      '--timeout <TIME>',
      'How long a run may take, at most 60m; a number alone is in ms (default: 5m)',
      milliseconds,
    )
    .addOption(
      new Option(
        '--missed <HOW>',
        'Times that passed while no service ran: run once for all of them, or skip them (default: run_once)',
      ).choices(MISSED),
    );

interface SavingOptions {
  cron?: string;
  every?: string;
  timeZone?: string;
  timeout?: number;
  missed?: (typeof MISSED)[number];
}

/** What the options of {@link saving} say, without the SQL. */
export function savedOf(command: Command) {
  const { cron, every, timeZone, timeout, missed } = command.opts<SavingOptions>();
  return {
    ...(cron === undefined ? {} : { cron }),
    ...(every === undefined ? {} : { every }),
    ...(timeZone === undefined ? {} : { time_zone: timeZone }),
    ...(timeout === undefined ? {} : { timeout_ms: timeout }),
    ...(missed === undefined ? {} : { missed }),
  };
}

/** @param example of SQL @throws UsageError unless there is either an argument or a file */
export async function savedSql(command: Command, argument: string | undefined, example: string): Promise<string> {
  const { file } = command.opts<{ file?: string }>();
  if ((argument === undefined) === (file === undefined))
    throw new UsageError('Give the SQL, or a file with -f', `Put the SQL in quotes: '${example} …'`);
  return argument ?? readTextFile(file ?? '');
}

export const whenOf = ({ cron, every, time_zone: zone }: Timed): string =>
  cron === null ? `every ${every}` : `${cron} ${zone}`;

export const nextOf = ({ next_run_at: next }: Timed): string => (next === null ? 'it is paused' : `next run ${next}`);

const outcomeOf = ({ outcome, error }: ScheduleRun): string =>
  outcome === null ? 'running' : error === null ? outcome : `${outcome}: ${error}`;

/** @param word the title of the names */
export function listLines(word: string, all: readonly Timed[]): string[] {
  if (all.length === 0) return [`No ${word}s yet`];
  const heads = [word, 'when', 'next run', 'last run', 'outcome'].map((name) => ({ name }));
  const rows = all.map((one) => {
    const { name, next_run_at: next, last_run: last } = one;
    return [name, whenOf(one), next ?? 'paused', last?.started_at ?? '', last === null ? '' : outcomeOf(last)];
  });
  return fitting(heads, rows);
}

/** @param how besides its times @param rows what those of a run are */
export function shownLines(one: Timed & { runs: readonly ScheduleRun[] }, how: string, rows: string): string[] {
  const { name, runs, sql, missed, missed_count: count, updated_by: by, updated_at: at } = one;
  const heads = ['run', 'ms', rows, 'missed', 'outcome'].map((head) => ({ name: head }));
  const lines = runs.map((run) => [
    run.started_at,
    run.duration_ms === null ? '' : String(run.duration_ms),
    run.rows === null ? '' : String(run.rows),
    String(run.missed),
    outcomeOf(run),
  ]);
  return [
    `${name}: ${whenOf(one)}, ${how}; ${nextOf(one)}`,
    `Saved by ${by}, ${at}; ${counted(count, 'time')} missed (${missed})`,
    '',
    sql,
    '',
    ...(runs.length === 0 ? ['It has not run yet'] : fitting(heads, lines)),
  ];
}

/** @param word `schedule` or `segment` @param unit what the rows of a run are */
export function runLines(word: string, name: string, answer: RunScheduleResponse, unit: string): string[] {
  const { run, rows = 0, impact } = answer;
  const what = `${word[0]?.toUpperCase()}${word.slice(1)} ${name}`;
  if (run === undefined) {
    const changes = (impact?.rows ?? []).map(
      ({ table, inserted, updated, deleted }) =>
        `${table}: ${inserted} inserted, ${updated} updated, ${deleted} deleted`,
    );
    return [`${counted(rows, unit)}. Everything was rolled back`, ...changes];
  }
  return run.ended_at === null
    ? [`${what} is running; see: cdp ${word} show ${name}`]
    : [`${what} has run: ${counted(run.rows ?? 0, unit)}, in ${run.duration_ms} ms`];
}
