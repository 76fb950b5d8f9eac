/** Whether the write-ahead log of a server reaches its archive, by its files and, if it runs, by its own count. */
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing, namesIn } from '../../files.js';
import { type Pool, sql } from '../../pg/index.js';
import type { ServerFiles } from '../../tenancy/tenancy.js';

export interface ArchiveState {
  /** Complete segments that are not in the archive yet. */
  readonly waiting: number;
  /** When the oldest of them was complete; null: there is none. */
  readonly since: Date | null;
  /** Why the archive lacks them; null: it is up to date, or will soon be. */
  readonly failure: string | null;
}

/** Postgres retries a failed segment every minute (PGARCH_RESTART_INTERVAL and pgarch.c). */
const LATE_MS = 120_000;

/**
 * A stopped server is not started for this.
 * @param pool the service's own connections to the server
 * @returns null if its write-ahead log is not archived
 */
export async function archiveStateOf(files: ServerFiles, id: string, pool: Pool): Promise<ArchiveState | null> {
  if (!(await files.archivesWal(id))) return null;
  const { data } = await files.folderOf(id);
  const status = join(data, 'pg_wal', 'archive_status');
  const ready = (await namesIn(status)).filter((name) => name.endsWith('.ready')).sort();
  const since = ready[0] === undefined ? null : await timeOf(join(status, ready[0]));
  const waiting = since === null ? 0 : ready.length;
  return { waiting, since, failure: await failureOf(files, id, pool, since) };
}

async function failureOf(files: ServerFiles, id: string, pool: Pool, since: Date | null): Promise<string | null> {
  const folder = join(files.archives, id);
  const stats = await lstat(folder).catch((error: unknown) => {
    if (isMissing(error)) return null;
    throw error;
  });
  if (stats?.isDirectory() !== true) return `there is no folder ${folder}`;
  if (since === null) return null;
  if (files.isRunning(id) && (await hasFailed(pool))) return `Postgres cannot write to ${folder}`;
  if (Date.now() - since.getTime() < LATE_MS) return null;
  return files.isRunning(id) ? `nothing arrives in ${folder}` : 'its server ended before it was done';
}

/** Whether the last attempt failed. If the server has just stopped or does not answer, the age of the segments counts. */
async function hasFailed(pool: Pool): Promise<boolean> {
  const [failed] = await pool
    .row(sql`SELECT last_failed_time > coalesce(last_archived_time, '-infinity') FROM pg_catalog.pg_stat_archiver`)
    // A server that does not answer is judged by its files alone.
    .catch(() => []);
  return failed === 't';
}

/** @returns null if the file is gone, because the segment was archived meanwhile */
const timeOf = (path: string): Promise<Date | null> =>
  lstat(path).then(
    ({ mtime }) => mtime,
    (error: unknown) => {
      if (isMissing(error)) return null;
      throw error;
    },
  );
