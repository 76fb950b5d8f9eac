/** `cdp schedule save|list|show|run|pause|resume|drop`: SQL that the service runs at times that the project names. */
import { Command, Option } from 'commander';
import { counted } from '../../contract/message-text.js';
import { MISSED, type Schedule, type ScheduleBody, type ScheduleRun } from '../../contract/wire/schedules.js';
import { UsageError } from '../exit.js';
import { fitting } from '../terminal/grid.js';
import { print } from '../terminal/output.js';
import { clientFromOptions } from './profiles.js';
import { milliseconds, remoteOptions } from './remote-options.js';
import { readTextFile } from './user-files.js';

export function scheduleCommand(): Command {
  return new Command('schedule')
    .description('Save, list, show, run, pause, resume and drop schedules: SQL that the service runs by itself')
    .addCommand(save())
    .addCommand(list())
    .addCommand(show())
    .addCommand(run())
    .addCommand(pause())
    .addCommand(resume())
    .addCommand(drop());
}

interface SaveOptions {
  file?: string;
  cron?: string;
  every?: string;
  timeZone?: string;
  timeout?: number;
  role?: string;
  missed?: (typeof MISSED)[number];
}

function save(): Command {
  const command = named('save', 'Make or replace a schedule; what is not given has its default')
    .argument('[SQL]', 'What to run, as one transaction')
    .option('-f, --file <FILE>', 'File that holds the SQL')
    .addOption(new Option('--cron <PATTERN>', "When: '0 3 * * *' is every day at 3:00").conflicts('every'))
    .option('--every <TIME>', 'Or an interval, from 10s to 366d: 15m, 6h')
    .option('--time-zone <ZONE>', 'Time zone of --cron (default: UTC)')
    .option(
      '--timeout <TIME>',
      'How long a run may take, at most 60m; a number alone is in ms (default: 5m)',
      milliseconds,
    )
    .option('--role <NAME>', 'Role of the project as which it runs (default: the writer)')
    .addOption(
      new Option(
        '--missed <HOW>',
        'Times that passed while no service ran: run once for all of them, or skip them (default: run_once)',
      ).choices(MISSED),
    );
  return remoteOptions(command).action(async (name: string, argument: string | undefined) => {
    const { file, cron, every, timeZone, timeout, role, missed } = command.opts<SaveOptions>();
    if ((argument === undefined) === (file === undefined))
      throw new UsageError('Give the SQL, or a file with -f', "Put the SQL in quotes: 'DELETE FROM …'");
    const body: ScheduleBody = {
      sql: argument ?? (await readTextFile(file ?? '')),
      ...(cron === undefined ? {} : { cron }),
      ...(every === undefined ? {} : { every }),
      ...(timeZone === undefined ? {} : { time_zone: timeZone }),
      ...(timeout === undefined ? {} : { timeout_ms: timeout }),
      ...(role === undefined ? {} : { role }),
      ...(missed === undefined ? {} : { missed }),
    };
    const schedule = await (await clientFromOptions(command)).saveSchedule(name, body);
    print(command, schedule, [`Schedule ${name} saved; ${nextOf(schedule)}`]);
  });
}

function list(): Command {
  const command = new Command('list')
    .description('List the schedules, with the last run of each')
    .option('--json', 'Print JSON');
  return remoteOptions(command).action(async () => {
    const schedules = await (await clientFromOptions(command)).schedules();
    const heads = ['schedule', 'when', 'next run', 'last run', 'outcome'].map((head) => ({ name: head }));
    const rows = schedules.map((schedule) => {
      const { name, next_run_at: next, last_run: last } = schedule;
      return [name, whenOf(schedule), next ?? 'paused', last?.started_at ?? '', last === null ? '' : outcomeOf(last)];
    });
    print(command, schedules, schedules.length === 0 ? ['No schedules yet'] : fitting(heads, rows));
  });
}

function show(): Command {
  const command = named('show', 'Show a schedule with its last runs');
  return remoteOptions(command).action(async (name: string) => {
    const schedule = await (await clientFromOptions(command)).schedule(name);
    const { runs, sql, role, missed, missed_count: count, updated_by: by, updated_at: at } = schedule;
    const heads = ['run', 'ms', 'rows', 'missed', 'outcome'].map((head) => ({ name: head }));
    const rows = runs.map((one) => [
      one.started_at,
      one.duration_ms === null ? '' : String(one.duration_ms),
      one.rows === null ? '' : String(one.rows),
      String(one.missed),
      outcomeOf(one),
    ]);
    print(command, schedule, [
      `${name}: ${whenOf(schedule)}, as ${role ?? 'the writer'}; ${nextOf(schedule)}`,
      `Saved by ${by}, ${at}; ${counted(count, 'time')} missed (${missed})`,
      '',
      sql,
      '',
      ...(runs.length === 0 ? ['It has not run yet'] : fitting(heads, rows)),
    ]);
  });
}

function run(): Command {
  const command = named('run', 'Run a schedule now, whether or not it is paused').option(
    '--dry-run',
    'Roll everything back, and print what would have changed',
  );
  return remoteOptions(command).action(async (name: string) => {
    const { dryRun } = command.opts<{ dryRun?: true }>();
    const answer = await (await clientFromOptions(command)).runSchedule(name, dryRun === undefined ? {} : { dryRun });
    const { run: done, rows = 0, impact } = answer;
    const changes = (impact?.rows ?? []).map(
      ({ table, inserted, updated, deleted }) =>
        `${table}: ${inserted} inserted, ${updated} updated, ${deleted} deleted`,
    );
    const lines =
      done === undefined
        ? [`${counted(rows, 'row')}. Everything was rolled back`, ...changes]
        : done.ended_at === null
          ? [`Schedule ${name} is running; see: cdp schedule show ${name}`]
          : [`Schedule ${name} has run: ${counted(done.rows ?? 0, 'row')}, in ${done.duration_ms} ms`];
    print(command, answer, lines);
  });
}

function pause(): Command {
  const command = named('pause', 'Let a schedule wait until it is resumed');
  return remoteOptions(command).action(async (name: string) => {
    const schedule = await (await clientFromOptions(command)).pauseSchedule(name);
    print(command, schedule, [`Schedule ${name} paused`]);
  });
}

function resume(): Command {
  const command = named('resume', 'Resume a schedule from its next time on');
  return remoteOptions(command).action(async (name: string) => {
    const schedule = await (await clientFromOptions(command)).resumeSchedule(name);
    print(command, schedule, [`Schedule ${name} resumed; ${nextOf(schedule)}`]);
  });
}

function drop(): Command {
  const command = named('drop', 'Delete a schedule with its runs');
  return remoteOptions(command).action(async (name: string) => {
    await (await clientFromOptions(command)).deleteSchedule(name);
    print(command, { schedule: name }, [`Schedule ${name} dropped`]);
  });
}

const named = (word: string, description: string): Command =>
  new Command(word).description(description).argument('<NAME>').option('--json', 'Print JSON');

const whenOf = ({ cron, every, time_zone: zone }: Schedule): string =>
  cron === null ? `every ${every}` : `${cron} ${zone}`;

const nextOf = ({ next_run_at: next }: Schedule): string => (next === null ? 'it is paused' : `next run ${next}`);

const outcomeOf = ({ outcome, error }: ScheduleRun): string =>
  outcome === null ? 'running' : error === null ? outcome : `${outcome}: ${error}`;
