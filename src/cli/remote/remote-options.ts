/** Options of several commands, and the parsing of their values. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { StoreOptions } from '../../client/insert.js';
import { type Resolution, RESOLUTIONS } from '../../contract/wire/batch.js';
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

/** The options of an import and a replay for rows that already exist, and for fields that are no columns. */
export const conflictOptions = (command: Command): Command =>
  command
    .option('--on-conflict <COLUMNS>', 'Update rows that have the same values in these columns: a,b', list)
    .addOption(new Option('--resolution <HOW>', 'How to update them (default: merge)').choices([...RESOLUTIONS]))
    .option('--version-column <COLUMN>', 'With --resolution newest: the column that says which is newer')
    .option('--skip-unchanged', 'Write nothing for rows that are equal already')
    .option('--merge-json', 'Merge JSON objects into those of the row')
    .option('--unknown <HOW>', 'Fields that are no columns: ignore, or into:COLUMN for a JSONB column', unknownFields);

export interface ConflictOptions {
  onConflict?: readonly string[];
  resolution?: Resolution;
  versionColumn?: string;
  skipUnchanged?: boolean;
  mergeJson?: boolean;
  unknown?: UnknownFields;
}

type UnknownFields = NonNullable<StoreOptions['unknown']>;

function unknownFields(value: string): UnknownFields {
  if (value === 'ignore' || /^into:./.test(value)) return value as UnknownFields;
  throw new InvalidArgumentError('Expected "ignore", or "into:" and the name of a column.');
}

/** The same as options of the client. */
export const conflictOf = ({
  onConflict,
  resolution,
  versionColumn,
  skipUnchanged,
  mergeJson,
  unknown,
}: ConflictOptions) => ({
  ...(onConflict === undefined ? {} : { onConflict }),
  ...(resolution === undefined ? {} : { resolution }),
  ...(versionColumn === undefined ? {} : { version: versionColumn }),
  ...(skipUnchanged ? { unchanged: 'skip' as const } : {}),
  ...(mergeJson ? { mergeJson: true as const } : {}),
  ...(unknown === undefined ? {} : { unknown }),
});

const NEEDS_KEY = {
  resolution: '--resolution',
  versionColumn: '--version-column',
  skipUnchanged: '--skip-unchanged',
  mergeJson: '--merge-json',
} as const;

/** @throws UsageError if an option for existing rows is given without --on-conflict, or a version without newest */
export function requireKeyOf(options: ConflictOptions): void {
  const names = ['resolution', 'versionColumn', 'skipUnchanged', 'mergeJson'] as const;
  const given = names.find((name) => options[name] !== undefined);
  if (given !== undefined && options.onConflict === undefined)
    throw new UsageError(
      `${NEEDS_KEY[given]} needs --on-conflict`,
      'Name the columns of a unique index: --on-conflict email',
    );
  if ((options.resolution === 'newest') !== (options.versionColumn !== undefined))
    throw new UsageError(
      '--resolution newest and --version-column need each other',
      'Name the column that says which is newer: --resolution newest --version-column updated_at',
    );
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
