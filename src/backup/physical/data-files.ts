/**
 * Selects the files of a data directory for a backup (Postgres manual, Making a Base Backup Using the Low Level API),
 * and reads them while the server writes.
 */
import { type FileHandle, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openFileBelow, readSmallFileBelow, withFolderBelow } from '../../files.js';
import type { PageCheck } from './page-checksums.js';

export type Content = AsyncIterable<Buffer> | Iterable<Buffer>;

/**
 * Adds one file to a backup.
 * @param path below the data directory, with slashes
 * @param modified when the server last wrote it; undefined: the backup has made it
 */
export type AddFile = (path: string, content: Content, modified?: Date) => Promise<unknown>;

const CONTROL_FILE = 'global/pg_control';

/** What {@link copyFiles} leaves out, and the backup adds. */
const ADDED = new Set([CONTROL_FILE, 'backup_label']);

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

const LEFT_OUT: readonly RegExp[] = [
  // State of this server, or of an earlier backup or recovery.
  /^postmaster\.(pid|opts)$/i,
  /^(backup_label|tablespace_map)(\.old)?$/i,
  /^(recovery|standby)\.signal$/i,
  // Settings that are not the service's.
  /^(recovery-settings|postgresql\.auto)\.conf$/i,
  // Temporary: files of queries, caches of catalogs, temporary relations, settings that are being written.
  /(^|\/)(pgsql_tmp|pg_internal\.init)[^/]*$/i,
  /(^|\/)t\d+_\d+[^/]*$/i,
  /(^|\/)[^/]*\.conf\.tmp$/i,
  // A backup writes it by itself (CONTROL_FILE).
  /^global\/pg_control$/i,
];

const isLeftOut = (path: string): boolean => LEFT_OUT.some((pattern) => pattern.test(path));

/** WAL and timeline histories. */
const OF_WAL = /^pg_wal\/(?:[0-9A-F]{24}|[0-9A-F]{8}\.history)$/;

/**
 * Whether a backup can contain this file or folder. If someone has added another to it, the server would for instance
 * read settings from it.
 */
export function belongsInBackup(path: string): boolean {
  if (ADDED.has(path) || OF_WAL.test(path)) return true;
  const [top = '', ...below] = path.split('/');
  return !isLeftOut(path) && !(below.length > 0 && WITHOUT_CONTENT.has(top));
}

/**
 * A relation with an init fork is unlogged. The other forks are left out: a recovery creates them from that one, and
 * their pages, whose changes are in no WAL, could be half written.
 */
const INIT_FORK = /^(\d+)_init$/;
const OTHER_FORK = /^(\d+)(?:_fsm|_vm)?(?:\.\d+)?$/;

/**
 * Passes every file except those of `pg_wal` to `add`, the control file last. Files may grow, shrink or disappear
 * meanwhile: the WAL contains the server's changes.
 * @param check verifies the pages; null: they have no checksums
 * @throws Error for a link, which could lead out of the directory; what `add` throws
 */
export async function copyFiles(dataDirectory: string, add: AddFile, signal: AbortSignal, check: PageCheck | null) {
  const folders: string[] = [];
  let bytes = 0;
  const entriesOf = (folder: string) =>
    withFolderBelow(dataDirectory, folder, (inside) => readdir(inside, { withFileTypes: true }));
  const copyFolder = async (folder: string): Promise<void> => {
    const entries = (await entriesOf(folder)) ?? [];
    const unlogged = new Set(entries.flatMap(({ name }) => INIT_FORK.exec(name)?.[1] ?? []));
    for (const entry of entries) {
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
      if (isLeftOut(path) || unlogged.has(OTHER_FORK.exec(entry.name)?.[1] ?? '')) continue;
      if (entry.isDirectory()) {
        folders.push(path);
        if (!WITHOUT_CONTENT.has(path)) await copyFolder(path);
      } else if (entry.isFile()) {
        bytes += (await copyFile(dataDirectory, path, add, signal, check)) ?? 0;
      } else {
        throw new Error(`${join(dataDirectory, path)} is neither a file nor a folder`);
      }
    }
  };
  await copyFolder('');
  const control = await readControlFile(dataDirectory);
  await add(CONTROL_FILE, [control]);
  return { folders, bytes: bytes + control.length };
}

/**
 * The server overwrites this file in place, and a read may see half of a write. So two consecutive reads must be equal.
 */
async function readControlFile(dataDirectory: string): Promise<Buffer> {
  const read = async (): Promise<Buffer> => {
    const content = await readSmallFileBelow(dataDirectory, CONTROL_FILE);
    if (content === null) throw new Error(`${join(dataDirectory, CONTROL_FILE)} does not exist`);
    return content;
  };
  for (let before = await read(); ;) {
    await sleep(10);
    const now = await read();
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
  for (const name of (await withFolderBelow(dataDirectory, 'pg_wal', (inside) => readdir(inside))) ?? []) {
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
  check: PageCheck | null = null,
): Promise<number | null> {
  signal.throwIfAborted();
  const file = await openFileBelow(dataDirectory, path);
  if (file === null) return null;
  try {
    let bytes = 0;
    const countBytes = async function* () {
      const content = contentOf(file, signal);
      const readPage = (position: number, length: number) => readAt(file, position, length);
      for await (const part of check?.verified(path, content, readPage) ?? content) {
        bytes += part.length;
        yield part;
      }
    };
    await add(path, countBytes(), (await file.stat()).mtime);
    return bytes;
  } finally {
    await file.close();
  }
}

const PART_BYTES = 256 * 1024;

/** Reads up to the current end of the file, which may grow faster than it is read. */
export async function* contentOf(file: FileHandle, signal: AbortSignal): AsyncGenerator<Buffer> {
  const { size } = await file.stat();
  for (let position = 0; position < size;) {
    signal.throwIfAborted();
    const part = await readAt(file, position, Math.min(PART_BYTES, size - position));
    if (part.length === 0) return;
    yield part;
    position += part.length;
  }
}

/** @returns fewer bytes at the end of the file */
async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(length), 0, length, position);
  return buffer.subarray(0, bytesRead);
}
