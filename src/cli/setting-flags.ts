/** Settings as flags of a command, their values from flags, environment and file, and `cdp config`, which shows them. */
import { Command, Option } from 'commander';
import { CONFIG_FILE, loadConfig, type LoadedConfig } from './load-config.js';
import type { Setting, Shown } from '../setting-kinds.js';
import { type Settings, type SettingName, SETTINGS } from '../settings.js';
import { tableLines } from './terminal/grid.js';
import { print } from './terminal/output.js';

/** The settings that a management command needs to find the database. */
export const DATABASE_SETTINGS: readonly SettingName[] = [
  'dataDir',
  'databaseUrl',
  'secret',
  'secretPrevious',
  'extensions',
  'projectUids',
  'postgresBin',
];

export const ALL_SETTINGS = Object.keys(SETTINGS) as SettingName[];

export function addSettings(command: Command, names: readonly SettingName[]): Command {
  for (const name of names) {
    const { flag, value, describe, env, default: defaultValue } = SETTINGS[name] as Setting<Shown>;
    const description =
      defaultValue === null || String(defaultValue) === ''
        ? `(env: ${env})`
        : `(env: ${env}, default: ${String(defaultValue)})`;
    command.addOption(new Option(`--${flag} <${value}>`, `${describe} ${description}`));
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

export const readConfig = (command: Command): Settings => readSettings(command).config;

/** `cdp config`. */
export function configCommand(): Command {
  const command = new Command('config').description('Show the settings in effect and where each one comes from');
  return addSettings(command, ALL_SETTINGS)
    .option('--json', 'Print JSON')
    .action(() => {
      const { config, sources, written } = readSettings(command);
      const rows = ALL_SETTINGS.map((name) => {
        const { flag, env, secret, isShownAsWritten } = SETTINGS[name];
        const value = (isShownAsWritten ? (written[name] ?? null) : config[name]) as Shown;
        return { name: flag, env, value: secret && value !== null ? '(secret)' : value, source: sources[name] };
      });
      const lines = rows.map(({ name, env, value, source }) => [name, env, String(value ?? '') || '-', source]);
      print(command, { settings: rows }, tableLines(['SETTING', 'ENVIRONMENT', 'VALUE', 'FROM'], lines));
    });
}
