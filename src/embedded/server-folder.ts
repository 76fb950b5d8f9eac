/** The folder of one server: its data directory, configuration, log and socket. */
import { createHash } from 'node:crypto';
import { chmod, lstat, mkdir, readdir, rename } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { hasCode, removeFolder, unique } from '../files.js';
import type { Account } from './accounts.js';
import { type EmbeddedFolder, folderMode, ownFolder } from './embedded-folder.js';
import { isAlive } from './proc.js';

/** Configuration and log belong to the service; `data` and `socketDir` belong to the server's account. */
export interface ServerFolder {
  readonly root: string;
  /** Postgres's data directory, mode 700. */
  readonly data: string;
  readonly config: string;
  readonly hba: string;
  /** Files with further settings, if they exist: for a recovery, the WAL archive, a stream, a feed, and the operator's own. */
  readonly ownSettings: readonly string[];
  readonly log: string;
  readonly socketDir: string;
  /** Postgres's `cluster_name`, with which the title of each of its processes begins. */
  readonly clusterName: string;
  readonly account: Account;
  /** The owner of the folders. */
  readonly owner: Account;
}

/** In the data directory, for a recovery. */
export const RECOVERY_SETTINGS = 'recovery-settings.conf';

/** In the folder of a server whose WAL is archived. */
export const ARCHIVE_SETTINGS = 'archive.conf';

/** In the folder of a server whose project has a feed. */
export const FEED_SETTINGS = 'feed.conf';

/** In the folder of a server: the log of its changes. */
export const FEED = 'feed';

/** In the folder of a server whose project is being moved by a stream. */
export const STREAM_SETTINGS = 'stream.conf';

/**
 * In the data folder: the control server, projects' servers by id, and archived WAL by id, which outlives the server.
 */
export const CONTROL = 'control';
export const PROJECTS = 'projects';
export const ARCHIVE = 'archive';
export const projectFolder = (id: string): string => join(PROJECTS, id);

/**
 * @param name in the data folder: `control`, `projects/<id>`
 * @param account default: that of the control server
 */
export function serverFolder(
  serversFolder: EmbeddedFolder,
  name: string,
  account: Account = serversFolder.account,
): ServerFolder {
  const root = join(serversFolder.folder, name);
  return {
    root,
    data: join(root, 'data'),
    config: join(root, 'postgresql.conf'),
    hba: join(root, 'pg_hba.conf'),
    ownSettings: [
      join(root, 'data', RECOVERY_SETTINGS),
      join(root, ARCHIVE_SETTINGS),
      join(root, STREAM_SETTINGS),
      join(root, FEED_SETTINGS),
      join(serversFolder.folder, 'local.conf'),
      join(root, 'local.conf'),
    ],
    log: join(root, 'postgres.log'),
    socketDir: join(serversFolder.sockets, name, 'socket'),
    // The hash distinguishes servers in several data folders, which have the same names.
    clusterName: `cdp-${basename(name)}-${createHash('sha256').update(root).digest('hex').slice(0, 8)}`,
    account,
    owner: serversFolder.owner,
  };
}

/**
 * The folder of an existing server, which runs as the owner of its data directory.
 * @throws Error if it does not exist
 */
export async function existingServerFolder(serversFolder: EmbeddedFolder, name: string): Promise<ServerFolder> {
  const folder = serverFolder(serversFolder, name);
  const { uid, gid } = await lstat(folder.data);
  return { ...folder, account: { uid, gid } };
}

/** Creates everything except the data directory. */
export async function makeServerFolder(folder: ServerFolder): Promise<void> {
  const { socketDir, account, owner } = folder;
  await makeRootFolder(folder);
  for (const around of [dirname(dirname(socketDir)), dirname(socketDir)]) await ownFolder(around, folderMode(), owner);
  await ownFolder(socketDir, 0o700, account);
}

/** Creates only the folder around everything else. */
export async function makeRootFolder({ root, owner }: ServerFolder): Promise<void> {
  for (const folder of [dirname(root), root]) await ownFolder(folder, folderMode(), owner);
}

/**
 * Builds a folder under another name and renames it, so that `target` is either absent or complete. Of two concurrent
 * builders one wins. What a killed builder has left is removed by the next one.
 */
export async function buildFolder(target: string, fill: (folder: string) => Promise<void>): Promise<void> {
  const prefix = `.new-${basename(target)}-`;
  await removeUnfinished(dirname(target), prefix);
  const staging = join(dirname(target), `${prefix}${unique()}`);
  try {
    await mkdir(staging);
    await chmod(staging, 0o711);
    await fill(join(staging, 'result'));
    await rename(join(staging, 'result'), target);
  } catch (error) {
    if (!hasCode(error, 'ENOTEMPTY', 'EEXIST')) throw error;
  } finally {
    await removeFolder(staging);
  }
}

/** The process id in the name may belong to another program now, so the age counts, too. */
async function removeUnfinished(parent: string, prefix: string): Promise<void> {
  const tenMinutesAgo = Date.now() - 600_000;
  for (const name of (await readdir(parent)).filter((entry) => entry.startsWith(prefix))) {
    const folder = join(parent, name);
    // Removed meanwhile by another builder.
    const modifiedAt = (await lstat(folder).catch(() => undefined))?.mtimeMs ?? 0;
    const isBeingBuilt = isAlive(Number.parseInt(name.slice(prefix.length))) && modifiedAt > tenMinutesAgo;
    // Errors are ignored: an initdb may still be writing.
    if (!isBeingBuilt) await removeFolder(folder).catch(() => undefined);
  }
}
