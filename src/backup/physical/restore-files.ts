/**
 * Creates a data directory from a backup. The next start of a server on it performs an archive recovery, which begins a
 * new timeline. Nobody can log in before the recovery ends, so a server that accepts connections has been restored.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Account } from '../../embedded/accounts.js';
import { giveTo } from '../../embedded/cluster.js';
import { RECOVERY_SETTINGS } from '../../embedded/server-folder.js';
import { type Content, contentOf, openPlainFile } from './data-files.js';

interface FileOfBackup {
  /** Below the data directory, with slashes. */
  readonly path: string;
  readonly content: () => Content;
}

interface Files {
  /** Below the data directory, parents first. */
  readonly folders: readonly string[];
  readonly files: readonly FileOfBackup[];
  /** Point-in-time recovery; null: only the WAL in the backup is replayed. */
  readonly recovery: Recovery | null;
  /** The account that runs the server. */
  readonly account: Account;
  readonly signal: AbortSignal;
}

export interface Recovery {
  /** The folder of archived WAL, and the names of the segments to replay. */
  readonly archive: string;
  readonly segments: readonly string[];
  /** Transactions that committed later are not replayed. */
  readonly until: Date;
}

/**
 * Writes all files and flushes them to disk.
 * @param dataDirectory must not exist, but its parent must; the caller removes it after a failure
 * @throws Error for a path outside of the directory, or a duplicate one
 */
export async function restoreFiles(
  dataDirectory: string,
  { folders, files, recovery, account, signal }: Files,
): Promise<void> {
  await mkdir(dataDirectory, { mode: 0o700 });
  for (const folder of folders) await mkdir(below(dataDirectory, folder), { mode: 0o700 });
  const write = (path: string, content: Content | string, flag = 'wx') =>
    writeFile(path, content, { mode: 0o600, flag, signal });
  for (const { path, content } of files) await write(below(dataDirectory, path), content());
  if (recovery !== null) {
    for (const name of recovery.segments) {
      const file = await openPlainFile(join(recovery.archive, name));
      // The backup may contain the same segment, but only up to its own end.
      await write(join(dataDirectory, 'pg_wal', name), contentOf(file, signal), 'w').finally(() => file.close());
    }
  }
  await write(join(dataDirectory, RECOVERY_SETTINGS), recoverySettings(recovery?.until ?? null));
  await write(join(dataDirectory, 'recovery.signal'), '');
  await giveTo(account, dataDirectory);
}

/** Checks the path, because someone may have changed the backup file. */
function below(dataDirectory: string, path: string): string {
  const isPlain = path.split('/').every((part) => part !== '' && part !== '.' && part !== '..' && !part.includes('\0'));
  if (!isPlain) throw new Error(`The backup has a file "${path}", which would not be in the data directory`);
  return join(dataDirectory, path);
}

/** Lines for postgresql.conf (manual 19.5.6). The archived WAL is of one timeline, that of the backup. */
function recoverySettings(until: Date | null): string {
  const settings = {
    hot_standby: 'off',
    recovery_target_timeline: 'current',
    // Required. It always fails, so Postgres uses the segments in pg_wal.
    restore_command: 'exit 1',
    ...(until === null ? {} : { recovery_target_time: timestamp(until), recovery_target_action: 'promote' }),
  };
  return Object.entries(settings)
    .map(([name, value]) => `${name} = '${value}'\n`)
    .join('');
}

/** When Postgres reads its settings, it does not know names of time zones yet, such as Z. */
const timestamp = (time: Date): string => time.toISOString().replace('T', ' ').replace('Z', '+00');
