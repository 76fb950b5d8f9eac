/**
 * Creates, finds and removes the admin socket. The process that owns the data folder listens on it: the service, or
 * a command if no service runs. All other commands connect to it.
 */
import { chmod, lstat, mkdtemp, readlink, rename, rm, rmdir, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { ServicePostgres } from './postgres.js';
import type { Engine } from './engine/engine.js';
import { isMissing, SOCKET_PATH_BYTES } from './files.js';
import type { Settings } from './settings.js';

export interface AdminSocket {
  /** Lets running requests finish, and aborts them after `ms`. */
  close(ms: number): Promise<void>;
  breakOff(): void;
}

/** In the data folder: the socket, or a link to it. */
const socketPath = (folder: string): string => join(folder, 'admin.sock');

/** The path of the data folder's socket; null: there is none. */
export async function findAdminSocket(folder: string): Promise<string | null> {
  const path = socketPath(folder);
  try {
    return (await lstat(path)).isSymbolicLink() ? await readlink(path) : path;
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

/** Listens in the folder. Only its owner may call this, because it replaces a socket that a killed process left. */
export async function openAdminSocket(
  folder: string,
  config: Settings,
  { address, maxConnections, embedded }: ServicePostgres,
  engine: () => Promise<Engine>,
  logger: Logger,
): Promise<AdminSocket> {
  const [{ adminSocketListener }, { finishRequests }] = await Promise.all([
    import('./http/admin-socket-listener.js'),
    import('./http/listener.js'),
  ]);
  const own = embedded && {
    folder: config.dataDir,
    programs: embedded.binaries.bin === config.postgresBin ? config.postgresBin : 'the npm package',
    postmaster: () => embedded.control.pid,
    diskReserve: config.diskReserveMib * 1024 * 1024,
  };
  const server = { address, connections: maxConnections, embedded: own };
  const app = adminSocketListener({ ...server, engine }, config, logger);
  const path = socketPath(folder);
  try {
    await remove(path);
    await listen(app, path);
  } catch (error) {
    await app.close();
    throw error;
  }
  return {
    close: async (ms) => {
      // On a read-only disk it stays; the next owner of the folder replaces it.
      await remove(path).catch(() => {});
      await finishRequests(app, ms);
    },
    breakOff: () => app.server.closeAllConnections(),
  };
}

/** The socket gets its final name only after its mode is set. */
async function listen(app: FastifyInstance, path: string): Promise<void> {
  const draft = `${path}.new`;
  await rm(draft, { force: true });
  const fits = Buffer.byteLength(draft) < SOCKET_PATH_BYTES;
  // In this case, the servers' sockets are in /tmp, too.
  const socket = fits ? draft : join(await mkdtemp('/tmp/cdp-'), 'admin.sock');
  await app.listen({ path: socket });
  await chmod(socket, 0o600);
  if (!fits) await symlink(socket, draft);
  await rename(draft, path);
}

async function remove(path: string): Promise<void> {
  const socket = await findAdminSocket(dirname(path));
  if (socket !== null && socket !== path) {
    await rm(socket, { force: true });
    // Something else may be in the folder.
    await rmdir(dirname(socket)).catch(() => {});
  }
  await rm(path, { force: true });
}
