/** Options of several commands, and the parsing of their values. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { RESOLUTIONS } from '../../contract/wire/batch.js';
import { UsageError } from '../exit.js';
import { ENVIRONMENT } from './profiles.js';

export const remoteOptions = (command: Command): Command =>
  command.option(
    '--profile <NAME>',
    `Profile of cdp login (default: ${ENVIRONMENT.profile}, or ${ENVIRONMENT.url} and ${ENVIRONMENT.token}, otherwise that of cdp use)`,
  );

/** As `requiredOption`, but reports an unknown option first, which is often this one, misspelt. */
export function needsOption(command: Command, flags: string, description: string): Command {
  const option = new Option(flags, description);
  return command.addOption(option).hook('preAction', () => {
    if (command.getOptionValue(option.attributeName()) === undefined)
      command.error(`error: required option '${flags}' not specified`);
  });
}

export const numbersOption = (): Option =>
  new Option(
    '--numbers <FORM>',
    'How to write bigint and numeric values in JSON: all as strings, or all as numbers (default: as numbers up to 2^53-1)',
  ).choices(['string', 'raw']);

/** The options of an import and a replay for rows that already exist. */
export const conflictOptions = (command: Command): Command =>
  command
    .option('--on-conflict <COLUMNS>', 'Update rows that have the same values in these columns: a,b', list)
    .addOption(new Option('--resolution <HOW>', 'How to update them (default: merge)').choices([...RESOLUTIONS]));

/** @throws UsageError if --resolution is given without --on-conflict */
export function requireKeyOf({ onConflict, resolution }: { onConflict?: unknown; resolution?: unknown }): void {
  if (resolution !== undefined && onConflict === undefined)
    throw new UsageError('--resolution needs --on-conflict', 'Name the columns of a unique index: --on-conflict email');
}

export const list = (value: string): string[] => value.split(',').map((each) => each.trim());

/** Collects the values of a repeatable option. */
export const collect = (value: string, values: unknown[] = []): unknown[] => [...values, value];

export function whole(value: string): number {
  if (!/^[1-9]\d{0,8}$/.test(value)) throw new InvalidArgumentError('Expected a whole number from 1.');
  return Number(value);
}

const MS_OF: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000 };

/** Parses `60s`, `500ms` or `1m`. @returns milliseconds, which a number without a unit is in */
export function milliseconds(value: string): number {
  const [, number, unit = 'ms'] = /^([1-9]\d{0,8})(ms|s|m)?$/.exec(value) ?? [];
  if (number === undefined) throw new InvalidArgumentError('Expected a time from 1 such as 60s, 500ms or 1m.');
  return Number(number) * (MS_OF[unit] ?? 1);
}

/** Parses `a=b,c=d`. The left side of = may contain commas; the right side may not. */
export const pairs = (value: string): [string, string][] =>
  Array.from(value.matchAll(/(.*?)=([^=,]*)(?:,|$)|.+/gs), ([, name = '', type = '']) => [name.trim(), type.trim()]);

/** @param value such as `Customer ID=customer,b=c` @param before of the same option, given earlier */
export function renames(value: string, before: ReadonlyMap<string, string> = new Map()): Map<string, string> {
  const names = new Map(before);
  for (const [from, to] of pairs(value)) {
    if (from === '' || to === '') throw new InvalidArgumentError('Expected OLD=NEW.');
    if (names.has(from)) throw new InvalidArgumentError(`"${from}" has two new names.`);
    names.set(from, to);
  }
  return names;
}
