/** Common to the operator's commands: a client for the owner of the data folder, and printing. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Command } from 'commander';
import { hasDatabase } from '../database.js';
import { withOwnAdminSocket } from './admin-session.js';
import { findAdminSocket } from '../admin-socket.js';
import { DataFolderInUse } from '../database.js';
import { withPrivateFolder } from '../files.js';
import { ConfigError } from './load-config.js';
import { AdminClient, NotListening } from './admin-client.js';
import { addSettings, DATABASE_SETTINGS, readConfig } from './setting-flags.js';
import { PROGRAM } from './program-name.js';

/** Adds the settings of the database and `--json`. */
export const managementOptions = (command: Command, settings = DATABASE_SETTINGS): Command =>
  addSettings(command, settings).option('--json', 'Print JSON');

export const WHERE_ELSE = `Run this in the service's folder, or name its database with --data-dir or --database-url. ${PROGRAM} serve creates a new one.`;

/** How long to wait for a service that is starting or stopping. */
const WAIT_MS = 10_000;

type Work<T> = (admin: AdminClient) => Promise<T>;

/**
 * Calls the service or command that owns the data folder. If there is none, or with DATABASE_URL, this process opens
 * the database itself.
 * @param work starts again if the called process has just ended, so only its first call may make a change
 * @param opensLate whether the engine opens only when a request needs it
 */
export async function withAdmin<T>(command: Command, work: Work<T>, { opensLate = false } = {}): Promise<T> {
  const config = readConfig(command);
  if (!(await hasDatabase(config))) {
    throw new ConfigError(`There is no database in ${config.dataDir}. ${WHERE_ELSE}`);
  }
  const alone = (folder: string) =>
    withOwnAdminSocket(config, { command: nameOf(command), folder, opensLate }, (socket) =>
      work(new AdminClient(socket)),
    );
  if (config.databaseUrl !== null) return withPrivateFolder(alone);
  for (const until = performance.now() + WAIT_MS; ; await sleep(200)) {
    try {
      const socket = await findAdminSocket(config.dataDir);
      if (socket !== null) return await work(new AdminClient(socket));
    } catch (error) {
      if (!(error instanceof NotListening)) throw error;
    }
    try {
      return await alone(config.dataDir);
    } catch (error) {
      if (!(error instanceof DataFolderInUse) || performance.now() > until) throw error;
    }
  }
}

/** Sets the action of a command that neither checks nor asks anything before it calls the service. */
export const operatorAction = <Args extends unknown[]>(
  command: Command,
  work: (admin: AdminClient, ...args: Args) => Promise<void>,
): Command => managementOptions(command).action((...args: Args) => withAdmin(command, (admin) => work(admin, ...args)));

/** The full name, such as `cdp project create`. */
const nameOf = (command: Command): string =>
  command.parent === null ? command.name() : `${nameOf(command.parent)} ${command.name()}`;

/** The query string for the option `--now`. */
export const nowQuery = (command: Command): string => (command.opts<{ now?: boolean }>().now ? '?now=true' : '');

const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Parses `30d`, `12h`, `45m` or `10s` into milliseconds; null: not a duration. */
export function parseDuration(text: string): number | null {
  const [, amount, unit = ''] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  return amount === undefined ? null : Number(amount) * (UNITS[unit] ?? NaN);
}
