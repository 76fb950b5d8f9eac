/** Helpers for files and folders, safe against concurrent creation and against other users' links. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import {
  access,
  chmod,
  type FileHandle,
  lstat,
  mkdir,
  mkdtemp,
  open,
  readdir,
  rename,
  rm,
  rmdir,
  stat,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

/** Maximum bytes of a socket's path. `sun_path` holds 104 bytes on macOS and 108 on Linux; the rest is reserve. */
export const SOCKET_PATH_BYTES = 90;

/** Part of a name that no other process and no other call uses. */
export const unique = (): string => `${process.pid}-${randomBytes(6).toString('hex')}`;

/** Whether the error means that the file does not exist. */
export const isMissing = (error: unknown): boolean => hasCode(error, 'ENOENT', 'ENOTDIR');

/** Whether the folder's file system is mounted read-only, as Linux does when a disk is damaged. */
export const isOnReadOnlyDisk = (folder: string): Promise<boolean> =>
  access(folder, constants.W_OK).then(
    () => false,
    (error: unknown) => hasCode(error, 'EROFS'),
  );

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

/** Folders below a data directory are at most four deep. Each open one takes a file descriptor. */
const DEEPEST = 8;

/**
 * Opens a folder below one that another account can write to, one name after the other and none of them a link. In
 * `inside`, names lead into that folder, even if the account puts a link in its place meanwhile. Without /proc, `inside`
 * is only its path.
 * @param root a folder that the account cannot replace
 * @param path with slashes; '': the root itself
 * @returns null if it does not exist
 * @throws Error for a link, for anything else than a folder, and below {@link DEEPEST} folders
 */
export async function withFolderBelow<T>(
  root: string,
  path: string,
  work: (inside: string) => Promise<T>,
): Promise<T | null> {
  const names = path.split('/').filter(Boolean);
  if (names.length > DEEPEST) throw new Error(`${join(root, path)} is below too many folders`);
  const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants;
  let folder: FileHandle | null = null;
  let at = root;
  try {
    for (const name of ['', ...names]) {
      const above: FileHandle | null = folder;
      folder = await open(join(at, name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
      await above?.close();
      at = process.platform === 'linux' ? `/proc/self/fd/${folder.fd}` : join(at, name);
    }
  } catch (error) {
    await folder?.close();
    if (hasCode(error, 'ENOENT')) return null;
    if (hasCode(error, 'ENOTDIR', 'ELOOP')) throw new Error(`${join(root, path)} is not a folder`, { cause: error });
    throw error;
  }
  try {
    return await work(at);
  } finally {
    await folder?.close();
  }
}

/**
 * Opens a file below a folder that another account can write to. See {@link withFolderBelow}.
 * @returns null if it does not exist
 * @throws Error unless it is a plain file of that account: the account must not be able to redirect the service by a link
 *   or block it by a pipe
 */
export async function openFileBelow(root: string, path: string): Promise<FileHandle | null> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  const file = await withFolderBelow(root, dirname(`/${path}`), (inside) =>
    open(join(inside, path.split('/').at(-1) ?? ''), O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch((error: unknown) => {
      if (hasCode(error, 'ENOENT')) return null;
      if (hasCode(error, 'ELOOP', 'ENXIO'))
        throw new Error(`${join(root, path)} is not a plain file`, { cause: error });
      throw error;
    }),
  );
  if (file === null) return null;
  try {
    const [stats, folder] = [await file.stat(), await lstat(root)];
    if (!stats.isFile()) throw new Error(`${join(root, path)} is not a plain file`);
    // A hard link, where the system lets anyone make one to a file of others.
    if (stats.uid !== folder.uid) throw new Error(`${join(root, path)} does not belong to the owner of ${root}`);
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}

/**
 * Removes a folder and everything in it, if it exists. As root, what is in a folder of another account is removed by a
 * process of that account: it may put a link in place of a folder at any moment.
 * @param path in a folder that the account cannot write to
 * @throws the system's error
 */
export async function removeFolder(path: string): Promise<void> {
  const stats = await lstat(path).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
    return null;
  });
  if (!stats?.isDirectory()) return rm(path, { force: true });
  const isRoot = process.getuid?.() === 0;
  if (isRoot && stats.uid === 0) {
    for (const name of await readdir(path)) await removeFolder(join(path, name));
  } else {
    const account = isRoot ? { uid: stats.uid, gid: stats.gid } : {};
    const remove = promisify(execFile)('/bin/sh', ['-c', REMOVE, 'sh', path], { ...account, cwd: '/', env: {} });
    // It may not remove the folder itself, which is in another account's folder.
    await remove.catch(() => {});
  }
  await rmdir(path).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
  });
}

/** A server can close its folders to its own account, and make their paths too long for Node's `rm`. */
const REMOVE = 'PATH=/usr/bin:/bin; exec >/dev/null 2>&1; chmod -R u+rwx "$1"; rm -rf "$1"';

/** Waits until everything written to the file system of a path is on its disk: cheaper than to flush each of many files. */
export async function flushFileSystem(path: string): Promise<void> {
  const script = 'PATH=/usr/bin:/bin; sync -f "$1" 2>/dev/null || sync';
  await promisify(execFile)('/bin/sh', ['-c', script, 'sh', path], { cwd: '/', env: {} });
}

const SMALL_BYTES = 65_536;

/**
 * Reads a small file in another account's folder. Does not follow a link, and refuses a pipe or a large file.
 * @throws Error if it is not a regular file, or larger than {@link SMALL_BYTES}
 */
export async function readSmallFile(path: string): Promise<Buffer> {
  return readSmall(await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK), path);
}

/** The same for a file of {@link openFileBelow}; null if it does not exist. */
export async function readSmallFileBelow(root: string, path: string): Promise<Buffer | null> {
  const file = await openFileBelow(root, path);
  return file === null ? null : readSmall(file, join(root, path));
}

/** Closes the file. */
async function readSmall(file: FileHandle, path: string): Promise<Buffer> {
  try {
    const stats = await file.stat();
    if (!stats.isFile() || stats.size > SMALL_BYTES)
      throw new Error(`${path} is not a plain file of at most ${SMALL_BYTES} bytes`);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(stats.size), 0, stats.size, 0);
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
