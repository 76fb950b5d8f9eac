/**
 * The folder of all embedded servers: `postgres` in the data folder, or a link with that name to a folder that the
 * servers' accounts can access.
 */
import { createHash, randomBytes } from 'node:crypto';
import { constants, lstat, mkdir, open, realpath, rmdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { exists, hasCode, makeFolder, SOCKET_PATH_BYTES } from '../files.js';
import type { Log } from '../log.js';
import { type Account, accountFor, runsAsRoot, ownAccount, canEnter } from './accounts.js';

export interface EmbeddedFolder {
  /** Absolute, without links. */
  readonly folder: string;
  /** The account that runs the control server, and every server that has no account of its own. */
  readonly account: Account;
  /**
   * The owner of the folders around the data directories: this process, or if that is root, the user who created them.
   */
  readonly owner: Account;
  /** The folder for sockets: `folder`, or a private one in /tmp if the path would be too long. */
  readonly sockets: string;
}

/**
 * If the service is root, this folder is for files in the data folder or the installation that Postgres's user cannot
 * access.
 */
export const SYSTEM_FOLDER = '/var/lib/cdp-data-engine';

const LONGEST_SOCKET = 'projects/0123456789ab/socket/.s.PGSQL.5432.lock';

const serversIn = (dataDir: string): string => join(dataDir, 'postgres');

/** False in a folder that no service has used. */
export const hasServers = (dataDir: string): Promise<boolean> => exists(serversIn(dataDir));

/**
 * Finds the folder of the servers, or creates it.
 * @throws Error that an operator can act on
 */
export async function findEmbeddedFolder(dataDir: string, log: Log): Promise<EmbeddedFolder> {
  await makeFolder(dataDir, folderMode());
  const place = serversIn(await realpath(dataDir));
  const controlData = join(place, 'control', 'data');
  if (!(await exists(place))) {
    if (await canEnter(await accountFor(controlData), dataDir)) await ownFolder(place, folderMode(), ownAccount());
    else await linkElsewhere(place, log);
  }
  const folder = await followLink(place);
  if (await exists(join(folder, 'data', 'PG_VERSION'))) {
    throw new Error(
      `The data folder ${dataDir} was made by an earlier version, which kept all projects on one Postgres server. ` +
        'Save it with `cdp backup` of that version, and restore the file into a new data folder.',
    );
  }
  const account = await accountFor(join(folder, 'control', 'data'));
  const owner = (await lstat(folder)).uid === ownAccount().uid ? ownAccount() : account;
  await ownFolder(folder, folderMode(), owner);
  if (!(await canEnter(account, folder))) {
    throw new Error(
      `Postgres runs as user id ${account.uid}, which cannot enter ${folder}. ` +
        'Make the folders above it searchable (chmod o+x), or move the data folder.',
    );
  }
  return { folder, account, owner, sockets: await socketFolder(folder, owner) };
}

/** If the owner is root, the servers' accounts need to pass through the folders. */
export const folderMode = (): number => (runsAsRoot() ? 0o711 : 0o700);

/**
 * The name is random, so that a data folder that was deleted and created again does not find the servers of the old
 * one.
 */
async function linkElsewhere(place: string, log: Log): Promise<void> {
  const clusters = join(SYSTEM_FOLDER, 'clusters');
  await ownFolder(SYSTEM_FOLDER, 0o755, ownAccount());
  await ownFolder(clusters, 0o711, ownAccount());
  const folder = join(clusters, randomBytes(8).toString('hex'));
  await ownFolder(folder, folderMode(), ownAccount());
  try {
    await symlink(folder, place);
    log.info({ link: place, folder }, 'Postgres cannot reach the data folder, so the databases are kept elsewhere');
  } catch (error) {
    await rmdir(folder);
    if (!hasCode(error, 'EEXIST')) throw error; // another process has just created it
  }
}

/** Root must not follow another user's link. */
async function followLink(place: string): Promise<string> {
  const stats = await lstat(place);
  if (stats.isSymbolicLink() && stats.uid !== ownAccount().uid) {
    throw new Error(`${place} is a link that user id ${stats.uid} made. Start the service as that user`);
  }
  return realpath(place);
}

async function socketFolder(folder: string, owner: Account): Promise<string> {
  if (Buffer.byteLength(join(folder, LONGEST_SOCKET)) < SOCKET_PATH_BYTES) return folder;
  const elsewhere = `/tmp/cdp-${createHash('sha256').update(folder).digest('hex').slice(0, 16)}`;
  await ownFolder(elsewhere, folderMode(), owner);
  return elsewhere;
}

/**
 * Creates a folder with this mode and owner. An existing folder of the owner is left unchanged. A link or another
 * user's folder is refused, because in /tmp anyone may have taken the name.
 */
export async function ownFolder(path: string, mode: number, owner: Account): Promise<void> {
  await mkdir(path, { mode }).catch((error: unknown) => {
    if (!hasCode(error, 'EEXIST')) throw error;
  });
  const notOurs = `${path} exists and was not created by this program. Remove it and start again`;
  const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants;
  const folder = await open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW).catch((error: unknown) => {
    throw hasCode(error, 'ENOTDIR', 'ELOOP', 'EACCES') ? new Error(notOurs) : error;
  });
  try {
    const { uid } = await folder.stat();
    if (uid !== ownAccount().uid && uid !== owner.uid) throw new Error(notOurs);
    if (uid !== ownAccount().uid) return;
    await folder.chmod(mode);
    await folder.chown(owner.uid, owner.gid);
  } finally {
    await folder.close();
  }
}
