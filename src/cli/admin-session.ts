/** Opens the database for one command, and meanwhile serves the admin socket as the service would. */
import { pino } from 'pino';
import { findAdminSocket, openAdminSocket } from '../admin-socket.js';
import { Closing } from '../closing.js';
import { openDatabase } from '../database.js';
import { openConfiguredEngine } from '../configured-engine.js';
import type { Config } from '../settings.js';

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
export async function withOwnAdminSocket<T>(
  config: Config,
  { command, folder, opensLate }: AdminSession,
  work: (socket: string) => Promise<T>,
): Promise<T> {
  const logger = pino({ level: 'silent' });
  const closing = new Closing();
  try {
    const database = await openDatabase(config, command, logger);
    closing.add(() => database.close());
    let opened: ReturnType<typeof openConfiguredEngine> | undefined;
    const engine = () => (opened ??= openConfiguredEngine(config, database, logger));
    closing.add(async () => {
      await (await opened?.catch(() => undefined))?.close();
    });
    if (!opensLate) await engine();
    const admin = await openAdminSocket(folder, config, database, engine, logger);
    closing.add(() => admin.close(MAX_TIMER_MS));
    return await work((await findAdminSocket(folder)) ?? '');
  } finally {
    await closing.run();
  }
}
