/**
 * Writes a backup: what the control database knows of the projects, and a dump of each. The file appears under its name when
 * it is whole and on the disk.
 */
import { type FileHandle, lstat, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { randomBytes } from 'node:crypto';
import type { Readable } from 'node:stream';
import { described } from '../../contract/wire/operator.js';
import { withPrivateFolder } from '../../files.js';
import { type ClientPrograms, findPrograms, type ProgramPlaces } from '../../backup/logical/client-programs.js';
import type { ControlDatabase } from '../../tenancy/control.js';
import type { ProjectRow } from '../../tenancy/control-rows.js';
import { dumpProject, listOf } from '../../backup/logical/project-dump.js';
import type { ProjectDatabases } from '../../tenancy/project-databases.js';
import { type Tenancy, withServer } from '../../tenancy/tenancy.js';
import type { Audit, Origin } from '../audit/audit.js';
import type { Projects } from '../projects.js';
import {
  type Control,
  CONTROL,
  type DumpedProject,
  dumpOf,
  FORMAT_VERSION,
  formatSums,
  listOfDump,
  MANIFEST,
  type Manifest,
  SUMS,
} from './manifest.js';
import { readMember, TarWriter } from './tar.js';

/** What a backup is made of, and a restore puts back. */
export interface Installation {
  readonly control: ControlDatabase;
  readonly projects: Projects;
  readonly tenancy: Tenancy;
  readonly databases: ProjectDatabases;
  readonly audit: Audit;
}

interface BackupOptions {
  /** Must not exist. */
  readonly file: string;
  /** null: all. */
  readonly project: string | null;
  readonly places: ProgramPlaces;
  /** Of this program. */
  readonly version: string;
  /** For the audit log. */
  readonly by: Origin;
  /** Aborted: the backup ends, and nothing stays of it. */
  readonly signal: AbortSignal;
  /** Told what is going on, a line at a time. */
  readonly progress: (line: string) => void;
}

/**
 * With several projects, one that cannot be dumped is left out and named: it must not keep the others from being saved.
 * @returns what is in the file
 * @throws EngineError not_found; Error with what to do, and then there is no file
 */
export async function backup(installation: Installation, options: BackupOptions): Promise<Manifest> {
  const { file, project, places } = options;
  if (await lstat(file).catch(() => null)) throw new Error(`${file} exists already; a backup overwrites nothing`);
  const major = await installation.control.serverMajor();
  const programs = await findPrograms(places, major);
  const chosen = project === null ? await readyProjects(installation) : [await installation.projects.get(project)];
  const part = `${file}.${randomBytes(4).toString('hex')}.part`;
  const handle = await open(part, 'wx', 0o600);
  try {
    const manifest = await withPrivateFolder((folder) =>
      write(installation, options, { handle, part, folder, programs, major, chosen }),
    );
    await handle.close();
    await rename(part, file);
    await syncFolder(dirname(file));
    for (const { id, name } of chosen) {
      if (manifest.left_out.some((left) => left.name === name)) continue;
      installation.audit.record(options.by, { operation: 'project.backup', outcome: 'ok', project: { id, name } });
    }
    return manifest;
  } catch (error) {
    await handle.close();
    await rm(part, { force: true });
    throw error;
  }
}

/** Those that a crash left half made or half deleted have nothing to save. */
async function readyProjects({ projects }: Installation): Promise<ProjectRow[]> {
  return (await projects.list()).filter(({ status }) => status === 'active' || status === 'inactive');
}

/** A rename is on the disk when its folder is. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  await handle.sync().finally(() => handle.close());
}

interface Writing {
  readonly handle: FileHandle;
  readonly part: string;
  readonly folder: string;
  readonly programs: ClientPrograms;
  readonly major: number;
  readonly chosen: readonly ProjectRow[];
}

async function write(installation: Installation, options: BackupOptions, writing: Writing): Promise<Manifest> {
  const { progress, version, signal } = options;
  const { handle, programs, major, chosen } = writing;
  const createdAt = new Date();
  const tar = new TarWriter(handle, createdAt);
  const sums = new Map<string, string>();
  const add = async (name: string, content: AsyncIterable<Buffer> | Iterable<Buffer>) => {
    const member = await tar.add(name, content);
    sums.set(name, member.sha256);
    return member;
  };

  const dumped: DumpedProject[] = [];
  const control: Control = { projects: [] };
  const leftOut: Manifest['left_out'] = [];
  for (const project of chosen) {
    progress(`${project.name}: is being dumped`);
    try {
      const known = await controlRow(installation.control, project);
      const server = installation.tenancy.serverOf(project.placement);
      const done = await withServer(server, () => dump(installation, project, add, options, writing));
      dumped.push(done);
      control.projects.push(known);
      progress(`${project.name}: ${described(done.tables)}, ${done.bytes} bytes`);
    } catch (error) {
      if (chosen.length === 1 || signal.aborted || isOfTheSystem(error)) throw error;
      const reason = messageOf(error);
      leftOut.push({ name: project.name, reason });
      progress(`${project.name}: LEFT OUT, it could not be dumped: ${reason}`);
    }
  }
  if (dumped.length === 0 && leftOut.length > 0) throw new Error('None of the projects could be dumped');

  const manifest: Manifest = {
    format: 'cdp-backup',
    format_version: FORMAT_VERSION,
    program_version: version,
    schema_version: installation.databases.schemaVersion,
    created_at: createdAt.toISOString(),
    postgres: major,
    pg_dump: programs.major,
    projects: dumped,
    left_out: leftOut,
  };
  await add(CONTROL, [json(control)]);
  await add(MANIFEST, [json(manifest)]);
  await tar.add(SUMS, [formatSums(sums)]);
  signal.throwIfAborted();
  await tar.finish();
  return manifest;
}

async function controlRow(control: ControlDatabase, project: ProjectRow): Promise<Control['projects'][number]> {
  const tokens = await control.storedTokens(project.id);
  return {
    name: project.name,
    status: project.status === 'inactive' ? 'inactive' : 'active',
    created_at: project.createdAt.toISOString(),
    quota_bytes: project.quotaBytes,
    tokens: tokens.map((token) => ({
      id: token.id,
      name: token.name,
      scopes: token.scopes as Control['projects'][number]['tokens'][number]['scopes'],
      sha256: token.sha256.toString('hex'),
      created_at: token.createdAt.toISOString(),
      expires_at: token.expiresAt?.toISOString() ?? null,
      revoked_at: token.revokedAt?.toISOString() ?? null,
      last_used_at: token.lastUsedAt?.toISOString() ?? null,
    })),
  };
}

type Add = (name: string, content: AsyncIterable<Buffer> | Iterable<Buffer>) => ReturnType<TarWriter['add']>;

async function dump(
  { projects, tenancy, databases }: Installation,
  project: ProjectRow,
  add: Add,
  { signal }: BackupOptions,
  { part, folder, programs }: Writing,
): Promise<DumpedProject> {
  const { name, placement } = project;
  const { database, writer, reader } = placement;
  await projects.upgraded(project);
  // What the project did to its roles and rights must not keep it from being saved.
  await databases.restoreRights(tenancy, placement);
  const extensions = await databases.extensionsOf(tenancy, placement);
  const dumping = { tenancy, placement, programs, folder, signal };
  // null only until the dump is through.
  let member: Awaited<ReturnType<Add>> | null = null;
  const tables = await dumpProject(dumping, async (archive: Readable) => {
    member = await add(dumpOf(name), archive as AsyncIterable<Buffer>);
  });
  const { offset, size } = member as unknown as Awaited<ReturnType<Add>>;
  // Read back: a dump that pg_restore cannot list would not be one.
  const start = readMember(part, { name, offset, size });
  await add(listOfDump(name), [Buffer.from(await listOf(start, programs, signal))]);
  return { name, bytes: size, database, writer, reader, extensions, tables };
}

/** Of the disk or the network, and so not of one project. */
const isOfTheSystem = (error: unknown): boolean => error instanceof Error && 'syscall' in error;

export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message;
}

const json = (value: object): Buffer => Buffer.from(`${JSON.stringify(value, null, 2)}\n`);
