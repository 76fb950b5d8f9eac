/** What the operator's commands share: the way to whoever owns the database, ways of printing. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Command } from 'commander';
import { pino } from 'pino';
import { findAdminSocket, openAdminSocket } from '../admin-socket.js';
import { ConfigError } from '../config.js';
import { AnotherOwner, openDatabase } from '../database.js';
import type { Engine } from '../engine/engine.js';
import { withPrivateFolder } from '../files.js';
import { hasRoot } from '../embedded/root.js';
import { Closing, openEngine } from '../service.js';
import type { Config } from '../settings.js';
import { AdminClient, NobodyListens } from './admin-client.js';
import { printLines } from './remote/output.js';
import { printable } from './remote/terminal-text.js';
import { addSettings, DATABASE_SETTINGS, readConfig } from './settings.js';

interface ManagementOptions {
  json?: boolean;
}

/** Adds the settings of the database and `--json`. */
export const managementOptions = (command: Command, settings = DATABASE_SETTINGS): Command =>
  addSettings(command, settings).option('--json', 'Print JSON');

/** False in a folder where no service has ever been, such as the wrong one. */
export const hasDatabase = async ({ databaseUrl, dataDir }: Config): Promise<boolean> =>
  databaseUrl !== null || hasRoot(dataDir);

export const WHERE_ELSE =
  'Run this in the folder of the service, or name its database: --data-dir, --database-url. cdp serve makes a new one.';

/** A service that is starting or stopping has so long before a command says that it is in the way. */
const PATIENCE_MS = 10_000;

type Work<T> = (admin: AdminClient) => Promise<T>;

/**
 * Has the owner of the data folder do something: the service or command that runs there, or else this process for the
 * length of the work. With DATABASE_URL nobody owns the database, and it is always this process.
 * @param work starts again where whoever was asked has just ended, so that it begins with its only change
 * @param isDoctor the engine is opened only when it is asked for
 */
export async function withAdmin<T>(command: Command, work: Work<T>, { isDoctor = false } = {}): Promise<T> {
  const config = readConfig(command);
  if (!(await hasDatabase(config))) {
    throw new ConfigError(`There is no database in ${config.dataDir}. ${WHERE_ELSE}`);
  }
  const alone = (folder: string) => asOwner(nameOf(command), config, folder, isDoctor, work);
  if (config.databaseUrl !== null) return withPrivateFolder(alone);
  for (const until = Date.now() + PATIENCE_MS; ; await sleep(200)) {
    try {
      const socket = await findAdminSocket(config.dataDir);
      if (socket !== null) return await work(new AdminClient(socket));
    } catch (error) {
      if (!(error instanceof NobodyListens)) throw error;
    }
    try {
      return await alone(config.dataDir);
    } catch (error) {
      if (!(error instanceof AnotherOwner) || Date.now() > until) throw error;
    }
  }
}

/** `cdp project create` */
function nameOf(command: Command): string {
  return command.parent === null ? command.name() : `${nameOf(command.parent)} ${command.name()}`;
}

/** Opens the database and answers as a service would, to itself and to other commands. */
async function asOwner<T>(name: string, config: Config, folder: string, isDoctor: boolean, work: Work<T>): Promise<T> {
  const logger = pino({ level: 'silent' });
  const closing = new Closing();
  try {
    const database = await openDatabase(config, name, logger);
    closing.add(() => database.close());
    let opened: Promise<Engine> | undefined;
    const engine = () => (opened ??= openEngine(config, database, logger));
    closing.add(async () =>
      opened?.then(
        (engine) => engine.close(),
        () => {},
      ),
    );
    if (!isDoctor) await engine();
    const admin = await openAdminSocket(folder, config, database, engine, logger);
    closing.add(() => admin.close(LONGEST_MS));
    const socket = (await findAdminSocket(folder)) ?? '';
    return await work(new AdminClient(socket));
  } finally {
    await closing.run();
  }
}

/** The most that a timer takes: other commands that have come to this one are served to their end. */
const LONGEST_MS = 2 ** 31 - 1;

/** JSON for programs, lines for people. */
export function print(command: Command, value: object, lines: readonly string[]): void {
  const { json } = command.opts<ManagementOptions>();
  printLines(json ? [JSON.stringify(value)] : lines);
}

/** Columns as wide as their widest cell. */
export function aligned(rows: readonly (readonly string[])[]): string[] {
  const shown = rows.map((row) => row.map(printable));
  const widths = (shown[0] ?? []).map((_, i) => Math.max(...shown.map((row) => row[i]?.length ?? 0)));
  return shown.map((row) =>
    row
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}
