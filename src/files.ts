/** Helpers for files and folders, safe against concurrent creation and against other users' links. */
import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { chmod, lstat, mkdir, mkdtemp, open, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/** Maximum bytes of a socket's path. `sun_path` holds 104 bytes on macOS and 108 on Linux; the rest is reserve. */
export const SOCKET_PATH_BYTES = 90;

/** Part of a name that no other process and no other call uses. */
export const unique = (): string => `${process.pid}-${randomBytes(6).toString('hex')}`;

/** Whether the error means that the file does not exist. */
export const isMissing = (error: unknown): boolean => hasCode(error, 'ENOENT', 'ENOTDIR');

/** Whether an error of the system or of the driver has one of these codes, such as `ENOENT`. */
export function hasCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && codes.includes((error as NodeJS.ErrnoException).code ?? '');
}

/**
 * A dangling link counts as existing.
 * @throws the system's error if access is denied
 */
export async function exists(path: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

/** The names in a folder; empty if it does not exist. */
export async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/**
 * Creates a folder with this mode and the missing folders above it. Node's `recursive` would never return where the
 * system reports an existing parent as missing, as in /proc.
 * @throws Error that names the folder
 */
export async function makeFolder(path: string, mode: number): Promise<void> {
  try {
    await makeAbove(path, mode);
  } catch (error) {
    throw new Error(`The folder ${path} cannot be created: ${(error as Error).message}`, { cause: error });
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
 * Runs the work with a temporary folder of mode 700.
 * @param parent the folder in which to create it
 */
export async function withPrivateFolder<T>(work: (folder: string) => Promise<T>, parent = tmpdir()): Promise<T> {
  const folder = await mkdtemp(join(parent, 'cdp-'));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const SMALL_BYTES = 65_536;

/**
 * Reads a small file in another account's folder. Does not follow a link, and refuses a pipe or a large file.
 * @throws Error if it is not a regular file, or larger than {@link SMALL_BYTES}
 */
export async function readSmallFile(path: string): Promise<Buffer> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const found = await file.stat();
    if (!found.isFile() || found.size > SMALL_BYTES)
      throw new Error(`${path} is not a plain file of at most ${SMALL_BYTES} bytes`);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(found.size), 0, found.size, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

/** Replaces a small file atomically: a reader sees the old content or the new. By default any user may read it. */
export async function replaceFile(path: string, content: string, mode = 0o644): Promise<void> {
  const draft = `${path}.${unique()}`;
  try {
    await writeFile(draft, content, { flag: 'wx', mode });
    // The umask does not apply to chmod.
    await chmod(draft, mode);
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}
