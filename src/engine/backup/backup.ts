/**
 * Writes a backup: what the control database knows of the projects, and of each a dump or the files of its server. The file
 * appears under its name when it is whole and on the disk.
 */
import { type FileHandle, lstat, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { randomBytes } from 'node:crypto';
import type { ProgramPlaces } from '../../backup/logical/client-programs.js';
import type { ControlDatabase } from '../../tenancy/control.js';
import type { ProjectRow } from '../../tenancy/control-rows.js';
import { EngineError } from '../../contract/errors.js';
import { contentOf } from '../../contract/wire/operator.js';
import { NeededMeanwhile } from '../../embedded/supervised-server.js';
import { withPrivateFolder } from '../../files.js';
import { OwnServers } from '../../tenancy/own-servers.js';
import type { Origin } from '../audit/audit.js';
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
import type { Installation } from './installation.js';
import { dumps, type Save } from './logical.js';
import { savePhysically } from './physical.js';
import { type Add, TarWriter } from './tar.js';

export type { Installation };

interface BackupOptions {
  /** Must not exist. */
  readonly file: string;
  /** null: all. */
  readonly project: string | null;
  readonly places: ProgramPlaces;
  /** Default: physical, if each project has a server of its own. */
  readonly form: 'physical' | 'logical' | null;
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
 * With several projects, one that cannot be saved is left out and named: it must not keep the others from being saved.
 * @returns what is in the file
 * @throws EngineError not_found; Error with what to do, and then there is no file
 */
export async function backup(installation: Installation, options: BackupOptions): Promise<Manifest> {
  const { file, project, places, signal } = options;
  const ownServers = physicalTenancy(installation, options.form);
  if (await lstat(file).catch(() => null)) throw new Error(`${file} exists already; a backup overwrites nothing`);
  const chosen = project === null ? await readyProjects(installation) : [await installation.projects.get(project)];
  const part = `${file}.${randomBytes(4).toString('hex')}.part`;
  const saver = (folder: string): Promise<Save> =>
    ownServers === null ? dumps(installation, { places, part, folder, signal }) : physicalSaver(ownServers, signal);
  const handle = await open(part, 'wx', 0o600);
  try {
    const manifest = await withPrivateFolder(async (folder) =>
      write(installation, options, { handle, chosen, save: await saver(folder) }),
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

const physicalSaver = (servers: OwnServers, signal: AbortSignal): Promise<Save> =>
  Promise.resolve((project, add) => savePhysically(servers, project, add, signal));

/** @returns null for dumps. @throws EngineError if there are no servers to save the files of */
function physicalTenancy({ tenancy }: Installation, form: BackupOptions['form']): OwnServers | null {
  if (form === 'logical') return null;
  if (tenancy instanceof OwnServers) return tenancy;
  if (form === null) return null;
  throw new EngineError(
    'invalid_request',
    'With DATABASE_URL a backup is logical: the files are those of all projects',
  );
}

interface Writing {
  readonly handle: FileHandle;
  readonly chosen: readonly ProjectRow[];
  readonly save: Save;
}

async function write(installation: Installation, options: BackupOptions, writing: Writing): Promise<Manifest> {
  const { progress, version, signal } = options;
  const { handle, chosen, save } = writing;
  const createdAt = new Date();
  const tar = new TarWriter(handle, createdAt);
  let sums = new Map<string, string>();
  const add: Add = async (name, content) => {
    const member = await tar.add(name, content);
    sums.set(name, member.sha256);
    return member;
  };

  const saved: SavedProject[] = [];
  const control: Control = { projects: [] };
  const leftOut: Manifest['left_out'] = [];
  for (const project of chosen) {
    progress(`${project.name}: is being saved`);
    const before = { position: tar.position, sums: new Map(sums) };
    try {
      const known = await controlRow(installation.control, project);
      const done = await save(project, add).catch(async (error: unknown) => {
        if (!(error instanceof NeededMeanwhile)) throw error;
        await tar.truncate(before.position);
        sums = new Map(before.sums);
        return save(project, add);
      });
      saved.push(done);
      control.projects.push(known);
      progress(`${project.name}: ${contentOf(done)}, ${done.bytes} bytes`);
    } catch (error) {
      if (chosen.length === 1 || signal.aborted || concernsAll(error, installation)) throw error;
      await tar.truncate(before.position);
      sums = before.sums;
      const reason = messageOf(error);
      leftOut.push({ name: project.name, reason });
      progress(`${project.name}: LEFT OUT, it could not be saved: ${reason}`);
    }
  }
  if (saved.length === 0 && leftOut.length > 0) throw new Error('None of the projects could be saved');

  const manifest: Manifest = {
    format: 'cdp-backup',
    format_version: FORMAT_VERSION,
    program_version: version,
    schema_version: installation.databases.schemaVersion,
    created_at: createdAt.toISOString(),
    projects: saved,
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

/** Of the disk that the backup is written to, or of the one server that all projects share. */
const concernsAll = (error: unknown, { tenancy }: Installation): boolean =>
  error instanceof Error &&
  'syscall' in error &&
  (!tenancy.own || ['write', 'fsync', 'ftruncate'].includes(String(error.syscall)));

export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message;
}

const json = (value: object): Buffer => Buffer.from(`${JSON.stringify(value, null, 2)}\n`);
