/** Selects the files of a data directory for a backup (manual 25.3.4), and reads them while the server writes. */
import type { Dirent } from 'node:fs';
import { constants, type FileHandle, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isMissing, namesIn, readSmallFile } from '../../files.js';

export type Content = AsyncIterable<Buffer> | Iterable<Buffer>;

/**
 * Adds one file to a backup.
 * @param path below the data directory, with slashes
 */
export type AddFile = (path: string, content: Content) => Promise<unknown>;

const CONTROL_FILE = 'global/pg_control';

/** Folders that a starting server empties, and `pg_wal`, of which a backup takes only what it needs. */
const WITHOUT_CONTENT = new Set([
  'pg_wal',
  'pg_replslot',
  'pg_dynshmem',
  'pg_notify',
  'pg_serial',
  'pg_snapshots',
  'pg_stat_tmp',
  'pg_subtrans',
]);

/**
 * State of this server or of an earlier backup, settings that are not the service's, temporary files, and the control
 * file.
 */
const IS_LEFT_OUT =
  /^(?:postmaster\.(?:pid|opts)|backup_label(?:\.old)?|tablespace_map(?:\.old)?|(?:recovery|standby)\.signal|recovery-settings\.conf|postgresql\.auto\.conf)$|(?:^|\/)(?:pgsql_tmp[^/]*|pg_internal\.init[^/]*|t\d+_\d+[^/]*|[^/]*\.conf\.tmp)$|^global\/pg_control$/;

/**
 * Passes every file except those of `pg_wal` to `add`, the control file last. Files may grow, shrink or disappear
 * meanwhile: the WAL contains the server's changes.
 * @throws Error for a link, which could lead out of the directory; what `add` throws
 */
export async function copyFiles(dataDirectory: string, add: AddFile, signal: AbortSignal) {
  const folders: string[] = [];
  let bytes = 0;
  const copyFolder = async (folder: string): Promise<void> => {
    for (const entry of await entriesOf(join(dataDirectory, folder))) {
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
      if (IS_LEFT_OUT.test(path)) continue;
      if (entry.isDirectory()) {
        folders.push(path);
        if (!WITHOUT_CONTENT.has(path)) await copyFolder(path);
      } else if (entry.isFile()) {
        bytes += (await copyFile(dataDirectory, path, add, signal)) ?? 0;
      } else {
        throw new Error(`${join(dataDirectory, path)} is neither a file nor a folder`);
      }
    }
  };
  await copyFolder('');
  const control = await readControlFile(join(dataDirectory, CONTROL_FILE));
  await add(CONTROL_FILE, [control]);
  return { folders, bytes: bytes + control.length };
}

async function entriesOf(folder: string): Promise<Dirent[]> {
  try {
    return await readdir(folder, { withFileTypes: true });
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/**
 * The server overwrites this file in place, and a read may see half of a write. So two consecutive reads must be equal.
 */
async function readControlFile(path: string): Promise<Buffer> {
  for (let before = await readSmallFile(path); ;) {
    await sleep(10);
    const now = await readSmallFile(path);
    if (now.equals(before)) return now;
    before = now;
  }
}

/**
 * History files contain the ends of earlier timelines.
 * @returns their size in bytes
 */
export async function copyTimelineHistories(dataDirectory: string, add: AddFile, signal: AbortSignal): Promise<number> {
  let bytes = 0;
  for (const name of await namesIn(join(dataDirectory, 'pg_wal'))) {
    if (!/^[0-9A-F]{8}\.history$/.test(name)) continue;
    bytes += (await copyFile(dataDirectory, `pg_wal/${name}`, add, signal)) ?? 0;
  }
  return bytes;
}

/** @returns its size in bytes; null if the file no longer exists */
export async function copyFile(
  dataDirectory: string,
  path: string,
  add: AddFile,
  signal: AbortSignal,
): Promise<number | null> {
  signal.throwIfAborted();
  const file = await openPlainFile(join(dataDirectory, path)).catch((error: unknown) => {
    if (isMissing(error)) return null;
    throw error;
  });
  if (file === null) return null;
  try {
    let bytes = 0;
    const counted = async function* () {
      for await (const part of contentOf(file, signal)) {
        bytes += part.length;
        yield part;
      }
    };
    await add(path, counted());
    return bytes;
  } finally {
    await file.close();
  }
}

/**
 * Opens a file of the server's account. That account must not be able to redirect the service by a link or block it by
 * a pipe.
 */
export const openPlainFile = (path: string): Promise<FileHandle> =>
  open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);

const PART_BYTES = 256 * 1024;

/** Reads up to the current end of the file, which may grow faster than it is read. */
export async function* contentOf(file: FileHandle, signal: AbortSignal): AsyncGenerator<Buffer> {
  const { size } = await file.stat();
  for (let position = 0; position < size;) {
    signal.throwIfAborted();
    const length = Math.min(PART_BYTES, size - position);
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(length), 0, length, position);
    if (bytesRead === 0) return;
    yield buffer.subarray(0, bytesRead);
    position += bytesRead;
  }
}
