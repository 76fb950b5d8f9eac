/** Which files of a data folder a backup has (Postgres manual 25.3.4), and reading them while the server writes them. */
import type { Dirent } from 'node:fs';
import { constants, type FileHandle, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing } from '../../files.js';
import { CONTROL_FILE, readControlBytes } from './control-file.js';

/** Takes one file of a backup. @param path below the data folder, with slashes */
export type Add = (path: string, content: AsyncIterable<Buffer> | Iterable<Buffer>) => Promise<unknown>;

/** What every copy says of itself. */
export interface Copied {
  /** All folders below the data folder, the empty ones too, each after the one it is in. */
  readonly folders: readonly string[];
  readonly bytes: number;
  /** Postgres can be started on the copy from here, and has to get to the other. */
  readonly walStart: string;
  readonly walStop: string;
  readonly timeline: number;
  readonly segmentBytes: number;
  /** 0: the pages have no checksums. */
  readonly checksumVersion: number;
  readonly catalogVersion: number;
  /** By the clock of this machine. A restore to a time needs one after the end. */
  readonly startedAt: Date;
  readonly endedAt: Date;
}

/** Folders that a start empties, and `pg_wal`, of which a backup takes what it needs. */
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

/** Of this server or an earlier backup, settings that its configuration does not allow, and temporary files and tables of sessions. The control file comes last. */
const IS_LEFT_OUT =
  /^(?:postmaster\.(?:pid|opts)|backup_label(?:\.old)?|tablespace_map(?:\.old)?|(?:recovery|standby)\.signal|recovery-settings\.conf|postgresql\.auto\.conf)$|(?:^|\/)(?:pgsql_tmp[^/]*|pg_internal\.init[^/]*|t\d+_\d+[^/]*|[^/]*\.conf\.tmp)$|^global\/pg_control$/;

/**
 * Hands over every file but those of `pg_wal`. Files may grow, shrink and vanish meanwhile: what a server did to them
 * after the start of a backup is in its log.
 * @throws Error for a link, which leads out of the folder (tablespaces); what `add` throws
 */
export async function copyFiles(dataFolder: string, add: Add, signal: AbortSignal) {
  const folders: string[] = [];
  let bytes = 0;
  const walk = async (folder: string): Promise<void> => {
    for (const entry of await entriesOf(join(dataFolder, folder))) {
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
      if (IS_LEFT_OUT.test(path)) continue;
      if (entry.isDirectory()) {
        folders.push(path);
        if (!WITHOUT_CONTENT.has(path)) await walk(path);
      } else if (entry.isFile()) {
        bytes += (await copyFile(dataFolder, path, add, signal)) ?? 0;
      } else {
        throw new Error(`${join(dataFolder, path)} is neither a file nor a folder: a backup cannot have it`);
      }
    }
  };
  await walk('');
  const control = await readControlBytes(dataFolder);
  await add(CONTROL_FILE, [control]);
  return { folders, bytes: bytes + control.length };
}

/** Sorted, so that a folder read twice gives the same. A folder that has gone is empty. */
async function entriesOf(folder: string): Promise<Dirent[]> {
  try {
    return (await readdir(folder, { withFileTypes: true })).sort((a, b) => (a.name < b.name ? -1 : 1));
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/** @returns its bytes; null where the file has gone */
export async function copyFile(
  dataFolder: string,
  path: string,
  add: Add,
  signal: AbortSignal,
): Promise<number | null> {
  signal.throwIfAborted();
  let file: FileHandle;
  try {
    // The files are another account's, who must not have us read others by a link.
    file = await open(join(dataFolder, path), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
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

const PART_BYTES = 256 * 1024;

/** To the end that it has now: a file that grows must not be followed for ever. */
async function* contentOf(file: FileHandle, signal: AbortSignal): AsyncGenerator<Buffer> {
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
