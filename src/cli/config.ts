/** `cdp config`: shows the settings in effect and the source of each. */
import { Command } from 'commander';
import type { Shown } from '../setting-kinds.js';
import { type SettingName, SETTINGS } from '../settings.js';
import { tableLines } from './terminal/grid.js';
import { print } from './terminal/output.js';
import { addSettings, ALL_SETTINGS, readSettings } from './setting-flags.js';

export function configCommand(): Command {
  const command = new Command('config').description('Show the settings in effect and where each one comes from');
  return addSettings(command, ALL_SETTINGS)
    .option('--json', 'Print JSON')
    .action(() => {
      const { config, sources, written } = readSettings(command);
      const rows = (Object.keys(SETTINGS) as SettingName[]).map((name) => {
        const { flag, env, secret, isShownAsWritten } = SETTINGS[name];
        const value = (isShownAsWritten ? (written[name] ?? null) : config[name]) as Shown;
        return { name: flag, env, value: secret && value !== null ? '(secret)' : value, source: sources[name] };
      });
      const lines = rows.map(({ name, env, value, source }) => [name, env, String(value ?? '') || '-', source]);
      print(command, { settings: rows }, tableLines(['SETTING', 'ENVIRONMENT', 'VALUE', 'FROM'], lines));
    });
}
