/** The folder of one server: its data directory, configuration, log and socket. */
import { createHash } from 'node:crypto';
import { lstat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Account } from './account.js';
import { ownFolder } from './folders.js';
import { type Root, rootMode } from './root.js';

/** Configuration and log belong to the service, `data` and `socketDir` to the server's account. */
export interface Home {
  readonly root: string;
  /** Postgres's own data directory, mode 700. */
  readonly data: string;
  readonly config: string;
  readonly hba: string;
  /** Files with further settings, each of which may be missing: of a restore, of an archive, and the operator's own. */
  readonly ownSettings: readonly string[];
  readonly log: string;
  readonly socketDir: string;
  /** Postgres's `cluster_name`, which opens the title of each of its processes. */
  readonly clusterName: string;
  readonly account: Account;
  /** Who owns the folders. */
  readonly owner: Account;
}

/** In the folder of a server whose write-ahead log is archived. */
export const ARCHIVE_SETTINGS = 'archive.conf';

/** Below the servers' folder: the control server, and each project's by the id of its server. */
export const CONTROL = 'control';
export const PROJECTS = 'projects';
/** A folder for each server whose log is archived; it outlives the server. */
export const ARCHIVE = 'archive';
/** @param root the servers' folder */
export const archiveFolder = (root: string, id: string): string => join(root, ARCHIVE, id);
export const projectFolder = (id: string): string => join(PROJECTS, id);

/** @param name below the servers' folder: `control`, `projects/<id>`. @param account if it is not that of the control server */
export function homeOf(root: Root, name: string, account: Account = root.account): Home {
  const folder = join(root.folder, name);
  return {
    root: folder,
    data: join(folder, 'data'),
    config: join(folder, 'postgresql.conf'),
    hba: join(folder, 'pg_hba.conf'),
    ownSettings: [
      join(folder, 'data', 'recovery-settings.conf'),
      join(folder, ARCHIVE_SETTINGS),
      join(root.folder, 'local.conf'),
      join(folder, 'local.conf'),
    ],
    log: join(folder, 'postgres.log'),
    socketDir: join(root.sockets, name, 'socket'),
    clusterName: `cdp-${basename(name)}-${hashOf(folder)}`,
    account,
    owner: root.owner,
  };
}

/** Other data folders of the machine have servers of the same names: `control`, and after a copy any other. */
const hashOf = (folder: string): string => createHash('sha256').update(folder).digest('hex').slice(0, 8);

/** The same of a server that was made before: it runs as the owner of its data directory. */
export async function existingHome(root: Root, name: string): Promise<Home> {
  const home = homeOf(root, name);
  const { uid, gid } = await lstat(home.data);
  return { ...home, account: { uid, gid } };
}

/** Makes the folders around the data directory, each if it is missing. */
export async function makeHome({ root, socketDir, account, owner }: Home): Promise<void> {
  const around = [dirname(root), root, dirname(dirname(socketDir)), dirname(socketDir)];
  for (const folder of around) await ownFolder(folder, rootMode(), owner);
  await ownFolder(socketDir, 0o700, account);
}
