/** Settings as flags of a command, and their values from flags, environment and file. */
import { Option, type Command } from 'commander';
import { CONFIG_FILE, loadConfig, type LoadedConfig } from './load-config.js';
import type { Setting, Shown } from '../setting-kinds.js';
import { type Config, type SettingName, SETTINGS } from '../settings.js';

/** The settings that a management command needs to find the database. */
export const DATABASE_SETTINGS: readonly SettingName[] = [
  'dataDir',
  'databaseUrl',
  'secret',
  'secretPrevious',
  'extensions',
  'projectUids',
];

/** The same, and the setting for running Postgres's own programs. */
export const PROGRAM_SETTINGS: readonly SettingName[] = [...DATABASE_SETTINGS, 'postgresBin'];

export const ALL_SETTINGS = Object.keys(SETTINGS) as SettingName[];

export function addSettings(command: Command, names: readonly SettingName[]): Command {
  for (const name of names) {
    const { flag, value, describe, env, default: defaultValue } = SETTINGS[name] as Setting<Shown>;
    const shown =
      defaultValue === null || String(defaultValue) === ''
        ? `(env: ${env})`
        : `(env: ${env}, default: ${String(defaultValue)})`;
    command.addOption(new Option(`--${flag} <${value}>`, `${describe} ${shown}`));
  }
  return command.addOption(
    new Option('--config <FILE>', `Settings as a JSON object (default: ${CONFIG_FILE}, if it exists)`),
  );
}

/** @throws ConfigError */
export function readSettings(command: Command): LoadedConfig {
  const options = command.opts<Record<string, string | undefined>>();
  // Commander names values in camel case.
  const flags = Object.fromEntries(
    Object.values(SETTINGS).map(({ flag }) => [
      flag,
      options[flag.replace(/-(\w)/g, (_, c: string) => c.toUpperCase())],
    ]),
  );
  return loadConfig(flags, process.env, options.config ?? null);
}

export const readConfig = (command: Command): Config => readSettings(command).config;
