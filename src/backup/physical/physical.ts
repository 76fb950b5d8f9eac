/** Physical backup and restore of one project: the files of its server. */
import { lstat, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { EngineError } from '../../contract/errors.js';
import type { Account } from '../../embedded/accounts.js';
import { databaseLocale, giveTo } from '../../embedded/cluster.js';
import { RECOVERY_SETTINGS } from '../../embedded/server-folder.js';
import { exists, openFileBelow } from '../../files.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import type { ServerFiles, Tenancy } from '../../tenancy/tenancy.js';
import { withServer } from '../../tenancy/postgres-server.js';
import type { BackupSource } from '../backup-source.js';
import type { BackupServices, ProjectContents } from '../backup-services.js';
import { dataMember, type PhysicalProject } from '../manifest.js';
import type { Saving } from '../tar.js';
import { copyRunning, damagedPages } from './copy-running.js';
import { type Content, contentOf, belongsInBackup } from './data-files.js';
import { DamagedPages } from './page-checksums.js';
import { archiveAll, segmentsFor } from './wal-archive.js';

export const PLATFORM = `${process.platform}-${process.arch}`;

/**
 * Copies the files of a project's server. If the server is stopped, it is started for the copy.
 * @param saving.stopsUnused whether to stop the server afterward although it ran before, unless it is in use
 */
export async function saveFiles(
  { servers, onCorruption }: BackupServices,
  files: ServerFiles,
  { name, placement }: ProjectRow,
  { add, signal, stopsUnused }: Pick<Saving, 'add' | 'signal'> & { readonly stopsUnused: boolean },
): Promise<PhysicalProject> {
  const wasRunning = files.isRunning(placement.server);
  const server = servers.serverOf(placement);
  const { data: dataDirectory } = await files.folderOf(placement.server);
  const copied = await withServer(server, () =>
    copyRunning({ dataDirectory, login: server.address, signal }, (path, content, modified) =>
      add(`${dataMember(name)}${path}`, content, modified),
    ),
  ).catch((error: unknown) => {
    if (error instanceof DamagedPages) onCorruption(name, error.found);
    throw error;
  });
  if (stopsUnused || !wasRunning) await files.stopIfUnused(placement.server);
  const locale = databaseLocale(files.major);
  return {
    kind: 'physical',
    name,
    server_id: placement.server,
    postgres: files.major,
    version: files.version,
    platform: PLATFORM,
    locale_provider: locale.provider,
    locale: locale.name,
    ...copied,
  };
}

/**
 * A server whose data directory comes from the backup. It recovers when it starts.
 * @param until point in time; null: the state in the backup
 * @throws EngineError, Error if it cannot be restored here, or not to that time
 */
export async function filesOf(
  project: PhysicalProject,
  file: BackupSource,
  services: BackupServices,
  until: Date | null,
  signal: AbortSignal,
): Promise<ProjectContents> {
  const { databaseSetup, servers } = services;
  const { defaultTenancy } = servers;
  const files = filesHere(project, defaultTenancy);
  const recovery = await recoveryOf(project, { source: file, until }, services, files, signal);
  const folder = dataMember(project.name);
  const members = file
    .namesBelow(folder)
    .map((member) => ({ path: member.slice(folder.length), content: () => file.read(member) }));
  const last = recovery?.until === null ? recovery.segments.at(-1) : undefined;
  return {
    reaches: last === undefined || recovery === null ? null : (await lstat(join(recovery.archive, last))).mtime,
    make: async (placement) => {
      const { data, account } = await files.createEmpty(placement.server);
      await restoreFiles(data, { folders: project.folders, files: members, recovery, account, signal });
    },
    explain: (error) => (error instanceof EngineError ? (recoveryFailure(error.cause, until) ?? error) : error),
    fill: async (placement) => {
      // The recovery has ended, because the server accepts connections.
      await rm(join((await files.folderOf(placement.server)).data, RECOVERY_SETTINGS), { force: true });
      await databaseSetup.upgrade(defaultTenancy, placement);
      const { data: dataDirectory } = await files.folderOf(placement.server);
      const damage = await damagedPages({ dataDirectory, login: servers.serverOf(placement).address, signal });
      return { tables: null, left_out: [], damage: damage?.message ?? null };
    },
  };
}

/** @param cause of a failed start: the end of Postgres's log. @returns null if it failed for another reason */
function recoveryFailure(cause: unknown, until: Date | null): Error | null {
  if (!(cause instanceof Error) || !cause.message.startsWith('Postgres did not start')) return null;
  const [, reached] = /last completed transaction was at log time (\S+ \S+)/.exec(cause.message) ?? [];
  const [, reason] = /^.*\bFATAL: {2}(.*)$/m.exec(cause.message) ?? [];
  if (until !== null && reason === 'recovery ended before configured recovery target was reached') {
    const time = reached === undefined ? 'the end of the backup' : new Date(`${reached}Z`).toISOString();
    const message = `A segment of the archived write-ahead log is damaged: the project can be restored to ${time} at most`;
    return new Error(message, { cause });
  }
  return reason === undefined
    ? null
    : new Error(`Postgres cannot recover the files of the backup: ${reason}`, { cause });
}

/**
 * The files of servers that can run on these.
 * @throws EngineError if there are none here
 */
function filesHere({ name, platform, postgres }: PhysicalProject, { files }: Tenancy): ServerFiles {
  if (files !== null && platform === PLATFORM && postgres === files.major) return files;
  const here = files === null ? 'projects here share one server' : `this is ${PLATFORM} with Postgres ${files.major}`;
  throw new EngineError(
    'invalid_request',
    `The backup of "${name}" was made on ${platform} with Postgres ${postgres}, and ${here}`,
    { hint: 'Make a logical backup where the project is, which can be restored anywhere: cdp backup --format logical' },
  );
}

/**
 * To a point in time; without one, a backup folder to the end of its archive.
 * @throws Error that says what is missing
 */
async function recoveryOf(
  project: PhysicalProject,
  { source, until }: { source: BackupSource; until: Date | null },
  { control, servers }: BackupServices,
  files: ServerFiles,
  signal: AbortSignal,
): Promise<Recovery | null> {
  const here = join(files.archives, project.server_id);
  const saved = source.archiveOf(project.server_id);
  if (until === null)
    return saved === null ? null : { archive: saved, segments: await segmentsFor(saved, project, null), until };
  const living = await control.projects.find('server', project.server_id);
  if (
    living !== null &&
    (await files.has(living.placement.server)) &&
    (await files.archivesWal(living.placement.server))
  ) {
    const server = servers.serverOf(living.placement);
    await withServer(server, () => archiveAll(here, server.address, signal));
  }
  // The copy in the folder is older.
  const archive = saved !== null && !(await exists(here)) ? saved : here;
  return { archive, segments: await segmentsFor(archive, project, until), until };
}

// Creates a data directory from a backup. The next start of a server on it performs an archive recovery, which begins
// a new timeline. Nobody can log in before the recovery ends, so a server that accepts connections has been restored.

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
  /** Transactions that committed later are not replayed; null: all are. */
  readonly until: Date | null;
}

/**
 * Writes all files and flushes them to disk.
 * @param dataDirectory must not exist, but its parent must; the caller removes it after a failure
 * @throws Error for a path outside of the directory, a duplicate one, or one that no backup contains
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
      const file = await openFileBelow(recovery.archive, name);
      if (file === null) throw new Error(`${join(recovery.archive, name)} does not exist`);
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
  if (!belongsInBackup(path)) throw new Error(`The backup contains "${path}", which no backup of a server has`);
  return join(dataDirectory, path);
}

/**
 * Lines for postgresql.conf (Postgres manual, Recovery Target). The archived WAL is of one timeline, that of the
 * backup.
 */
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
