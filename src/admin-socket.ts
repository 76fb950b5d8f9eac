/**
 * The admin socket: where it is, and making and removing it. The process that has the data folder listens there, the
 * service as well as a command that runs without one, and all other commands talk to it.
 */
import { chmod, lstat, mkdtemp, readlink, rename, rm, rmdir, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { Database } from './database.js';
import type { Engine } from './engine/engine.js';
import { isMissing } from './files.js';
import type { Config } from './settings.js';
import { VERSION } from './version.js';

/** `sun_path` holds 104 bytes on macOS and 108 on Linux; the rest is reserve. */
const SOCKET_PATH_BYTES = 90;

export interface AdminSocket {
  /** Lets running requests finish, and breaks them off if they take longer than `ms`. */
  close(ms: number): Promise<void>;
  breakOff(): void;
}

/** In a data folder: the socket, or a link to where it is. */
const placeIn = (folder: string): string => join(folder, 'admin.sock');

/** The socket of a data folder; null: there is none. */
export async function findAdminSocket(folder: string): Promise<string | null> {
  const place = placeIn(folder);
  try {
    return (await lstat(place)).isSymbolicLink() ? await readlink(place) : place;
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

/** Listens in the folder, of which the caller is the only owner: a socket that is there was left by a killed process. */
export async function openAdminSocket(
  folder: string,
  config: Config,
  { address, connections, embedded }: Database,
  engine: () => Promise<Engine>,
  logger: Logger,
): Promise<AdminSocket> {
  const [{ adminListener }, { finish }] = await Promise.all([
    import('./http/admin-listener.js'),
    import('./http/app.js'),
  ]);
  const own = embedded && { folder: config.dataDir, postmaster: () => embedded.control.pid };
  const server = { address, connections, embedded: own };
  const app = adminListener({ ...server, engine, version: VERSION }, config, logger);
  const place = placeIn(folder);
  try {
    await remove(place);
    await listen(app, place);
  } catch (error) {
    await app.close();
    throw error;
  }
  return {
    close: async (ms) => {
      await remove(place);
      await finish(app, ms);
    },
    breakOff: () => app.server.closeAllConnections(),
  };
}

/** The socket gets its name when it has its mode. */
async function listen(app: FastifyInstance, place: string): Promise<void> {
  const draft = `${place}.new`;
  await rm(draft, { force: true });
  const fits = Buffer.byteLength(draft) < SOCKET_PATH_BYTES;
  // Where the server's sockets go in that case, too.
  const socket = fits ? draft : join(await mkdtemp('/tmp/cdp-'), 'admin.sock');
  await app.listen({ path: socket });
  await chmod(socket, 0o600);
  if (!fits) await symlink(socket, draft);
  await rename(draft, place);
}

async function remove(place: string): Promise<void> {
  const socket = await findAdminSocket(dirname(place));
  if (socket !== null && socket !== place) {
    await rm(socket, { force: true });
    await rmdir(dirname(socket)).catch(() => {});
  }
  await rm(place, { force: true });
}
