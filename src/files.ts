/** Making folders and files that others may be making at the same moment, and telling why the system refused to. */
import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { chmod, lstat, mkdir, mkdtemp, open, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/** A part of a name that no other process, and no other call, uses. */
export const unique = (): string => `${process.pid}-${randomBytes(6).toString('hex')}`;

/** The system found nothing there. */
export const isMissing = (error: unknown): boolean => hasCode(error, 'ENOENT', 'ENOTDIR');

/** Whether an error of the system, or of the driver, has one of these codes: `ENOENT`. */
export function hasCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && codes.includes((error as NodeJS.ErrnoException).code ?? '');
}

/** A link counts, wherever it leads. @throws what the system says where it does not let us look */
export async function exists(path: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

/** None in a folder that is missing. */
export async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (isMissing(error)) return [];
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
 * A folder for the length of some work, which nobody else can look into: mkdtemp(3) gives it mode 700.
 * @param parent where it is made
 */
export async function withPrivateFolder<T>(work: (folder: string) => Promise<T>, parent = tmpdir()): Promise<T> {
  const folder = await mkdtemp(join(parent, 'cdp-'));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/**
 * Reads a small file in a folder of another account, which must not have us follow a link, wait at a pipe, or read
 * without end.
 * @throws Error if it is no plain file, or is larger than `maxBytes`
 */
export async function readSmallFile(path: string, maxBytes = 65_536): Promise<Buffer> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const found = await file.stat();
    if (!found.isFile() || found.size > maxBytes)
      throw new Error(`${path} is not a plain file of at most ${maxBytes} bytes`);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(found.size), 0, found.size, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

/** Replaces a small file of ours as a whole; its reader may be another user. */
export async function replaceFile(path: string, content: string): Promise<void> {
  const draft = `${path}.${unique()}`;
  await writeFile(draft, content, { flag: 'wx' });
  await chmod(draft, 0o644);
  await rename(draft, path);
}
