/**
 * `cdp backup`: writes projects into one file, each as a dump or as the files of its server, together with their rows
 * of the control database. The file gets its name when it is complete and flushed.
 */
import { randomBytes } from 'node:crypto';
import { type FileHandle, lstat, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { EngineError } from '../contract/errors.js';
import { isReady } from '../contract/projects.js';
import { messageOf } from '../contract/operator-message.js';
import { contentOf } from '../contract/wire/operator.js';
import { withPrivateFolder } from '../files.js';
import type { ControlDatabase } from '../tenancy/control/control.js';
import { type ProjectRow, shownToken } from '../tenancy/control/control-rows.js';
import { VERSION } from '../version.js';
import type { Installation } from './installation.js';
import { findPrograms, type ProgramPlaces } from './logical/client-programs.js';
import { saveDump } from './logical/dump.js';
import {
  type Control,
  CONTROL,
  FORMAT_VERSION,
  formatSums,
  MANIFEST,
  type Manifest,
  type SavedProject,
  SUMS,
} from './manifest.js';
import { saveFiles } from './physical/physical.js';
import { directly, forEachAtOnce, type SaveInto, throughFile } from './several.js';
import { type Add, TarWriter } from './tar.js';

interface BackupOptions {
  /** Must not exist. */
  readonly file: string;
  /** null: all projects. */
  readonly project: string | null;
  readonly places: ProgramPlaces;
  /** Default: physical, if each project has its own server. */
  readonly form: 'physical' | 'logical' | null;
  /** The number of projects that are saved at once. */
  readonly jobs: number;
  /** If aborted, the backup ends and its file is removed. */
  readonly signal: AbortSignal;
  /** Receives a line for each step. */
  readonly progress: (line: string) => void;
}

/** Saves one project through `add`, which appends to `file`. */
type Save = (project: ProjectRow, add: Add, file: string, signal: AbortSignal) => Promise<SavedProject>;

/**
 * If one of several projects cannot be saved, the backup skips it and names it in the manifest.
 * @returns the manifest of the file
 * @throws EngineError not_found
 * @throws Error that says what to do; no file remains
 */
export async function backup(installation: Installation, options: BackupOptions): Promise<Manifest> {
  const { file } = options;
  if (await lstat(file).catch(() => null)) throw new Error(`${file} already exists; a backup overwrites nothing`);
  const projects = await chosenProjects(installation, options);
  const draft = `${file}.${randomBytes(4).toString('hex')}.part`;
  const handle = await open(draft, 'wx', 0o600);
  try {
    const manifest = await withPrivateFolder(async (folder) => {
      const save = await saverOf(installation, options, projects, folder);
      return write(installation, options, { handle, projects, save, draft });
    });
    await handle.close();
    await rename(draft, file);
    await flushFolder(dirname(file));
    const leftOut = new Set(manifest.left_out.map(({ name }) => name));
    for (const project of projects) if (!leftOut.has(project.name)) installation.record('project.backup', project);
    return manifest;
  } catch (error) {
    await handle.close();
    await rm(draft, { force: true });
    throw error;
  }
}

async function chosenProjects({ projects }: Installation, { project }: BackupOptions): Promise<ProjectRow[]> {
  return project === null ? (await projects.list()).filter(isReady) : [await projects.get(project)];
}

/**
 * @throws Error if Postgres's client programs are missing
 * @throws EngineError if a project's server has no files to save
 */
async function saverOf(
  installation: Installation,
  { form, places }: BackupOptions,
  projects: readonly ProjectRow[],
  folder: string,
): Promise<Save> {
  const tenancyOf = ({ placement }: ProjectRow) => installation.servers.tenancyOf(placement);
  const dumped = form === 'logical' ? projects : projects.filter((one) => tenancyOf(one).fleet === null);
  if (form === 'physical' && dumped.length > 0) {
    throw new EngineError(
      'invalid_request',
      'Projects of DATABASE_URL or of an added server share its files, so their backups are logical',
    );
  }
  const { defaultTenancy } = installation.servers;
  const isDumping = form === 'logical' || defaultTenancy.fleet === null;
  const tenancies = new Set([...(isDumping ? [defaultTenancy] : []), ...dumped.map(tenancyOf)]);
  const majors = await Promise.all(Array.from(tenancies, (tenancy) => tenancy.major()));
  const programs = majors.length === 0 ? null : await findPrograms(places, Math.max(...majors));
  return (project, add, file, signal) => {
    const { fleet } = tenancyOf(project);
    if (fleet !== null && form !== 'logical') return saveFiles(installation, fleet, project, { add, signal });
    if (programs === null) throw new Error('Postgres has no client programs');
    return saveDump(installation, project, add, { file, programs, folder, signal });
  };
}

/** A rename is durable only after an fsync of its folder. */
async function flushFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  await handle.sync().finally(() => handle.close());
}

interface Writing {
  readonly handle: FileHandle;
  readonly projects: readonly ProjectRow[];
  readonly save: Save;
  readonly draft: string;
}

async function write(installation: Installation, options: BackupOptions, writing: Writing): Promise<Manifest> {
  const { progress, signal, jobs } = options;
  const { handle, projects, save, draft } = writing;
  const createdAt = new Date();
  const tar = new TarWriter(handle, createdAt);
  const saved: SavedProject[] = [];
  const control: Control = { projects: [] };
  const leftOut: Manifest['left_out'] = [];
  await forEachAtOnce(projects, jobs, signal, async (project, signal) => {
    progress(`${project.name}: saving`);
    try {
      const known = await controlRow(installation.control, project);
      const into: SaveInto<SavedProject> = (add, file) => save(project, add, file, signal);
      const done = await (jobs === 1 ? directly(tar, draft, into) : throughFile(tar, `${draft}.${project.id}`, into));
      saved.push(done);
      control.projects.push(known);
      progress(`${project.name}: ${contentOf(done)}, ${done.bytes} bytes`);
    } catch (error) {
      if (projects.length === 1 || signal.aborted || affectsAll(error, project, installation)) throw error;
      const reason = messageOf(error);
      leftOut.push({ name: project.name, reason });
      progress(`${project.name}: SKIPPED, it could not be saved: ${reason}`);
    }
  });
  if (saved.length === 0 && leftOut.length > 0) throw new Error('None of the projects could be saved');

  const manifest: Manifest = {
    format: 'cdp-backup',
    format_version: FORMAT_VERSION,
    program_version: VERSION,
    schema_version: installation.databases.schemaVersion,
    created_at: createdAt.toISOString(),
    projects: saved,
    left_out: leftOut,
  };
  await tar.add(CONTROL, [json(control)]);
  await tar.add(MANIFEST, [json(manifest)]);
  await tar.add(SUMS, [formatSums(tar.sums)]);
  signal.throwIfAborted();
  await tar.finish();
  return manifest;
}

async function controlRow(control: ControlDatabase, project: ProjectRow): Promise<Control['projects'][number]> {
  const tokens = await control.tokens.stored(project.id);
  return {
    name: project.name,
    status: project.status === 'inactive' ? 'inactive' : 'active',
    created_at: project.createdAt.toISOString(),
    quota_bytes: project.quotaBytes,
    own_schemas: project.placement.ownSchemas,
    tokens: tokens.map((token) => ({ ...shownToken(token), sha256: token.sha256 })),
  };
}

/** Whether the disk of the backup failed, or the one server that all projects share. */
const affectsAll = (
  error: unknown,
  { placement }: ProjectRow,
  { servers: { defaultTenancy } }: Installation,
): boolean =>
  error instanceof Error &&
  'syscall' in error &&
  ((placement.added === null && defaultTenancy.fleet === null) ||
    ['write', 'fsync', 'ftruncate'].includes(String(error.syscall)));

const json = (value: object): Buffer => Buffer.from(`${JSON.stringify(value, null, 2)}\n`);
