/** Making folders and files that others may be making at the same moment, or may have squatted on. */
import { randomBytes } from 'node:crypto';
import { chmod, chown, lstat, mkdir, rename, stat, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type Account, caller } from './account.js';

/** Where root keeps what the unprivileged server must reach when the program's or the data folder is out of its reach. */
export const SYSTEM_FOLDER = '/var/lib/cdp-data-engine';

/** A part of a name that no other process, and no other call, uses. */
export const unique = (): string => `${process.pid}-${randomBytes(6).toString('hex')}`;

export const isMissing = (error: unknown): boolean => hasCode(error, 'ENOENT', 'ENOTDIR');

export function hasCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && codes.includes((error as NodeJS.ErrnoException).code ?? '');
}

export async function exists(path: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

/**
 * Makes a folder of this mode where there is none, and those above it. Not by Node's `recursive`: where the system lets
 * nobody make a folder and says that the one above is missing, as in /proc, Node tries for ever.
 * @throws Error naming the folder
 */
export async function makeFolder(path: string, mode: number): Promise<void> {
  try {
    await makeAbove(path, mode);
  } catch (error) {
    throw new Error(`The folder ${path} cannot be made: ${(error as Error).message}`, { cause: error });
  }
}

async function makeAbove(path: string, mode: number): Promise<void> {
  const make = () =>
    mkdir(path, { mode }).catch(async (error: unknown) => {
      if (!hasCode(error, 'EEXIST') || !(await stat(path)).isDirectory()) throw error;
    });
  try {
    await make();
  } catch (error) {
    if (!hasCode(error, 'ENOENT') || dirname(path) === path) throw error;
    await makeAbove(dirname(path), mode);
    await make();
  }
}

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

/** Replaces a small file of ours as a whole; its reader may be another user. */
export async function replaceFile(path: string, content: string): Promise<void> {
  const draft = `${path}.${unique()}`;
  await writeFile(draft, content, { flag: 'wx' });
  await chmod(draft, 0o644);
  await rename(draft, path);
}
