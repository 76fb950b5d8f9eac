/** Folders that the unprivileged server must reach, and that nobody else may have created before. */
import { chmod, chown, lstat, mkdir } from 'node:fs/promises';
import { hasCode } from '../files.js';
import { type Account, caller } from './account.js';

/** Where root keeps what the unprivileged server must reach when the program's or the data folder is out of its reach. */
export const SYSTEM_FOLDER = '/var/lib/cdp-data-engine';

/**
 * Makes `path` a folder of this mode and owner. A folder that is the owner's already stays as it is; a link, or a
 * folder of anybody else, is refused: in /tmp somebody may have taken the name before us.
 */
export async function ownFolder(path: string, mode: number, owner: Account): Promise<void> {
  await mkdir(path, { mode }).catch((error: unknown) => {
    if (!hasCode(error, 'EEXIST')) throw error;
  });
  const found = await lstat(path);
  if (!found.isDirectory() || (found.uid !== caller().uid && found.uid !== owner.uid)) {
    throw new Error(`${path} exists and is not a folder of ours. Remove it and start again.`);
  }
  if (found.uid !== caller().uid) return;
  await chmod(path, mode);
  await chown(path, owner.uid, owner.gid);
}
