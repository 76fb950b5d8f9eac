/**
 * Archived WAL for restores to a point in time. Each server that archives has a folder named by the server's id. All
 * servers are copies of one template and have the same system identifier, so Postgres would replay the WAL of any of
 * them.
 */
import { chmod, lchown, lstat, mkdir, readdir, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { DAY_MS } from '../../contract/calendar.js';
import { EngineError } from '../../contract/errors.js';
import { exists, hasCode, namesIn, openFileBelow, removeFolder, withFolderBelow } from '../../files.js';
import {
  type LoginOptions,
  type Pool,
  PostgresError,
  type Session,
  sql,
  SQLSTATE,
  startupOptions,
  withSession,
} from '../../pg/index.js';
import type { CopiedFiles, PhysicalProject } from '../manifest.js';
import { contentOf } from './data-files.js';
import { parseLsn, segmentName, segmentOf } from './wal.js';

/** The name of a segment of write-ahead log. */
export const IS_SEGMENT = /^[0-9A-F]{24}$/;

/** Creates the folder into which a server of this account archives its WAL. */
export async function prepareArchive(folder: string, { uid, gid }: { uid: number; gid: number }): Promise<void> {
  await makeFolderWithMode(join(folder, '..'), 0o711);
  await makeFolderWithMode(folder, 0o700);
  await lchown(folder, uid, gid);
  // A killed archiver leaves these files. A server that finds one with the name it needs does not archive.
  for (const name of await readdir(folder)) if (name.startsWith('archtemp.')) await rm(join(folder, name));
}

/** Sets the mode regardless of the umask: the server's account must be able to enter the parent folder. */
async function makeFolderWithMode(path: string, mode: number): Promise<void> {
  try {
    await mkdir(path);
    await chmod(path, mode);
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error;
  }
}

/**
 * `basic_archive` is one of Postgres's contrib modules (Postgres manual, basic_archive): atomic, flushed, idempotent. An
 * archive_command would start a shell for each segment.
 */
export const archiveSettings = (folder: string): Readonly<Record<string, string>> => ({
  archive_mode: 'on',
  archive_library: 'basic_archive',
  'basic_archive.archive_directory': folder,
});

/** Whether the archive of a server has the log from the beginning of a backup on. */
export const hasLogSince = (all: string, { server_id: id, ...copied }: PhysicalProject): Promise<boolean> => {
  const { wal_start: start, timeline, wal_segment_bytes: segmentBytes } = copied;
  return exists(join(all, id, segmentName(timeline, segmentOf(parseLsn(start), segmentBytes), segmentBytes)));
};

/**
 * Some distributions package the module separately.
 * @param pool of a superuser
 * @throws EngineError invalid_request: this Postgres does not have it
 */
export async function requireArchiveModule(pool: Pool): Promise<void> {
  try {
    await pool.query(sql`LOAD 'basic_archive'`);
  } catch (error) {
    if (!(error instanceof PostgresError && error.sqlstate === SQLSTATE.UNDEFINED_FILE)) throw error;
    throw new EngineError('invalid_request', 'This Postgres lacks the module basic_archive, which archives the log', {
      hint: 'Install postgresql-contrib of the same major version, and repeat.',
      cause: error,
    });
  }
}

/** Waits until everything committed so far is in the archive. */
export async function archiveAll(folder: string, login: LoginOptions, signal: AbortSignal): Promise<void> {
  const options = startupOptions({ search_path: 'pg_catalog', default_transaction_read_only: 'off' });
  const backup = { ...login, application_name: 'cdp backup', options, timeoutMs: 60_000 };
  const switchSegment = async (session: Session): Promise<string> => {
    // Recovery stops at the first commit after its target, and fails if there is none.
    await session.query(sql`SELECT pg_current_xact_id()`);
    // The LSN after a switch may be in the next segment.
    const [name] = await session.row(sql`SELECT pg_walfile_name(pg_switch_wal() - 1)`);
    return name ?? '';
  };
  const segment = await withSession(backup, switchSegment, signal);
  for (const deadline = performance.now() + 60_000; !(await exists(join(folder, segment)));) {
    if (performance.now() > deadline) throw new Error(`The server does not archive its WAL into ${folder}`);
    await sleep(50, undefined, { signal });
  }
}

/**
 * The segments from a backup to a point in time, and the later ones in the archive.
 * @param until null: as far as the archive reaches without a gap
 * @throws Error that says what is missing
 */
export async function segmentsFor(folder: string, copied: CopiedFiles, until: Date | null): Promise<string[]> {
  const { wal_start: walStart, timeline, wal_segment_bytes: segmentBytes, ended_at: endedAt } = copied;
  if (!(await exists(folder))) throw new Error(`There is no archived WAL of this server: no folder ${folder}`);
  if (until !== null && until < new Date(endedAt)) {
    const times = `The backup ended at ${endedAt}, after ${until.toISOString()}`;
    throw new Error(`${times}: restore an earlier backup to that time`);
  }
  const segments: string[] = [];
  let reached = new Date(0);
  for (let segment = segmentOf(parseLsn(walStart), segmentBytes); ; segment++) {
    const name = segmentName(timeline, segment, segmentBytes);
    // Missing: it is reported below.
    const { size = 0, mtime = reached } = (await lstat(join(folder, name)).catch(() => null)) ?? {};
    if (size !== segmentBytes) {
      if (until === null || until <= reached) return segments;
      const missing = `${folder} lacks the WAL segment ${name}, or has only a part of it`;
      if (segments.length === 0) throw new Error(`${missing}: the backup begins in it`);
      throw new Error(`${missing}: the project can be restored to ${reached.toISOString()} at most`);
    }
    segments.push(name);
    // The time when the segment was completed. Everything in it was written earlier.
    reached = mtime;
  }
}

/** Copies the archived segments of a server that the target lacks. They keep their times, see {@link segmentsFor}. */
export async function copyNewSegments(all: string, id: string, target: string, signal: AbortSignal): Promise<void> {
  const folder = join(target, id);
  const copied = new Set(await namesIn(folder));
  const archive = join(all, id);
  const names = await withFolderBelow(archive, '', (inside) => readdir(inside));
  const segments = (names ?? []).filter((name) => IS_SEGMENT.test(name));
  for (const name of segments.sort()) {
    if (copied.has(name)) continue;
    signal.throwIfAborted();
    const file = await openFileBelow(archive, name);
    // Removed since the folder was listed.
    if (file === null) continue;
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      const draft = join(folder, `${name}.part`);
      await writeFile(draft, contentOf(file, signal), { mode: 0o600, flush: true });
      const { mtime } = await file.stat();
      await utimes(draft, mtime, mtime);
      await rename(draft, join(folder, name));
    } finally {
      await file.close();
    }
  }
}

/**
 * Removes segments that are more than `days` older than the server's newest one. Of a server that no longer exists, it
 * removes those older than `days`, and the folder when it is empty.
 * @param all the folder of the archives
 * @param isServer whether a server with this id exists
 */
export async function removeOldSegments(
  all: string,
  days: number,
  isServer: (id: string) => Promise<boolean>,
): Promise<void> {
  for (const server of await namesIn(all)) {
    const folder = join(all, server);
    const times = new Map<string, number>();
    let newest = -Infinity;
    for (const name of (await namesIn(folder)).filter((name) => IS_SEGMENT.test(name))) {
      const path = join(folder, name);
      // Removed since the folder was listed.
      const stats = await lstat(path).catch(() => null);
      if (stats === null) continue;
      times.set(path, stats.mtimeMs);
      newest = Math.max(newest, stats.mtimeMs);
    }
    const isThere = await isServer(server);
    // A clock that was set forward removes nothing of a server that still archives.
    const before = (isThere ? newest : Date.now()) - days * DAY_MS;
    const old = [...times].filter(([, time]) => time < before);
    for (const [path] of old) await rm(path, { force: true });
    const remaining = times.size - old.length;
    if (remaining === 0 && !isThere) await removeFolder(folder);
  }
}
