/**
 * `cdp restore`: creates projects from a backup. All checks come before the first change. If a project fails during its
 * restore, it is removed again.
 */
import { EngineError } from '../contract/errors.js';
import { isProjectName } from '../contract/names.js';
import { FIRST_PROJECT, isReady } from '../contract/projects.js';
import { messageOf } from '../contract/operator-message.js';
import type { PlacementRequest } from '../contract/servers.js';
import { described, type RestoreDone } from '../contract/wire/operator.js';
import type { ProjectRow, StoredToken } from '../tenancy/control/control-rows.js';
import { type Tenancy, withServer } from '../tenancy/tenancy.js';
import { BackupFile } from './backup-file.js';
import { untouchedFirstProject } from './first-project.js';
import type { Contents, Installation, NewProject } from './installation.js';
import type { ProgramPlaces } from './logical/client-programs.js';
import { loadDump, programsFor } from './logical/load.js';
import { CONTROL, dataOf, dumpOf, listOfDump, type SavedProject, type SavedToken } from './manifest.js';
import { filesOf } from './physical/physical.js';

export interface RestoreOptions {
  readonly file: string;
  /** One project of the backup; null: all. */
  readonly project: string | null;
  /** A new name for the one project. */
  readonly as: string | null;
  /** Skips projects that exist, instead of refusing the whole restore. */
  readonly missing: boolean;
  /** Restores the state at this time, from archived WAL; null: the state in the backup. */
  readonly at: Date | null;
  /** With neither field, on the server `default`. */
  readonly place: PlacementRequest;
  readonly places: ProgramPlaces;
  /** If aborted, the project being restored is removed again. */
  readonly signal: AbortSignal;
  readonly progress: (line: string) => void;
}

/**
 * @throws Error that says what to do, EngineError not_found, unique_violation, invalid_name, invalid_request; nothing
 * has changed then
 */
export async function restore(installation: Installation, options: RestoreOptions): Promise<RestoreDone> {
  const { progress, signal } = options;
  const file = await BackupFile.open(options.file);
  const wanted = chooseProjects(file, options);
  const first = options.project === null ? await replacedProject(installation, wanted, options) : null;
  const existing = await existingNames(installation, first);
  const chosen = options.missing ? wanted.filter(({ name }) => !existing.has(name)) : wanted;
  requireFreeNames(existing, chosen);
  await requireFreeTokens(installation, chosen);
  const targets = chosen.length === 0 ? [] : await installation.projects.tenanciesAt(options.place);
  await requireExtensions(installation, file, chosen, targets);
  const plan = await planRestore(installation, file, chosen, targets, options);
  progress('Checking the backup');
  for (const { saved } of chosen) await verify(file, saved, signal);

  if (first !== null && chosen.length > 0) await removeFirstProject(installation, progress);
  const projects: RestoreDone['projects'][number][] = [];
  const failed: { name: string; reason: string }[] = [];
  for (const { chosen: one, contents } of plan) {
    const { name } = one;
    progress(`${name}: restoring`);
    try {
      const restored = await restoreProject(installation, one, contents, options);
      projects.push(restored);
      progress(`${name}: ${restored.tables === null ? 'restored' : described(restored.tables)}`);
      for (const what of restored.left_out) progress(`${name}: skipped, ${what}`);
    } catch (error) {
      if (signal.aborted || chosen.length === 1) throw error;
      failed.push({ name, reason: messageOf(error) });
      progress(`${name}: NOT RESTORED: ${messageOf(error)}`);
    }
  }
  // Otherwise the first start of the service would add a project and a token that nobody wants.
  if (projects.length > 0) await installation.control.endFirstStart();
  return { projects, failed };
}

interface Chosen {
  /** The name of the restored project. */
  readonly name: string;
  readonly saved: SavedProject;
  readonly status: 'active' | 'inactive';
  readonly createdAt: Date;
  readonly quotaBytes: number | null;
  readonly ownSchemas: boolean;
  readonly tokens: readonly StoredToken[];
}

function chooseProjects({ path, manifest, control }: BackupFile, { project, as }: RestoreOptions): Chosen[] {
  if (as !== null && project === null) {
    throw new EngineError('invalid_request', '--as renames one project: give --project as well');
  }
  if (as !== null && !isProjectName(as)) {
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
    const { status, created_at: createdAt, quota_bytes: quotaBytes, own_schemas: ownSchemas = true } = known;
    // A copy under another name gets no tokens: they were issued for the original.
    const tokens = as === null ? known.tokens.map(storedToken) : [];
    return { name: as ?? saved.name, saved, status, createdAt: new Date(createdAt), quotaBytes, ownSchemas, tokens };
  });
}

const date = (text: string | null): Date | null => (text === null ? null : new Date(text));

const storedToken = (token: SavedToken): StoredToken => ({
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

/**
 * Finds the untouched project of the first start, which the restore replaces. It stays if only missing projects are
 * wanted and the backup contains this same project.
 */
async function replacedProject(
  installation: Installation,
  wanted: readonly Chosen[],
  { missing }: RestoreOptions,
): Promise<ProjectRow | null> {
  const first = await untouchedFirstProject(installation);
  if (first === null || !missing) return first;
  const tokens = wanted.filter(({ name }) => name === first.name).flatMap((one) => one.tokens);
  return (await installation.control.tokens.known(tokens)).length > 0 ? null : first;
}

/** @param except a project that the restore removes first */
const existingNames = async (
  { projects }: Installation,
  except: Pick<ProjectRow, 'id'> | null,
): Promise<ReadonlySet<string>> => {
  const existing = (await projects.list()).filter((project) => isReady(project) && project.id !== except?.id);
  return new Set(existing.map(({ name }) => name));
};

/**
 * Checks again, because the project may have been used while the backup was verified.
 * @throws EngineError unique_violation
 */
async function removeFirstProject(installation: Installation, progress: RestoreOptions['progress']): Promise<void> {
  const first = await untouchedFirstProject(installation);
  if (first === null) {
    throw new EngineError('unique_violation', `The project "${FIRST_PROJECT.name}" has just been used`, {
      hint: 'Nothing was restored. Repeat the command.',
    });
  }
  await installation.projects.delete(first.name);
  progress(`${first.name}: removed; the first start of the service had created it, and nobody had used it`);
}

function requireFreeNames(existing: ReadonlySet<string>, chosen: readonly Chosen[]): void {
  const taken = chosen.filter(({ name }) => existing.has(name)).map(({ name }) => `"${name}"`);
  if (taken.length === 0) return;
  throw new EngineError('unique_violation', `A project of this name already exists: ${taken.join(', ')}`, {
    hint: 'Nothing was restored. Restore the others: --missing; or one under another name: --project NAME --as NEWNAME',
  });
}

async function requireFreeTokens({ control }: Installation, chosen: readonly Chosen[]): Promise<void> {
  const taken = await control.tokens.known(chosen.flatMap(({ tokens }) => tokens));
  if (taken.length === 0) return;
  throw new EngineError('unique_violation', `Tokens of the backup belong to a project here: ${taken.join(', ')}`, {
    hint: 'Nothing was restored. A copy under another name comes without tokens: --project NAME --as NEWNAME',
  });
}

async function requireExtensions(
  { databases }: Installation,
  { manifest }: BackupFile,
  chosen: readonly Chosen[],
  targets: readonly Tenancy[],
): Promise<void> {
  if (manifest.schema_version > databases.schemaVersion) {
    throw new Error('The backup was made by a newer program: restore it with that one');
  }
  const wanted = chosen.flatMap(({ saved }) => (saved.kind === 'logical' ? saved.extensions : []));
  const missing = new Set<string>();
  for (const target of targets) {
    const here = new Set(await target.extensions());
    for (const name of wanted) if (!here.has(name)) missing.add(name);
  }
  if (missing.size === 0) return;
  throw new Error(
    `The projects of the backup use extensions that new projects here would not have: ${[...missing].join(', ')}. ` +
      'Add them to the setting extensions (CDP_EXTENSIONS)',
  );
}

interface PlannedProject {
  readonly chosen: Chosen;
  readonly contents: Contents;
}

/** @throws Error if a chosen project cannot be restored here */
async function planRestore(
  installation: Installation,
  file: BackupFile,
  chosen: readonly Chosen[],
  targets: readonly Tenancy[],
  { at, places, signal }: RestoreOptions,
): Promise<PlannedProject[]> {
  const { servers } = installation;
  const dumps = chosen.flatMap(({ saved }) => (saved.kind === 'logical' ? [saved] : []));
  const [dump] = dumps;
  if (dump !== undefined && at !== null) {
    const message = `The backup of "${dump.name}" is a dump, of one moment: restore it without --at`;
    throw new EngineError('invalid_request', message);
  }
  const programs = dump && (await programsFor(dumps, await majorsOf(targets), places));
  const plan: PlannedProject[] = [];
  for (const one of chosen) {
    const { saved } = one;
    if (saved.kind === 'physical') {
      requireDefaultTenancy(saved.name, targets, servers.defaultTenancy);
      plan.push({ chosen: one, contents: await filesOf(saved, file, installation, at, signal) });
    } else if (programs) {
      const fill: Contents['fill'] = (placement) =>
        loadDump({ tenancy: servers.tenancyOf(placement), placement, dumped: saved, file, programs, signal });
      plan.push({ chosen: one, contents: { fill } });
    }
  }
  return plan;
}

const majorsOf = (targets: readonly Tenancy[]): Promise<number[]> =>
  Promise.all(targets.map((target) => target.major()));

/** @throws EngineError invalid_request */
function requireDefaultTenancy(name: string, targets: readonly Tenancy[], defaultTenancy: Tenancy): void {
  if (targets.every((target) => target === defaultTenancy)) return;
  throw new EngineError('invalid_request', `The backup of "${name}" has the files of an embedded server`, {
    hint: 'Nothing was restored. Only the server "default" takes such files: restore it there, and move it with cdp project move.',
  });
}

async function verify(file: BackupFile, saved: SavedProject, signal: AbortSignal): Promise<void> {
  const { name } = saved;
  for (const member of saved.kind === 'logical' ? [dumpOf(name), listOfDump(name)] : file.namesBelow(dataOf(name))) {
    signal.throwIfAborted();
    await file.verify(member);
  }
}

async function restoreProject(
  { control, projects, servers }: Installation,
  chosen: Chosen,
  { fill, make }: Contents,
  { place, signal }: RestoreOptions,
): Promise<RestoreDone['projects'][number]> {
  const { name, status, tokens } = chosen;
  let filled: Awaited<ReturnType<typeof fill>> = { tables: null, left_out: [] };
  const restored = async ({ id, placement }: NewProject) => {
    filled = await withServer(servers.serverOf(placement), () => fill(placement));
    signal.throwIfAborted();
    await control.projects.adoptHistory(id, chosen, tokens);
    return status;
  };
  await projects.restore(name, place, restored, make);
  return { name, ...filled };
}
