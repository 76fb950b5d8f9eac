/**
 * Restores projects from a backup: from a dump each is made in the normal way, with new names and rights, and then filled; from the
 * files of its server it gets a server that begins with these. Everything that
 * can be refused is refused before anything is made; a project that fails on the way is taken away again.
 */
import { EngineError } from '../../contract/errors.js';
import { type ClientPrograms, findPrograms, type ProgramPlaces } from '../../backup/logical/client-programs.js';
import type { Placement } from '../../tenancy/placement.js';
import type { StoredToken } from '../../tenancy/control-rows.js';
import { countRows } from '../../backup/logical/project-dump.js';
import { loadProject } from '../../backup/logical/project-load.js';
import { described, type TableRows } from '../../contract/wire/operator.js';
import { withPrivateFolder } from '../../files.js';
import { OwnServers } from '../../tenancy/own-servers.js';
import { withServer } from '../../tenancy/tenancy.js';
import type { Origin } from '../audit/audit.js';
import { isProjectName, type NewProject } from '../projects.js';
import { messageOf } from './backup.js';
import type { Installation } from './installation.js';
import {
  type Control,
  CONTROL,
  dumpOf,
  listOfDump,
  type LogicalProject,
  type Manifest,
  type PhysicalProject,
  type SavedProject,
} from './manifest.js';
import { archiveFor, endRecovery, membersOf, refuseElsewhere, restorePhysically } from './physical.js';
import { type Archive, openArchive } from './open-archive.js';
import { readMember } from './tar.js';

export interface RestoreOptions {
  readonly file: string;
  /** One project of the backup; null: all. */
  readonly project: string | null;
  /** Another name for the one project. */
  readonly as: string | null;
  /** The state of projects at this time, by the archive of their servers; null: as they are in the backup. */
  readonly at: Date | null;
  readonly places: ProgramPlaces;
  /** For the audit log. */
  readonly by: Origin;
  /** Aborted: the project that is being restored goes away again. */
  readonly signal: AbortSignal;
  readonly progress: (line: string) => void;
}

interface RestoredProject {
  readonly name: string;
  /** null: not counted, as nothing but the files of its server was restored. */
  readonly tables: readonly TableRows[] | null;
  /** What the dump holds and this server does not take, in words. */
  readonly leftOut: readonly string[];
}

export interface Restored {
  readonly projects: readonly RestoredProject[];
  readonly failed: readonly { name: string; reason: string }[];
}

/** Lines between the first version that sets `transaction_timeout` when it restores, and the first server that knows it. */
const TRANSACTION_TIMEOUT = 17;

/**
 * @throws Error with what to do, EngineError not_found, unique_violation, invalid_name, invalid_request: nothing was changed
 */
export async function restore(installation: Installation, options: RestoreOptions): Promise<Restored> {
  const { file, progress, signal } = options;
  const archive = await openArchive(file);
  const chosen = chooseProjects(archive, options);
  await refuseWhatIsThere(installation, chosen);
  await refuseMissingExtensions(installation, archive.manifest, chosen);
  const load = await loader(installation, archive, chosen, options);
  progress('Checking the backup');
  for (const { saved } of chosen) {
    for (const name of membersFor(saved, archive)) {
      await archive.verify(name);
      signal.throwIfAborted();
    }
  }

  const projects: RestoredProject[] = [];
  const failed: { name: string; reason: string }[] = [];
  for (const one of chosen) {
    progress(`${one.name}: is being restored`);
    try {
      const restored = await load(one);
      projects.push(restored);
      progress(`${one.name}: ${restored.tables === null ? 'restored' : described(restored.tables)}`);
      for (const what of restored.leftOut) progress(`${one.name}: left out, ${what}`);
    } catch (error) {
      if (signal.aborted || chosen.length === 1) throw error;
      failed.push({ name: one.name, reason: messageOf(error) });
      progress(`${one.name}: NOT RESTORED: ${messageOf(error)}`);
    }
  }
  return { projects, failed };
}

/** Those of one project. */
const membersFor = (saved: SavedProject, { names }: Archive): string[] =>
  saved.kind === 'logical' ? [dumpOf(saved.name), listOfDump(saved.name)] : membersOf(saved, names);

interface Chosen {
  /** That it gets. */
  readonly name: string;
  readonly saved: SavedProject;
  readonly status: 'active' | 'inactive';
  readonly createdAt: Date;
  readonly quotaBytes: number | null;
  readonly tokens: readonly StoredToken[];
}

function chooseProjects({ file, manifest, control }: Archive, { project, as }: RestoreOptions): Chosen[] {
  if (as !== null && project === null) {
    throw new EngineError('invalid_request', '--as names one project: give --project as well');
  }
  if (as !== null && !isProjectName(as)) throw new EngineError('invalid_name', `"${as}" is no name of a project`);
  const found = manifest.projects.filter(({ name }) => project === null || name === project);
  if (project !== null && found.length === 0) {
    const names = manifest.projects.map(({ name }) => name).join(', ');
    throw new EngineError('not_found', `There is no project "${project}" in ${file}; it holds ${names || 'none'}`);
  }
  return found.map((saved) => {
    const known = control.projects.find(({ name }) => name === saved.name);
    if (known === undefined) throw new Error(`${file} cannot be restored. Its ${CONTROL} does not know ${saved.name}`);
    const { status, created_at: createdAt, quota_bytes: quotaBytes } = known;
    // A copy under another name has no tokens: they speak for the project that they were made for.
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
  sha256: Buffer.from(token.sha256, 'hex'),
  createdAt: new Date(token.created_at),
  expiresAt: date(token.expires_at),
  revokedAt: date(token.revoked_at),
  lastUsedAt: date(token.last_used_at),
});

async function refuseWhatIsThere({ projects, control }: Installation, chosen: readonly Chosen[]): Promise<void> {
  const names = new Set((await projects.list()).filter(isReady).map(({ name }) => name));
  const there = chosen.filter(({ name }) => names.has(name)).map(({ name }) => `"${name}"`);
  if (there.length > 0) {
    throw new EngineError('unique_violation', `There is a project of this name already: ${there.join(', ')}`, {
      hint: 'Nothing was restored. Restore one project under another name: --project NAME --as NEWNAME',
    });
  }
  const tokens = await control.knownTokens(chosen.flatMap((project) => project.tokens));
  if (tokens.length === 0) return;
  throw new EngineError('unique_violation', `Tokens of the backup belong to a project here: ${tokens.join(', ')}`, {
    hint: 'Nothing was restored. A copy under another name comes without tokens: --project NAME --as NEWNAME',
  });
}

const isReady = ({ status }: { status: string }): boolean => status === 'active' || status === 'inactive';

async function refuseMissingExtensions(
  { databases, tenancy }: Installation,
  { schema_version: version }: Manifest,
  chosen: readonly Chosen[],
): Promise<void> {
  if (version > databases.schemaVersion) throw new Error('The backup was made by a newer program: use that one');
  const here = new Set(await tenancy.extensions());
  const wanted = chosen.flatMap(({ saved }) => (saved.kind === 'logical' ? saved.extensions : []));
  const missing = new Set(wanted.filter((name) => !here.has(name)));
  if (missing.size === 0) return;
  throw new Error(
    `The projects of the backup have extensions that new projects here would not have: ${[...missing].join(', ')}. ` +
      'Name them in the setting extensions (CDP_EXTENSIONS)',
  );
}

type Load = (chosen: Chosen) => Promise<RestoredProject>;

/** @throws Error where any of them cannot be restored here */
async function loader(
  installation: Installation,
  archive: Archive,
  chosen: readonly Chosen[],
  options: RestoreOptions,
): Promise<Load> {
  const dumps = chosen.flatMap(({ saved }) => (saved.kind === 'logical' ? [saved] : []));
  const { at, signal } = options;
  const { tenancy } = installation;
  const archives = new Map<string, string | null>();
  const major = tenancy instanceof OwnServers ? Number.parseInt(tenancy.version) : null;
  for (const { saved } of chosen) {
    if (saved.kind === 'logical') {
      if (at !== null)
        throw new EngineError('invalid_request', `"${saved.name}" is a dump, of one moment: restore it without --at`);
      continue;
    }
    refuseElsewhere(saved, major);
    archives.set(saved.name, await archiveFor(installation, saved, at, signal));
  }
  const programs = dumps.length === 0 ? null : await fittingPrograms(installation, dumps, options.places);
  return (one) => {
    const { saved } = one;
    if (saved.kind === 'logical' && programs !== null)
      return restoreDump(installation, archive, one, saved, programs, options);
    if (saved.kind === 'physical' && tenancy instanceof OwnServers)
      return restoreFiles(installation, archive, one, saved, tenancy, archives.get(saved.name) ?? null, options);
    throw new Error(`"${saved.name}" cannot be restored here`);
  };
}

async function fittingPrograms(
  { control }: Installation,
  dumps: readonly LogicalProject[],
  places: ProgramPlaces,
): Promise<ClientPrograms> {
  const major = await control.serverMajor();
  const newest = Math.max(...dumps.map(({ postgres }) => postgres));
  if (newest > major) {
    throw new Error(`The backup was made on Postgres ${newest}, and this is ${major}: it takes that or later`);
  }
  const most = major < TRANSACTION_TIMEOUT ? TRANSACTION_TIMEOUT - 1 : undefined;
  return findPrograms(places, Math.max(major, ...dumps.map(({ pg_dump: version }) => version)), most);
}

async function restoreFiles(
  { control, databases, projects }: Installation,
  { file, names, member }: Archive,
  chosen: Chosen,
  saved: PhysicalProject,
  tenancy: OwnServers,
  wal: string | null,
  { at, by, signal }: RestoreOptions,
): Promise<RestoredProject> {
  const { name, status, tokens } = chosen;
  const lay = async (placement: Placement): Promise<void> => {
    const home = await tenancy.createEmpty(placement);
    const read = (path: string) => readMember(file, member(path));
    await restorePhysically(saved, names, read, home, { archive: wal, until: at }, signal);
  };
  const start = async ({ id, placement }: NewProject) => {
    await withServer(tenancy.serverOf(placement), async () => {
      await endRecovery(await tenancy.homeOf(placement));
      await databases.upgrade(tenancy, placement);
    });
    signal.throwIfAborted();
    await control.adoptHistory(id, chosen, tokens);
    return status;
  };
  await projects.create(name, by, start, lay);
  return { name, tables: null, leftOut: [] };
}

async function restoreDump(
  installation: Installation,
  archive: Archive,
  chosen: Chosen,
  dumped: LogicalProject,
  programs: ClientPrograms,
  { by, signal }: RestoreOptions,
): Promise<RestoredProject> {
  const { tenancy, projects, control } = installation;
  const { name, status, tokens } = chosen;
  let result: RestoredProject | null = null;
  await projects.create(name, by, async ({ id, placement }: NewProject) => {
    const list = Buffer.concat(await readAll(archive, listOfDump(dumped.name))).toString();
    const dump = () => readMember(archive.file, archive.member(dumpOf(dumped.name)));
    const load = (folder: string) => loadProject({ tenancy, placement, programs, folder, signal }, dumped, list, dump);
    const { leftOut, tables } = await withServer(tenancy.serverOf(placement), async () => ({
      leftOut: await withPrivateFolder(load),
      tables: await countRows(tenancy, placement, signal),
    }));
    if (JSON.stringify(tables) !== JSON.stringify(dumped.tables)) {
      throw new Error('What is in the tables after the restore is not what was in them when the backup was made');
    }
    signal.throwIfAborted();
    await control.adoptHistory(id, chosen, tokens);
    result = { name, tables, leftOut };
    return status;
  });
  return result as unknown as RestoredProject;
}

async function readAll({ file, member }: Archive, name: string): Promise<Buffer[]> {
  const parts: Buffer[] = [];
  for await (const part of readMember(file, member(name))) parts.push(part as Buffer);
  return parts;
}
