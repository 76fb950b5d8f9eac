/** Where the embedded cluster lives: `postgres` in the data folder, or a link of that name to a place in reach. */
import { createHash, randomBytes } from 'node:crypto';
import { lstat, realpath, rmdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { type Account, accountFor, calledByRoot, caller, canEnter } from './account.js';
import { exists, hasCode, makeFolder } from '../../files.js';
import { SYSTEM_FOLDER, ownFolder } from './folders.js';

/** The folder of one cluster. Its configuration and log belong to the caller, `data` and `socketDir` to the server. */
export interface Home {
  readonly root: string;
  /** Postgres's own data directory, mode 700. */
  readonly data: string;
  readonly config: string;
  readonly hba: string;
  readonly log: string;
  readonly socketDir: string;
  /** Postgres's `cluster_name`, which opens the title of each of its processes. */
  readonly clusterName: string;
  readonly account: Account;
}

export type Log = (message: string, fields?: object) => void;

/** `sun_path` holds 104 bytes on macOS and 108 on Linux; the rest is reserve. */
const SOCKET_PATH_BYTES = 90;

/** In a data folder: the cluster, or a link to where it is. */
const placeIn = (folder: string): string => join(folder, 'postgres');

/** False in a folder where no service has ever been. */
export const hasHome = (dataDir: string): Promise<boolean> => exists(placeIn(dataDir));

/** Finds the home of the data folder's cluster, or makes an empty one. */
export async function findHome(dataDir: string, log: Log): Promise<Home> {
  const folder = await madeFolder(dataDir);
  const place = placeIn(folder);
  if (!(await exists(place))) {
    if (await canEnter(await accountFor(join(place, 'data')), folder)) await ownFolder(place, homeMode(), caller());
    else await moveOutOfTheWay(place, log);
  }
  const root = await resolved(place);
  const data = join(root, 'data');
  const account = await accountFor(data);
  await ownFolder(root, homeMode(), (await lstat(root)).uid === caller().uid ? caller() : account);
  if (!(await canEnter(account, root))) {
    throw new Error(
      `Postgres runs as user id ${account.uid}, which cannot get into ${root}. ` +
        'Let others pass through the folders above it (chmod o+x), or move the data folder.',
    );
  }
  const id = createHash('sha256').update(root).digest('hex').slice(0, 16);
  const socketDir = await makeSocketFolder(root, `/tmp/cdp-${id}`, account);
  return {
    root,
    data,
    config: join(root, 'postgresql.conf'),
    hba: join(root, 'pg_hba.conf'),
    log: join(root, 'postgres.log'),
    socketDir,
    clusterName: `cdp-${id}`,
    account,
  };
}

/** The unprivileged server must pass through a home that root owns; nobody else needs to see it at all. */
const homeMode = (): number => (calledByRoot() ? 0o711 : 0o700);

async function madeFolder(dataDir: string): Promise<string> {
  await makeFolder(dataDir, homeMode());
  return realpath(dataDir);
}

/**
 * Gives the cluster a folder below {@link SYSTEM_FOLDER} and links to it from the data folder. The name is random: a
 * data folder that was deleted and made anew must not find the cluster of its predecessor.
 */
async function moveOutOfTheWay(place: string, log: Log): Promise<void> {
  const clusters = join(SYSTEM_FOLDER, 'clusters');
  await ownFolder(SYSTEM_FOLDER, 0o755, caller());
  await ownFolder(clusters, 0o711, caller());
  const root = join(clusters, randomBytes(8).toString('hex'));
  await ownFolder(root, homeMode(), caller());
  try {
    await symlink(root, place);
    log('the server cannot reach the data folder, so the database is kept elsewhere', { link: place, database: root });
  } catch (error) {
    await rmdir(root);
    if (!hasCode(error, 'EEXIST')) throw error; // somebody else made it in this moment
  }
}

/** Follows the link only where the caller has made it: root must not be led astray by another user's. */
async function resolved(place: string): Promise<string> {
  const found = await lstat(place);
  if (found.isSymbolicLink() && found.uid !== caller().uid) {
    throw new Error(`${place} is a link that user id ${found.uid} made. Start the service as that user.`);
  }
  return realpath(place);
}

async function makeSocketFolder(root: string, elsewhere: string, account: Account): Promise<string> {
  const inside = join(root, 'socket');
  const fits = Buffer.byteLength(join(inside, '.s.PGSQL.5432')) < SOCKET_PATH_BYTES;
  const folder = fits ? inside : elsewhere;
  await ownFolder(folder, 0o700, account);
  return folder;
}
