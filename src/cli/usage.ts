/** `cdp usage`: prints what projects have used, by day. */
import { Command, Option } from 'commander';
import type { UsageOfDay, UsageResponse } from '../contract/wire/usage.js';
import type { AdminSocketClient } from './admin-socket-client.js';
import { withAdminSocket } from './operator-commands.js';
import { addSettings, DATABASE_SETTINGS } from './setting-flags.js';
import { tableLines } from './terminal/grid.js';
import { grouped } from './terminal/progress.js';
import { printableJson } from './terminal/text.js';

interface Options {
  month?: string;
  from?: string;
  to?: string;
  project?: string;
  format: 'table' | 'csv' | 'json';
}

const NUMBERS = ['requests', 'rows_in', 'rows_out', 'bytes_in', 'bytes_out', 'statement_seconds'] as const;

export function usageCommand(): Command {
  const command = new Command('usage')
    .description('Show what projects have used, by day: requests, rows, bytes, time of Postgres, size')
    .option('--month <MONTH>', 'All days of a month (UTC), such as 2026-11 (default: this month)')
    .option('--from <DAY>', 'The first day, such as 2026-11-01')
    .option('--to <DAY>', 'The last day (default: today)')
    .option('--project <NAME>', 'Only this project, by its last name')
    .addOption(new Option('--format <FORM>', 'How to print it').choices(['table', 'csv', 'json']).default('table'));
  return addSettings(command, DATABASE_SETTINGS).action(async () => {
    const { format, month, from, to, project } = command.opts<Options>();
    const given = Object.entries({ month, from, to, project }).filter(([, value]) => value !== undefined);
    const days = await withAdminSocket(command, (admin) => allDays(admin, given as [string, string][]));
    if (days.length === 0)
      process.stderr.write(`No usage${project === undefined ? '' : ` of a project "${project}"`} in these days\n`);
    process.stdout.write(
      PRINTED[format](days)
        .map((line) => `${line}\n`)
        .join(''),
    );
  });
}

/** Reads page by page. */
async function allDays(admin: AdminSocketClient, filter: readonly [string, string][]): Promise<UsageOfDay[]> {
  const days: UsageOfDay[] = [];
  for (let next: string | null = ''; next !== null;) {
    const query = new URLSearchParams([...filter, ...(next === '' ? [] : [['after', next] as [string, string]])]);
    const page: UsageResponse = await admin.call('GET', `admin/usage?${query.toString()}`);
    days.push(...page.usage);
    ({ next } = page);
  }
  return days;
}

/** A line for each way and the whole, so that each can be summed alone. */
function csv(days: readonly UsageOfDay[]): string[] {
  const names = ['day', 'project', 'project_id', 'way', ...NUMBERS, 'bytes_stored', 'server_seconds'];
  return [
    names.join(','),
    ...days.flatMap((day) => {
      const of = [day.day, day.project, day.project_id];
      const whole = [...of, 'all', ...NUMBERS.map((name) => day[name]), day.bytes_stored ?? '', day.server_seconds];
      const ways = Object.entries(day.ways).map(([way, counts]) => [
        ...of,
        way,
        ...NUMBERS.map((name) => counts[name]),
        '',
        '',
      ]);
      return [whole, ...ways].map((cells) => cells.join(','));
    }),
  ];
}

function table(days: readonly UsageOfDay[]): string[] {
  const names = ['day', 'project', ...NUMBERS, 'bytes_stored', 'server_seconds'];
  const head = names.map((name) => name.replace('_', ' ').toUpperCase());
  return tableLines(
    head,
    days.map((day) => [
      day.day,
      day.project,
      ...NUMBERS.map((name) => grouped(Math.round(day[name]))),
      day.bytes_stored === null ? '-' : grouped(day.bytes_stored),
      grouped(Math.round(day.server_seconds)),
    ]),
  );
}

const PRINTED = { table, csv, json: (days: readonly UsageOfDay[]) => days.map(printableJson) };
