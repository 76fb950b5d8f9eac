/** `cdp schedule save|list|show|run|pause|resume|drop`: SQL that the service runs at times that the project names. */
import { Command } from 'commander';
import type { ScheduleBody } from '../../contract/wire/schedules.js';
import { explainingSql } from '../exit.js';
import { print } from '../terminal/output.js';
import { clientFromOptions } from './profiles.js';
import { remoteOptions } from './remote-options.js';
import { listLines, named, nextOf, runLines, savedOf, savedSql, saving, shownLines } from './timed.js';

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

function save(): Command {
  const command = saving(
    'Make or replace a schedule; what is not given has its default',
    'What to run, as one transaction',
  ).option('--role <NAME>', 'Role of the project as which it runs (default: the writer)');
  return remoteOptions(command).action(async (name: string, argument: string | undefined) => {
    const { role } = command.opts<{ role?: string }>();
    const sql = await savedSql(command, argument, 'DELETE FROM');
    const body: ScheduleBody = { sql, ...savedOf(command), ...(role === undefined ? {} : { role }) };
    const client = await clientFromOptions(command);
    const schedule = await explainingSql(sql, () => client.saveSchedule(name, body));
    print(command, schedule, [`Schedule ${name} saved; ${nextOf(schedule)}`]);
  });
}

function list(): Command {
  const command = new Command('list')
    .description('List the schedules, with the last run of each')
    .option('--json', 'Print JSON');
  return remoteOptions(command).action(async () => {
    const schedules = await (await clientFromOptions(command)).schedules();
    print(command, schedules, listLines('schedule', schedules));
  });
}

function show(): Command {
  const command = named('show', 'Show a schedule with its last runs');
  return remoteOptions(command).action(async (name: string) => {
    const schedule = await (await clientFromOptions(command)).schedule(name);
    print(command, schedule, shownLines(schedule, `as ${schedule.role ?? 'the writer'}`, 'rows'));
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
    print(command, answer, runLines('schedule', name, answer, 'row'));
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
  const command = named('drop', 'Delete a schedule with its runs').alias('delete');
  return remoteOptions(command).action(async (name: string) => {
    await (await clientFromOptions(command)).deleteSchedule(name);
    print(command, { schedule: name }, [`Schedule ${name} dropped`]);
  });
}
