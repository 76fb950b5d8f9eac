/** Common to the operator's commands: options, a client for the owner of the data folder, confirmation, printing. */
import { createInterface } from 'node:readline/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Command, Option } from 'commander';
import { pino } from 'pino';
import { findAdminSocket, openAdminSocket } from '../admin-socket.js';
import { Closing } from '../closing.js';
import { openConfiguredEngine } from '../configured-engine.js';
import { withPrivateFolder } from '../files.js';
import { DataFolderInUse, hasPostgres, openPostgres } from '../postgres.js';
import type { Settings } from '../settings.js';
import { AdminSocketClient, NotListening } from './admin-socket-client.js';
import { UsageError, PROGRAM } from './exit.js';
import { ConfigError } from './load-config.js';
import { addSettings, DATABASE_SETTINGS, readConfig } from './setting-flags.js';
import { warn } from './terminal/output.js';

/** Adds the settings of the database and `--json`. */
export const operatorOptions = (command: Command, settings = DATABASE_SETTINGS): Command =>
  addSettings(command, settings).option('--json', 'Print JSON');

/** The values of `--label`. */
export type Labels = Readonly<Record<string, string>>;

/** The option `--label k=v`, once for each label. */
export const labelOption = (description: string): Option =>
  new Option('--label <KEY=VALUE>', description).argParser((text: string, labels: Labels = {}): Labels => {
    const [, key, value] = /^([^=]+)=(.+)$/.exec(text) ?? [];
    if (key === undefined || value === undefined) throw new UsageError(`--label takes KEY=VALUE, not ${text}`);
    return { ...labels, [key]: value };
  });

export const WHERE_ELSE = `Run this in the service's folder, or name its database with --data-dir or --database-url. ${PROGRAM} serve creates a new one.`;

/** How long to wait for a service that is starting or stopping. */
const WAIT_MS = 30_000;

type AdminSocketWork<T> = (admin: AdminSocketClient) => Promise<T>;

/**
 * Calls the service or command that owns the data folder. If there is none, or with DATABASE_URL, this process opens
 * the database itself.
 * @param work starts again if the called process has just ended, so only its first call may make a change
 * @param opensLate whether the engine opens only when a request needs it
 */
export async function withAdminSocket<T>(
  command: Command,
  work: AdminSocketWork<T>,
  { opensLate = false } = {},
): Promise<T> {
  const config = readConfig(command);
  if (!(await hasPostgres(config))) {
    throw new ConfigError(`There is no database in ${config.dataDir}. ${WHERE_ELSE}`);
  }
  const alone = (folder: string) =>
    withOwnAdminSocket(config, { command: nameOf(command), folder, opensLate }, (socket) =>
      work(new AdminSocketClient(socket)),
    );
  if (config.databaseUrl !== null) return withPrivateFolder(alone);
  for (const until = performance.now() + WAIT_MS; ; await sleep(200)) {
    try {
      const socket = await findAdminSocket(config.dataDir);
      if (socket !== null) return await work(new AdminSocketClient(socket));
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
  work: (admin: AdminSocketClient, ...args: Args) => Promise<void>,
): Command =>
  operatorOptions(command).action((...args: Args) => withAdminSocket(command, (admin) => work(admin, ...args)));

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

// Opens the database for one command, and meanwhile serves the admin socket as the service would.

/** Maximum time of a timer: requests of other commands on this socket may take any time. */
const MAX_TIMER_MS = 2 ** 31 - 1;

interface AdminSession {
  /** The name of this command, for messages of other processes that need the same data folder. */
  readonly command: string;
  /** Where the socket is created. */
  readonly folder: string;
  /** Whether the engine opens only when a request needs it. */
  readonly opensLate: boolean;
}

/** @throws DataFolderInUse if another process has the data folder; Error with a message for the operator */
async function withOwnAdminSocket<T>(
  config: Settings,
  { command, folder, opensLate }: AdminSession,
  work: (socket: string) => Promise<T>,
): Promise<T> {
  const logger = pino({ level: 'silent' });
  const closing = new Closing();
  try {
    const postgres = await openPostgres(config, command, logger);
    closing.add(() => postgres.close());
    let opened: ReturnType<typeof openConfiguredEngine> | undefined;
    const engine = () => (opened ??= openConfiguredEngine(config, postgres, logger, { waiting: warn }));
    closing.add(async () => {
      // What failed to open has been reported.
      await (await opened?.catch(() => undefined))?.close();
    });
    if (!opensLate) await engine();
    const admin = await openAdminSocket(folder, config, postgres, engine, logger);
    closing.add(() => admin.close(MAX_TIMER_MS));
    return await work((await findAdminSocket(folder)) ?? '');
  } finally {
    await closing.run();
  }
}

/**
 * Asks before an irreversible action: a person has to type the name again; a script needs --yes.
 * @param what the action, as the beginning of a sentence: `Deleting "shop"`
 * @param kind what has the name
 */
export async function confirm(name: string, what: string, kind: 'project' | 'server'): Promise<void> {
  if (!process.stdin.isTTY) {
    throw new UsageError(`${what} cannot be undone. Without a terminal it needs --yes`);
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const interrupted = new Promise<string>((resolve) =>
    terminal.once('close', () => resolve('')).once('SIGINT', resolve),
  );
  try {
    const question = `${what} cannot be undone. Type the name of the ${kind} to confirm: `;
    const typed = await Promise.race([terminal.question(question), interrupted]);
    if (typed !== name) throw new Error('Nothing was changed, because the name was not typed');
  } finally {
    terminal.close();
  }
}
