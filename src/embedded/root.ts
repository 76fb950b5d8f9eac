/** Where the embedded servers live: `postgres` in the data folder, or a link of that name to a place that they can reach. */
import { createHash, randomBytes } from 'node:crypto';
import { lstat, realpath, rmdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { type Account, accountFor, calledByRoot, caller, canEnter } from './account.js';
import { exists, hasCode, makeFolder } from '../files.js';
import { SYSTEM_FOLDER, ownFolder } from './folders.js';

export type Log = (message: string, fields?: object) => void;

export interface Root {
  /** Absolute, without links. */
  readonly folder: string;
  /** Who runs the control server, and every other server that has no account of its own. */
  readonly account: Account;
  /** Who owns the folders around the data directories: the caller, or the user who made them if root is the caller now. */
  readonly owner: Account;
  /** Short enough for the path of a socket: the root itself, or a private folder below /tmp. */
  readonly sockets: string;
}

/** `sun_path` holds 104 bytes on macOS and 108 on Linux; the rest is reserve. */
const SOCKET_PATH_BYTES = 90;

/** The longest path of a socket below the folder for them. */
const LONGEST_SOCKET = 'projects/0123456789ab/socket/.s.PGSQL.5432.lock';

/** In a data folder: the servers, or a link to where they are. */
const placeIn = (dataDir: string): string => join(dataDir, 'postgres');

/** False in a folder that no service has used. */
export const hasRoot = (dataDir: string): Promise<boolean> => exists(placeIn(dataDir));

/** Finds the servers' folder of a data folder, or makes it. @throws Error that an operator can act on */
export async function findRoot(dataDir: string, log: Log): Promise<Root> {
  await makeFolder(dataDir, rootMode());
  const place = placeIn(await realpath(dataDir));
  const controlData = join(place, 'control', 'data');
  if (!(await exists(place))) {
    if (await canEnter(await accountFor(controlData), dataDir)) await ownFolder(place, rootMode(), caller());
    else await linkElsewhere(place, log);
  }
  const folder = await resolved(place);
  await refuseEarlierLayout(folder, dataDir);
  const account = await accountFor(join(folder, 'control', 'data'));
  const owner = (await lstat(folder)).uid === caller().uid ? caller() : account;
  await ownFolder(folder, rootMode(), owner);
  if (!(await canEnter(account, folder))) {
    throw new Error(
      `Postgres runs as user id ${account.uid}, which cannot get into ${folder}. ` +
        'Let others pass through the folders above it (chmod o+x), or move the data folder.',
    );
  }
  return { folder, account, owner, sockets: await socketFolder(folder, owner) };
}

/** The servers' accounts must pass through folders that root owns; nobody else needs to see them at all. */
export const rootMode = (): number => (calledByRoot() ? 0o711 : 0o700);

/** Until version 0.2 one cluster held all projects. No such version was published. */
async function refuseEarlierLayout(folder: string, dataDir: string): Promise<void> {
  if (!(await exists(join(folder, 'data', 'PG_VERSION')))) return;
  throw new Error(
    `The data folder ${dataDir} was made by an earlier version, which kept all projects on one Postgres server. ` +
      'Save it with `cdp backup` of that version, and restore the file into a new data folder.',
  );
}

/**
 * Gives the servers a folder below {@link SYSTEM_FOLDER} and links to it from the data folder. The name is random: a
 * data folder that was deleted and made again must not find the servers of its predecessor.
 */
async function linkElsewhere(place: string, log: Log): Promise<void> {
  const clusters = join(SYSTEM_FOLDER, 'clusters');
  await ownFolder(SYSTEM_FOLDER, 0o755, caller());
  await ownFolder(clusters, 0o711, caller());
  const folder = join(clusters, randomBytes(8).toString('hex'));
  await ownFolder(folder, rootMode(), caller());
  try {
    await symlink(folder, place);
    log('Postgres cannot reach the data folder, so the databases are kept elsewhere', { link: place, folder });
  } catch (error) {
    await rmdir(folder);
    if (!hasCode(error, 'EEXIST')) throw error; // another process has just made it
  }
}

/** Follows the link only if the caller made it: root must not follow another user's link. */
async function resolved(place: string): Promise<string> {
  const found = await lstat(place);
  if (found.isSymbolicLink() && found.uid !== caller().uid) {
    throw new Error(`${place} is a link that user id ${found.uid} made. Start the service as that user.`);
  }
  return realpath(place);
}

async function socketFolder(folder: string, owner: Account): Promise<string> {
  if (Buffer.byteLength(join(folder, LONGEST_SOCKET)) < SOCKET_PATH_BYTES) return folder;
  const id = createHash('sha256').update(folder).digest('hex').slice(0, 16);
  const elsewhere = `/tmp/cdp-${id}`;
  await ownFolder(elsewhere, rootMode(), owner);
  return elsewhere;
}
