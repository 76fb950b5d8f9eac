/**
 * `cdp restore`: makes projects from a backup. Everything that can be refused is refused before anything is changed; a project that
 * fails on the way is removed again.
 */
import { EngineError } from '../contract/errors.js';
import { PROJECT_NAME_PATTERN } from '../contract/names.js';
import { messageOf } from '../contract/operator-message.js';
import { described, type TableRows } from '../contract/wire/operator.js';
import type { OwnServers } from '../tenancy/own-servers.js';
import type { StoredToken } from '../tenancy/control-rows.js';
import { withServer } from '../tenancy/tenancy.js';
import { BackupFile } from './backup-file.js';
import { type Installation, isReady, type NewProject } from './installation.js';
import type { ClientPrograms, ProgramPlaces } from './logical/client-programs.js';
import { loadDump, programsFor } from './logical/load.js';
import {
  type Control,
  CONTROL,
  dataOf,
  dumpOf,
  listOfDump,
  type LogicalProject,
  type PhysicalProject,
  type SavedProject,
} from './manifest.js';
import { endRecovery, loadFiles, recoveryTo, serversFor } from './physical/physical.js';
import type { Recovery } from './physical/restore-files.js';

export interface RestoreOptions {
  readonly file: string;
  /** One project of the backup; null: all. */
  readonly project: string | null;
  /** Another name for the one project. */
  readonly as: string | null;
  /** The state of the projects at this time, from archived WAL; null: their state in the backup. */
  readonly at: Date | null;
  readonly places: ProgramPlaces;
  /** Aborted: the project that is being restored is removed again. */
  readonly signal: AbortSignal;
  readonly progress: (line: string) => void;
}

interface RestoredProject {
  readonly name: string;
  /** null: not counted, since the files of the server were restored. */
  readonly tables: readonly TableRows[] | null;
  /** Contents of a dump that this server does not accept, in words. */
  readonly leftOut: readonly string[];
}

interface Restored {
  readonly projects: readonly RestoredProject[];
  readonly failed: readonly { name: string; reason: string }[];
}

/** How one project is made, and the name that it gets. */
interface Loader {
  readonly name: string;
  readonly load: () => Promise<RestoredProject>;
}

/**
 * @throws Error with what to do, EngineError not_found, unique_violation, invalid_name, invalid_request: nothing was changed
 */
export async function restore(installation: Installation, options: RestoreOptions): Promise<Restored> {
  const { progress, signal } = options;
  const file = await BackupFile.open(options.file);
  const chosen = chooseProjects(file, options);
  await requireFreeNames(installation, chosen);
  await requireFreeTokens(installation, chosen);
  await requireExtensions(installation, file, chosen);
  const loaders = await loadersOf(installation, file, chosen, options);
  progress('Checking the backup');
  for (const { saved } of chosen) await verify(file, saved, signal);

  const projects: RestoredProject[] = [];
  const failed: { name: string; reason: string }[] = [];
  for (const { name, load } of loaders) {
    progress(`${name}: restoring`);
    try {
      const restored = await load();
      projects.push(restored);
      progress(`${name}: ${restored.tables === null ? 'restored' : described(restored.tables)}`);
      for (const what of restored.leftOut) progress(`${name}: skipped, ${what}`);
    } catch (error) {
      if (signal.aborted || chosen.length === 1) throw error;
      failed.push({ name, reason: messageOf(error) });
      progress(`${name}: NOT RESTORED: ${messageOf(error)}`);
    }
  }
  return { projects, failed };
}

interface Chosen {
  /** The name that it gets. */
  readonly name: string;
  readonly saved: SavedProject;
  readonly status: 'active' | 'inactive';
  readonly createdAt: Date;
  readonly quotaBytes: number | null;
  readonly tokens: readonly StoredToken[];
}

function chooseProjects({ path, manifest, control }: BackupFile, { project, as }: RestoreOptions): Chosen[] {
  if (as !== null && project === null) {
    throw new EngineError('invalid_request', '--as renames one project: give --project as well');
  }
  if (as !== null && !new RegExp(PROJECT_NAME_PATTERN).test(as)) {
    throw new EngineError('invalid_name', `"${as}" is not a valid project name`);
  }
  const found = manifest.projects.filter(({ name }) => project === null || name === project);
  if (project !== null && found.length === 0) {
    const names = manifest.projects.map(({ name }) => name).join(', ');
    throw new EngineError('not_found', `There is no project "${project}" in ${path}; it contains ${names || 'none'}`);
  }
  return found.map((saved) => {
    const known = control.projects.find(({ name }) => name === saved.name);
    if (known === undefined) throw new Error(`${path} cannot be restored. Its ${CONTROL} lacks ${saved.name}`);
    const { status, created_at: createdAt, quota_bytes: quotaBytes } = known;
    // A copy under another name has no tokens: they were made for the original.
    const tokens = as === null ? known.tokens.map(storedToken) : [];
    return { name: as ?? saved.name, saved, status, createdAt: new Date(createdAt), quotaBytes, tokens };
  });
}

const date = (text: string | null): Date | null => (text === null ? null : new Date(text));

const storedToken = (token: Control['projects'][number]['tokens'][number]): StoredToken => ({
  id: token.id,
  projectId: null,
  name: token.name,
  scopes: token.scopes,
  sha256: token.sha256,
  createdAt: new Date(token.created_at),
  expiresAt: date(token.expires_at),
  revokedAt: date(token.revoked_at),
  lastUsedAt: date(token.last_used_at),
});

async function requireFreeNames({ projects }: Installation, chosen: readonly Chosen[]): Promise<void> {
  const names = new Set((await projects.list()).filter(isReady).map(({ name }) => name));
  const taken = chosen.filter(({ name }) => names.has(name)).map(({ name }) => `"${name}"`);
  if (taken.length === 0) return;
  throw new EngineError('unique_violation', `A project of this name already exists: ${taken.join(', ')}`, {
    hint: 'Nothing was restored. Restore one project under another name: --project NAME --as NEWNAME',
  });
}

async function requireFreeTokens({ control }: Installation, chosen: readonly Chosen[]): Promise<void> {
  const taken = await control.knownTokens(chosen.flatMap(({ tokens }) => tokens));
  if (taken.length === 0) return;
  throw new EngineError('unique_violation', `Tokens of the backup belong to a project here: ${taken.join(', ')}`, {
    hint: 'Nothing was restored. A copy under another name comes without tokens: --project NAME --as NEWNAME',
  });
}

async function requireExtensions(
  { databases, tenancy }: Installation,
  { manifest }: BackupFile,
  chosen: readonly Chosen[],
): Promise<void> {
  if (manifest.schema_version > databases.schemaVersion) {
    throw new Error('The backup was made by a newer program: restore it with that one');
  }
  const here = new Set(await tenancy.extensions());
  const wanted = chosen.flatMap(({ saved }) => (saved.kind === 'logical' ? saved.extensions : []));
  const missing = new Set(wanted.filter((name) => !here.has(name)));
  if (missing.size === 0) return;
  throw new Error(
    `The projects of the backup use extensions that new projects here would not have: ${[...missing].join(', ')}. ` +
      'Add them to the setting extensions (CDP_EXTENSIONS)',
  );
}

/** How each of them is made. @throws Error if one cannot be restored here */
async function loadersOf(
  installation: Installation,
  file: BackupFile,
  chosen: readonly Chosen[],
  { at, places, signal }: RestoreOptions,
): Promise<Loader[]> {
  const { control, tenancy } = installation;
  const dumps = chosen.flatMap(({ saved }) => (saved.kind === 'logical' ? [saved] : []));
  const programs = dumps.length === 0 ? null : await programsFor(dumps, await control.serverMajor(), places);
  const loaders: Loader[] = [];
  for (const one of chosen) {
    const { name, saved } = one;
    if (saved.kind === 'physical') {
      const servers = serversFor(saved, tenancy);
      const recovery = at === null ? null : await recoveryTo(at, saved, installation, servers, signal);
      const restored = { file, servers, recovery, signal };
      loaders.push({ name, load: () => restoreFromFiles(installation, one, saved, restored) });
    } else if (at !== null) {
      const message = `The backup of "${saved.name}" is a dump, of one moment: restore it without --at`;
      throw new EngineError('invalid_request', message);
    } else if (programs !== null) {
      loaders.push({ name, load: () => restoreFromDump(installation, one, saved, { file, programs, signal }) });
    }
  }
  return loaders;
}

async function verify(file: BackupFile, saved: SavedProject, signal: AbortSignal): Promise<void> {
  const { name } = saved;
  for (const member of saved.kind === 'logical' ? [dumpOf(name), listOfDump(name)] : file.namesBelow(dataOf(name))) {
    signal.throwIfAborted();
    await file.verify(member);
  }
}

/** Makes the project in the normal way, with new names and rights, and fills it. */
async function restoreFromDump(
  { control, projects, tenancy }: Installation,
  chosen: Chosen,
  saved: LogicalProject,
  dump: { file: BackupFile; programs: ClientPrograms; signal: AbortSignal },
): Promise<RestoredProject> {
  const { name, status, tokens } = chosen;
  let restored: RestoredProject = { name, tables: null, leftOut: [] };
  await projects.restore(name, async ({ id, placement }) => {
    const loaded = await withServer(tenancy.serverOf(placement), () => loadDump(tenancy, placement, saved, dump));
    restored = { name, ...loaded };
    dump.signal.throwIfAborted();
    await control.adoptHistory(id, chosen, tokens);
    return status;
  });
  return restored;
}

/** Makes a server whose data directory comes from the backup. Its start recovers it. */
async function restoreFromFiles(
  { control, databases, projects, tenancy }: Installation,
  chosen: Chosen,
  saved: PhysicalProject,
  from: { file: BackupFile; servers: OwnServers; recovery: Recovery | null; signal: AbortSignal },
): Promise<RestoredProject> {
  const { name, status, tokens } = chosen;
  const { file, servers, recovery, signal } = from;
  const fill = async ({ id, placement }: NewProject) => {
    await withServer(servers.serverOf(placement), async () => {
      await endRecovery(await servers.fleet.folderOf(placement.server));
      await databases.upgrade(tenancy, placement);
    });
    signal.throwIfAborted();
    await control.adoptHistory(id, chosen, tokens);
    return status;
  };
  await projects.restore(name, fill, async (placement) =>
    loadFiles(saved, file, await servers.fleet.createEmpty(placement.server), recovery, signal),
  );
  return { name, tables: null, leftOut: [] };
}
