/**
 * `cdp backup`: writes projects into one file, each as a dump or as the files of its server, together with their rows
 * of the control database. The file gets its name when it is complete and flushed.
 */
import { randomBytes } from 'node:crypto';
import { type FileHandle, lstat, open, rename, rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { messageOf } from '../contract/errors.js';
import { isReady } from '../contract/projects.js';
import { contentOf } from '../contract/wire/admin-socket.js';
import { isAlive } from '../embedded/proc.js';
import { namesIn, withPrivateFolder } from '../files.js';
import { forEachAtOnce } from '../promises.js';
import type { ProjectRow } from '../tenancy/control/control-rows.js';
import { VERSION } from '../version.js';
import type { BackupServices } from './backup-services.js';
import type { ProgramSearch } from './logical/client-programs.js';
import {
  type Control,
  CONTROL_MEMBER,
  FORMAT_VERSION,
  MANIFEST_MEMBER,
  type Manifest,
  type SavedProject,
  SUMS_MEMBER,
} from './manifest.js';
import { DamagedPages } from './physical/page-checksums.js';
import { controlRow, type SaveProject, saverOf } from './save-project.js';
import { formatSums } from './sums.js';
import { type AddMember, readMember, TarWriter } from './tar.js';

interface BackupOptions {
  /** Must not exist. */
  readonly file: string;
  /** null: all projects. */
  readonly projectName: string | null;
  readonly programSearch: ProgramSearch;
  /** Default: physical, if each project has its own server. */
  readonly form: 'physical' | 'logical' | null;
  /** The number of projects that are saved at once. */
  readonly jobs: number;
  /** If aborted, the backup ends and its file is removed. */
  readonly signal: AbortSignal;
  /** Receives a line for each step. */
  readonly progress: (line: string) => void;
}

/**
 * If one of several projects cannot be saved, the backup skips it and names it in the manifest.
 * @returns the manifest of the file
 * @throws EngineError not_found
 * @throws Error that says what to do; no file remains
 */
export async function backup(services: BackupServices, options: BackupOptions): Promise<Manifest> {
  const { file } = options;
  // Missing, or not readable: creating it says so.
  if (await lstat(file).catch(() => null)) throw new Error(`${file} already exists; a backup overwrites nothing`);
  const projects = await chosenProjects(services, options);
  await removeLeftovers(file);
  const draft = `${file}.${DRAFT_OWNER}${process.pid}-${randomBytes(4).toString('hex')}.part`;
  drafts.add(basename(draft));
  const handle = await open(draft, 'wx', 0o600);
  try {
    const manifest = await withPrivateFolder(async (folder) => {
      const save = await saverOf(services, { ...options, projects, folder });
      return writeBackup(services, options, { handle, projects, save, draft });
    });
    await handle.close();
    await rename(draft, file);
    await flushFolder(dirname(file));
    const leftOut = new Set(manifest.left_out.map(({ name }) => name));
    for (const project of projects) if (!leftOut.has(project.name)) services.record('project.backup', project);
    return manifest;
  } catch (error) {
    await handle.close();
    await rm(draft, { force: true });
    throw error;
  } finally {
    drafts.delete(basename(draft));
  }
}

/** The names of drafts that this process is writing. */
const drafts = new Set<string>();

/** A process id says whether a draft is a leftover only on the machine, or in the container, that wrote it. */
const DRAFT_OWNER = `${hostname()}-`;

/** Removes what killed backups to the same file have left. */
async function removeLeftovers(file: string): Promise<void> {
  const prefix = `${basename(file)}.${DRAFT_OWNER}`;
  for (const name of await namesIn(dirname(file))) {
    if (!name.startsWith(prefix) || [...drafts].some((draft) => name.startsWith(draft))) continue;
    const [, pid] = /^(\d+)-[0-9a-f]{8}\.part/.exec(name.slice(prefix.length)) ?? [];
    const isWritten = Number(pid) !== process.pid && isAlive(Number(pid));
    if (pid !== undefined && !isWritten) await rm(join(dirname(file), name), { force: true });
  }
}

async function chosenProjects({ projects }: BackupServices, { projectName }: BackupOptions): Promise<ProjectRow[]> {
  return projectName === null ? (await projects.list()).filter(isReady) : [await projects.get(projectName)];
}

/** A rename is durable only after an fsync of its folder. */
async function flushFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  await handle.sync().finally(() => handle.close());
}

interface Writing {
  readonly handle: FileHandle;
  readonly projects: readonly ProjectRow[];
  readonly save: SaveProject;
  readonly draft: string;
}

async function writeBackup(services: BackupServices, options: BackupOptions, writing: Writing): Promise<Manifest> {
  const { progress, signal, jobs } = options;
  const { handle, projects, save, draft } = writing;
  const createdAt = new Date();
  const tar = new TarWriter(handle, createdAt);
  const savedProjects: SavedProject[] = [];
  const control: Control = { projects: [] };
  const leftOut: Manifest['left_out'] = [];
  await forEachAtOnce(projects, jobs, signal, async (project, signal) => {
    progress(`${project.name}: saving`);
    try {
      const storedProject = await controlRow(services, project);
      const into: SaveInto<SavedProject> = (add, file) =>
        save(project, { add, read: (member) => readMember(file, member), signal });
      const result = await (jobs === 1
        ? saveIntoTar(tar, draft, into)
        : saveThroughFile(tar, `${draft}.${project.id}`, into));
      savedProjects.push(result);
      control.projects.push(storedProject);
      progress(`${project.name}: ${contentOf(result)}, ${result.bytes} bytes`);
    } catch (error) {
      if (projects.length === 1 && error instanceof DamagedPages)
        throw new Error(`The project "${project.name}" was not saved: ${error.message}. ${KEEP}`, { cause: error });
      if (projects.length === 1 || signal.aborted || affectsAll(error, project, services)) throw error;
      const reason = messageOf(error);
      leftOut.push({ name: project.name, reason });
      progress(`${project.name}: SKIPPED, it could not be saved: ${reason}`);
    }
  });
  if (savedProjects.length === 0 && leftOut.length > 0) throw new Error('None of the projects could be saved');

  const manifest: Manifest = {
    format: 'cdp-backup',
    format_version: FORMAT_VERSION,
    program_version: VERSION,
    schema_version: services.databaseSetup.schemaVersion,
    created_at: createdAt.toISOString(),
    projects: savedProjects,
    left_out: leftOut,
  };
  await tar.add(CONTROL_MEMBER, [json(control)]);
  await tar.add(MANIFEST_MEMBER, [json(manifest)]);
  await tar.add(SUMS_MEMBER, [formatSums(tar.sums)]);
  signal.throwIfAborted();
  await tar.finish();
  return manifest;
}

const KEEP = 'Keep the earlier backups, and see "Damaged data" in docs/backup.md';

/** Whether the disk of the backup failed, or the one server that all projects share. */
const affectsAll = (
  error: unknown,
  { placement }: ProjectRow,
  { servers: { defaultTenancy } }: BackupServices,
): boolean =>
  error instanceof Error &&
  'syscall' in error &&
  ((placement.added === null && defaultTenancy.files === null) ||
    ['write', 'fsync', 'ftruncate'].includes(String(error.syscall)));

export const json = (value: object): Buffer => Buffer.from(`${JSON.stringify(value, null, 2)}\n`);

// Writes several projects at once into one tar file. Each goes into a temporary file first, because the members of a
// tar file are consecutive.

/** Saves one project through `add`, which appends to `file`. */
export type SaveInto<T> = (add: AddMember, file: string) => Promise<T>;

/** @param file to which `tar` writes */
export const saveIntoTar = <T>(tar: TarWriter, file: string, save: SaveInto<T>): Promise<T> =>
  tar.group(() => save(tar.add, file));

/** @param file a temporary file, which this creates and removes */
export async function saveThroughFile<T>(tar: TarWriter, file: string, save: SaveInto<T>): Promise<T> {
  const handle = await open(file, 'wx', 0o600);
  try {
    const own = new TarWriter(handle, new Date());
    const saved = await save(own.add, file);
    await tar.group(async () => {
      for (const member of own.contents) await tar.add(member.name, readMember(file, member) as AsyncIterable<Buffer>);
    });
    return saved;
  } finally {
    await handle.close();
    await rm(file, { force: true });
  }
}
