/**
 * `cdp backup --to`: keeps one current copy of the installation in a folder of plain files. A project that has not
 * changed is not touched; one that has is written anew and replaces the earlier one by rename, once it is complete and on
 * the disk. So whatever fails, each part is either the new one or the one before.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, rename, rm, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { EngineError, messageOf } from '../../contract/errors.js';
import { isReady } from '../../contract/projects.js';
import { contentOf, type FolderBackupDone } from '../../contract/wire/admin-socket.js';
import { exists, flushFileSystem, hasCode, isOnReadOnlyDisk, namesIn, withPrivateFolder } from '../../files.js';
import { sql } from '../../pg/index.js';
import { forEachAtOnce } from '../../promises.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import { ADVISORY_LOCKS, LockHeld, takeAdvisoryLock } from '../../tenancy/locks.js';
import { withServiceSession } from '../../tenancy/service-pool.js';
import type { ServerFiles } from '../../tenancy/tenancy.js';
import { VERSION } from '../../version.js';
import { json } from '../backup.js';
import type { BackupServices } from '../backup-services.js';
import type { ProgramSearch } from '../logical/client-programs.js';
import {
  CONTROL_MEMBER,
  type ControlFiles,
  folderManifest,
  type Manifest,
  MANIFEST_MEMBER,
  type SavedProject,
  SUMS_MEMBER,
} from '../manifest.js';
import { copyRunning } from '../physical/copy-running.js';
import { DamagedPages } from '../physical/page-checksums.js';
import { PLATFORM } from '../physical/physical.js';
import { isAsSaved } from '../physical/unchanged.js';
import { hasLogSince, copyNewSegments, removeOldSegments } from '../physical/wal-archive.js';
import { controlRow, type SaveProject, saverOf } from '../save-project.js';
import { formatSums } from '../sums.js';
import type { AddMember, Member } from '../tar.js';
import {
  ARCHIVE_FOLDER,
  CONTROL_DATA,
  CONTROL_PART,
  NEW_PARTS,
  nameInPart,
  OLD_PARTS,
  projectPart,
  savedProjectIn,
  savedProjects,
} from './backup-folder.js';
import { claimFolder, type Epoch, ownEpoch, readEpoch, requireClaimed, requireCurrent } from './epoch.js';
import { saveLedger } from './ledger-files.js';

export interface FolderBackupOptions {
  /** Absolute. Its parent must exist. */
  readonly folder: string;
  /** Whether the folder may be empty although the installation has saved into it before. */
  readonly isNew: boolean;
  readonly programSearch: ProgramSearch;
  /** The number of projects that are saved at once. */
  readonly jobs: number;
  /** Days for which the folder keeps archived write-ahead log. */
  readonly archiveDays: number;
  /** If aborted, the backup ends. The parts that it has replaced stay. */
  readonly signal: AbortSignal;
  /** Receives a line for each step. */
  readonly progress: (line: string) => void;
  /** Whether to save at all. @param lastStart of a backup into this folder; null: there was none */
  readonly isDue?: (lastStart: Date | null) => boolean;
  /** Runs once the folder is whole, and before another backup may change it. Its failure is one of the backup. */
  readonly afterwards?: () => Promise<void>;
}

/**
 * One backup of an installation runs at a time. Its outcome is kept in the control database.
 * @returns null if it was not due
 * @throws EngineError request_in_flight; Error that says what to do
 */
export async function backupToFolder(
  services: BackupServices,
  options: FolderBackupOptions,
): Promise<FolderBackupDone | null> {
  const { folder, isDue, afterwards } = options;
  const { backups } = services.control;
  return withBackupLock(services, async () => {
    const before = await backups.find(folder);
    if (isDue?.(before?.startedAt ?? null) === false) return null;
    const isKnown = before !== null && before.succeededAt !== null && !options.isNew;
    await backups.start(folder);
    try {
      const own = await ownEpoch(services);
      await claimFolder(folder, own, isKnown);
      const { done, savedIds } = await writeFolder(services, options, { folder, own });
      await backups.noteSaved(folder, savedIds);
      await afterwards?.();
      const { left_out: leftOut } = done;
      if (leftOut.length > 0) await backups.fail(folder, `Not saved: ${leftOut.map(({ name }) => name).join(', ')}`);
      else
        await backups.succeed(
          folder,
          done.projects.reduce((sum, { bytes }) => sum + bytes, 0),
        );
      return done;
    } catch (error) {
      const cause = error instanceof WriteFailed ? error.cause : error;
      const explained = await explain(folder, cause);
      // The first failure tells more than that of the note.
      await backups.fail(folder, messageOf(explained)).catch(() => {});
      throw explained;
    }
  });
}

async function explain(folder: string, cause: unknown): Promise<unknown> {
  if (hasCode(cause, 'ENOSPC', 'EDQUOT')) return new Error(`${folder} has no room`, { cause });
  // Node calls it ENOENT if a folder cannot be made.
  if (await isOnReadOnlyDisk(folder).catch(() => false)) return new Error(`${folder} can only be read`, { cause });
  return cause;
}

async function withBackupLock<T>({ control: { address } }: BackupServices, work: () => Promise<T>): Promise<T> {
  return withServiceSession(address, address.database, async (session) => {
    const wait = { name: 'The lock for backups into a folder', ms: 1 };
    await takeAdvisoryLock(session, sql`${ADVISORY_LOCKS.backup}`, wait).catch((cause: unknown) => {
      if (!(cause instanceof LockHeld)) throw cause;
      throw new EngineError('request_in_flight', 'Another backup into a folder is running', { cause });
    });
    return work();
  });
}

type ArchiveOptions = Pick<FolderBackupOptions, 'folder' | 'signal'>;

let lastCopy: Promise<unknown> = Promise.resolve();

/**
 * Copies the archived write-ahead log that the folder lacks, so that a restore loses little. Calls take turns: they would
 * write the same files.
 * @throws RestoredElsewhere; the system's error
 */
export function copyArchives(
  services: Pick<BackupServices, 'control' | 'servers'>,
  options: ArchiveOptions,
): Promise<void> {
  const copy = lastCopy.then(() => copyArchivesNow(services, options));
  // Its caller gets the error.
  lastCopy = copy.catch(() => {});
  return copy;
}

async function copyArchivesNow(
  services: Pick<BackupServices, 'control' | 'servers'>,
  { folder, signal }: ArchiveOptions,
): Promise<void> {
  await saveLedger(services, folder);
  const { files } = services.servers.defaultTenancy;
  // Nothing has been saved yet that a segment could continue.
  const found = files === null ? null : await readEpoch(folder);
  if (files === null || found === null) return;
  const own = await ownEpoch(services);
  requireCurrent(folder, own, found);
  if (found.installation !== own.installation) return;
  const target = join(folder, ARCHIVE_FOLDER);
  for (const id of await namesIn(files.archives)) await copyNewSegments(files.archives, id, target, signal);
}

interface Written {
  readonly done: FolderBackupDone;
  /** Of the projects that were saved, or are as they were saved. */
  readonly savedIds: readonly string[];
}

/** The folder, and whose it has to be. */
interface Target {
  readonly folder: string;
  readonly own: Epoch;
}

async function writeFolder(services: BackupServices, options: FolderBackupOptions, target: Target): Promise<Written> {
  const { folder, jobs, archiveDays, signal, progress } = options;
  const { projects, servers } = services;
  await completeLastBackup(folder);
  const rows = (await projects.list()).filter(isReady);
  await followRenames(folder, rows);
  const saved: FolderBackupDone['projects'][number][] = [];
  const savedIds: string[] = [];
  const leftOut: { name: string; reason: string }[] = [];
  await withPrivateFolder(async (temporary) => {
    const save = await saverOf(services, {
      ...options,
      form: null,
      projects: rows,
      folder: temporary,
      stopsUnused: true,
    });
    await forEachAtOnce(rows, jobs, signal, async (row, signal) => {
      const { id, name, placement } = row;
      try {
        const { files } = servers.tenancyOf(placement);
        const before = files === null ? null : await unchanged(folder, row, files);
        if (before === null) progress(`${name}: saving`);
        const project = before ?? (await savePart(services, target, row, save, signal));
        progress(`${name}: ${before === null ? `${contentOf(project)}, ${project.bytes} bytes` : 'unchanged'}`);
        saved.push({ name, bytes: project.bytes, unchanged: before !== null });
        savedIds.push(id);
      } catch (error) {
        // No other project can be written then, either.
        if (signal.aborted || error instanceof WriteFailed) throw error;
        leftOut.push({ name, reason: messageOf(error) });
        progress(`${name}: SKIPPED, it could not be saved: ${messageOf(error)}`);
      }
    });
  });
  if (saved.length === 0 && leftOut.length > 0)
    throw new Error(`None of the projects could be saved: ${leftOut[0]?.reason}`);
  await copyArchives(services, options);
  // Not while the service copies between backups: a tool may be reading the folder then.
  const { files } = servers.defaultTenancy;
  if (files !== null) await removeOldSegments(join(folder, ARCHIVE_FOLDER), archiveDays, (id) => files.has(id));
  // Some may have been renamed or deleted meanwhile.
  const current = (await projects.list()).filter(isReady);
  await followRenames(folder, current);
  const known = new Set(current.map(({ name }) => name));
  const skipped = leftOut.filter(({ name }) => known.has(name));
  // One that was created meanwhile is not in the backup.
  const inBackup = current.filter(({ id }) => rows.some((row) => row.id === id));
  await saveControl(services, options, target, inBackup, skipped);
  const removed = (await savedProjects(folder)).filter((name) => !known.has(name));
  for (const name of removed) await retire(folder, projectPart(name));
  await flushFileSystem(folder);
  for (const rest of [NEW_PARTS, OLD_PARTS]) await rm(join(folder, rest), { recursive: true, force: true });
  for (const name of removed) progress(`${name}: removed, the project no longer exists`);
  return { done: { projects: saved, left_out: skipped, removed }, savedIds };
}

/** @returns null if the project has changed since it was saved, or was not saved */
async function unchanged(folder: string, { name, placement }: ProjectRow, files: ServerFiles) {
  // A part that is damaged is written anew.
  const saved = await savedProjectIn(folder, name).catch(() => null);
  if (saved?.kind !== 'physical' || saved.server_id !== placement.server || files.isRunning(placement.server))
    return null;
  // A backup from before the log was archived, or whose segments are too old, cannot be restored to a later moment.
  if ((await files.archivesWal(placement.server)) && !(await hasLogSince(files.archives, saved))) return null;
  return (await isAsSaved((await files.folderOf(placement.server)).data, saved)) ? saved : null;
}

async function savePart(
  services: BackupServices,
  target: Target,
  row: ProjectRow,
  save: SaveProject,
  signal: AbortSignal,
): Promise<SavedProject> {
  const saved = await replacePart(target, projectPart(row.name), ({ path, add }) => {
    const read = ({ name }: Member) => createReadStream(join(path, name));
    return save(row, { add: (name, ...rest) => add(nameInPart(name), ...rest), read, signal });
  });
  services.record('project.backup', row);
  return saved;
}

/** @param projects whose rows go with it for a restore of single projects */
async function saveControl(
  services: BackupServices,
  { signal, progress }: FolderBackupOptions,
  target: Target,
  projects: readonly ProjectRow[],
  leftOut: Manifest['left_out'],
): Promise<void> {
  const { control, databaseSetup, servers } = services;
  const { files } = servers.defaultTenancy;
  const createdAt = new Date().toISOString();
  await replacePart(target, CONTROL_PART, async ({ add }) => {
    const rows = [];
    for (const project of projects) rows.push(await controlRow(services, project));
    await add(CONTROL_MEMBER, [json({ projects: rows })]);
    return folderManifest({
      program_version: VERSION,
      schema_version: databaseSetup.schemaVersion,
      created_at: createdAt,
      installation: control.instanceId,
      left_out: leftOut,
      control: files === null ? null : await copyControl(services, files, add, signal),
    });
  });
  progress(`the control database: ${files === null ? 'left out, because DATABASE_URL names it' : 'saved'}`);
}

async function copyControl(
  { control }: BackupServices,
  files: ServerFiles,
  add: AddMember,
  signal: AbortSignal,
): Promise<ControlFiles> {
  const { data: dataDirectory } = await files.controlFolder();
  const copied = await copyRunning({ dataDirectory, login: control.address, signal }, (path, ...rest) =>
    add(`${CONTROL_DATA}${path}`, ...rest),
  ).catch((error: unknown) => {
    if (!(error instanceof DamagedPages)) throw error;
    throw new Error(`The control database was not saved: ${error.message}. Keep the earlier backups`, { cause: error });
  });
  return { postgres: files.major, version: files.version, platform: PLATFORM, ...copied };
}

// Replaces parts.

/** A file of the folder could not be written. Its cause is the system's error. */
class WriteFailed extends Error {}

interface Draft {
  readonly path: string;
  readonly add: AddMember;
}

/** Writes a part, and puts it in the place of the earlier one. @param write returns its manifest */
async function replacePart<T extends object>(
  { folder, own }: Target,
  part: string,
  write: (draft: Draft) => Promise<T>,
): Promise<T> {
  const path = join(folder, NEW_PARTS, part);
  const sums = new Map<string, string>();
  const made = new Set<string>();
  const add: AddMember = async (name, content, modified) => {
    const file = join(path, name);
    if (!made.has(dirname(file))) {
      await mkdir(dirname(file), { recursive: true, mode: 0o700 }).catch(failWriting);
      made.add(dirname(file));
    }
    const { size, sha256 } = await writeHashed(file, content);
    // Tools that go by time and size skip what is the same.
    if (modified !== undefined) await utimes(file, modified, modified).catch(failWriting);
    sums.set(name, sha256);
    return { name, offset: 0, size };
  };
  try {
    const manifest = await write({ path, add });
    await add(MANIFEST_MEMBER, [json(manifest)]);
    await add(SUMS_MEMBER, [formatSums(sums)]);
    await flushFileSystem(folder);
    await requireClaimed(folder, own).catch(failWriting);
    await retire(folder, part);
    await rename(path, join(folder, part));
    return manifest;
  } catch (error) {
    // The next backup removes it otherwise.
    await rm(path, { recursive: true, force: true }).catch(() => {});
    throw error;
  }
}

/** @throws WriteFailed, with the system's error as its cause; what reading the content throws */
async function writeHashed(file: string, content: Parameters<AddMember>[1]): Promise<{ size: number; sha256: string }> {
  const hash = createHash('sha256');
  const handle = await open(file, 'wx', 0o600).catch(failWriting);
  let size = 0;
  try {
    for await (const part of content) {
      hash.update(part);
      await handle.writeFile(part).catch(failWriting);
      size += part.length;
    }
  } finally {
    await handle.close();
  }
  return { size, sha256: hash.digest('hex') };
}

const failWriting = (cause: unknown): never => {
  throw new WriteFailed(messageOf(cause), { cause });
};

/** Moves a part away, if there is one, and makes its place. */
async function retire(folder: string, part: string): Promise<void> {
  const [current, old] = [join(folder, part), join(folder, OLD_PARTS, part)];
  for (const path of [current, old]) await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  if (!(await exists(current))) return;
  await rm(old, { recursive: true, force: true });
  await rename(current, old);
}

/** Renames the parts of projects that have been renamed. */
async function followRenames(folder: string, projects: readonly ProjectRow[]): Promise<void> {
  const names = await savedProjects(folder);
  // One that has another's name now is written anew.
  const missing = projects.filter(({ name }) => !names.includes(name));
  for (const name of missing.length === 0 ? [] : names) {
    // A part that is damaged is written anew.
    const saved = await savedProjectIn(folder, name).catch(() => null);
    const row = missing.find(({ placement }) => saved?.kind === 'physical' && placement.server === saved.server_id);
    if (row !== undefined) await rename(join(folder, projectPart(name)), join(folder, projectPart(row.name)));
  }
}

/** A backup that was killed has left parts that are half written, or moved away without a new one in their place. */
async function completeLastBackup(folder: string): Promise<void> {
  const old = join(folder, OLD_PARTS);
  const parts = [...(await namesIn(join(old, 'projects'))).map(projectPart), CONTROL_PART];
  for (const part of parts) {
    const isMissing = (await exists(join(old, part))) && !(await exists(join(folder, part)));
    if (isMissing) await rename(join(old, part), join(folder, part));
  }
  for (const rest of [NEW_PARTS, OLD_PARTS]) await rm(join(folder, rest), { recursive: true, force: true });
}
