/** What the management commands share: an engine for the length of a command, its name in the audit log, ways of printing. */
import { userInfo } from 'node:os';
import type { Command } from 'commander';
import { pino } from 'pino';
import { ConfigError } from '../config.js';
import { openDatabase } from '../database.js';
import { BY_ITSELF, type Origin } from '../engine/audit/audit.js';
import type { Engine } from '../engine/engine.js';
import { hasHome } from '../postgres/embedded/home.js';
import { openEngine } from '../service.js';
import type { Config } from '../settings.js';
import { printable, printableJson } from './remote/terminal-text.js';
import { addSettings, DATABASE_SETTINGS, readConfig } from './settings.js';

export interface ManagementOptions {
  json?: boolean;
}

/** Adds the settings of the database and `--json`. */
export const managementOptions = (command: Command, settings = DATABASE_SETTINGS): Command =>
  addSettings(command, settings).option('--json', 'Print JSON');

/** False in a folder where no service has ever been, such as the wrong one. */
export const hasDatabase = async ({ databaseUrl, dataDir }: Config): Promise<boolean> =>
  databaseUrl !== null || hasHome(dataDir);

/**
 * Works with or without a running service; an embedded server that does not run is started for the command.
 * @param make a new database where there is none; else that is a ConfigError, and nothing is made
 */
export async function withEngine<T>(
  command: Command,
  work: (engine: Engine) => Promise<T>,
  { make = false } = {},
): Promise<T> {
  const config = readConfig(command);
  if (!make && !(await hasDatabase(config))) {
    throw new ConfigError(`There is no database in ${config.dataDir}. ${WHERE_ELSE}`);
  }
  const logger = pino({ level: 'silent' });
  const database = await openDatabase(config, 'command', logger);
  try {
    const engine = await openEngine(config, database, logger);
    try {
      return await work(engine);
    } finally {
      await engine.close();
    }
  } finally {
    await database.close();
  }
}

export const WHERE_ELSE =
  'Run this in the folder of the service, or name its database: --data-dir, --database-url. cdp serve makes a new one.';

/** Who runs this command, as the operating system calls the account; its number where it has no name. */
export function commandLine(): Origin {
  let actorId: string;
  try {
    actorId = userInfo().username;
  } catch {
    actorId = String(process.getuid?.() ?? '');
  }
  return { ...BY_ITSELF, actor: 'command_line', actorId, startedAt: performance.now() };
}

/** JSON for programs, lines for people. Either may hold names that a project chose, and get to a terminal. */
export function print(command: Command, value: object, lines: readonly string[]): void {
  const { json } = command.opts<ManagementOptions>();
  const shown = json ? [printableJson(value)] : lines.map(printable);
  process.stdout.write(shown.map((line) => `${line}\n`).join(''));
}

/** Columns as wide as their widest cell, each cell on one line. */
export function aligned(cells: readonly (readonly string[])[]): string[] {
  const rows = cells.map((row) => row.map(printable));
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0)));
  return rows.map((row) =>
    row
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}
