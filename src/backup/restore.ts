/**
 * `cdp restore`: creates projects from a backup. All checks come before the first change. If a project fails during its
 * restore, it is removed again.
 */
import { EngineError, messageOf } from '../contract/errors.js';
import { isProjectName } from '../contract/names.js';
import { FIRST_PROJECT, isReady } from '../contract/projects.js';
import type { PlacementRequest } from '../contract/servers.js';
import { tablesInWords, type RestoreDone } from '../contract/wire/admin-socket.js';
import type { FeedSettings } from '../contract/wire/changes.js';
import type { EventSettings } from '../contract/wire/events.js';
import type { Declaration } from '../contract/wire/subjects.js';
import { sql } from '../pg/index.js';
import type { ProjectRow, StoredToken } from '../tenancy/control/control-rows.js';
import type { RoleRow } from '../tenancy/control/role-rows.js';
import type { Placement } from '../tenancy/placement.js';
import { inDatabase, type Tenancy } from '../tenancy/tenancy.js';
import { withServer } from '../tenancy/postgres-server.js';
import { setArchiving } from './archiving.js';
import type { BackupSource } from './backup-source.js';
import type { ProjectContents, BackupServices, NewProject } from './backup-services.js';
import type { ProgramSearch } from './logical/client-programs.js';
import { loadDump, programsFor } from './logical/load.js';
import {
  dumpAccessMember,
  CONTROL_MEMBER,
  dataMember,
  dumpMember,
  dumpListMember,
  type SavedProject,
  type SavedRole,
  type SavedToken,
} from './manifest.js';
import { openBackup } from './open-backup.js';
import { filesOf } from './physical/physical.js';

export interface RestoreOptions {
  readonly file: string;
  /** One project of the backup; null: all. */
  readonly projectName: string | null;
  /** A new name for the one project. */
  readonly as: string | null;
  /** Skips projects that exist, instead of refusing the whole restore. */
  readonly missing: boolean;
  /** Ends when all checks are done. */
  readonly check?: boolean;
  /** Restores the state at this time, from archived WAL; null: the state in the backup. */
  readonly at: Date | null;
  /** With neither field, on the server `default`. */
  readonly placementRequest: PlacementRequest;
  readonly programSearch: ProgramSearch;
  /** If aborted, the project being restored is removed again. */
  readonly signal: AbortSignal;
  readonly progress: (line: string) => void;
}

/**
 * @throws Error that says what to do, EngineError not_found, unique_violation, invalid_name, invalid_request; nothing
 * has changed then
 */
export async function restore(services: BackupServices, options: RestoreOptions): Promise<RestoreDone> {
  const { progress, signal } = options;
  const file = await openBackup(options.file);
  const chosenProjects = chooseProjects(file, options);
  const first = options.projectName === null ? await replacedProject(services, chosenProjects, options) : null;
  const existing = await existingNames(services, first);
  const chosen = options.missing ? chosenProjects.filter(({ name }) => !existing.has(name)) : chosenProjects;
  requireFreeNames(existing, chosen);
  await requireFreeTokens(services, chosen);
  const targets = chosen.length === 0 ? [] : await services.projects.tenanciesAt(options.placementRequest);
  await requireExtensions(services, file, chosen, targets);
  const plan = await planRestore(services, file, chosen, targets, options);
  progress('Checking the backup');
  for (const { saved } of chosen) await verifyProject(file, saved, signal);

  if (options.check === true) {
    for (const { name } of chosen) progress(`${name}: can be restored`);
    return { projects: [], failed: [] };
  }

  if (first !== null && chosen.length > 0) await removeFirstProject(services, progress);
  const projects: RestoreDone['projects'][number][] = [];
  const failed: { name: string; reason: string }[] = [];
  for (const { chosen: one, contents } of plan) {
    const { name } = one;
    progress(`${name}: restoring`);
    try {
      const result = await restoreProject(services, one, contents, options);
      progress(`${name}: ${result.tables === null ? 'restored' : tablesInWords(result.tables)}${untilOf(contents)}`);
      for (const what of result.left_out) progress(`${name}: skipped, ${what}`);
      if (result.damage !== null) progress(`${name}: DAMAGED, as it was saved: ${result.damage}`);
      projects.push({ ...result, not_archived: await archiveAgain(services, one, options) });
    } catch (error) {
      if (signal.aborted || chosen.length === 1) throw error;
      failed.push({ name, reason: messageOf(error) });
      progress(`${name}: NOT RESTORED: ${messageOf(error)}`);
    }
  }
  // Otherwise the first start of the service would add a project and a token that nobody wants.
  if (projects.length > 0) await services.control.endFirstStart();
  return { projects, failed };
}

const untilOf = ({ reaches }: ProjectContents): string =>
  reaches == null ? '' : `, with its archived log until ${reaches.toISOString()}`;

interface ChosenProject {
  /** The name of the restored project. */
  readonly name: string;
  readonly saved: SavedProject;
  readonly status: 'active' | 'inactive';
  readonly createdAt: Date;
  readonly quotaBytes: number | null;
  readonly ownSchemas: boolean;
  /** How it takes events; null: it takes none. */
  readonly events: EventSettings | null;
  /** Its feed of changes, which begins anew; null: it has none. */
  readonly feed: FeedSettings | null;
  /** Whose data it has, for the ledger of erasures; and where people are in it, null: not declared. */
  readonly origin: { readonly lineage: string | null; readonly name: string; readonly server: string | null };
  readonly subjects: Declaration | null;
  /** Its own lineage from now on; null: a new one. */
  readonly lineage: string | null;
  /** Whether its write-ahead log was archived. */
  readonly archive: boolean;
  readonly roles: readonly RoleRow[];
  readonly tokens: readonly StoredToken[];
}

function chooseProjects(
  { path, manifest, control }: BackupSource,
  { projectName, as }: RestoreOptions,
): ChosenProject[] {
  if (as !== null && projectName === null) {
    throw new EngineError('invalid_request', '--as renames one project: give --project as well');
  }
  if (as !== null && !isProjectName(as)) {
    throw new EngineError('invalid_name', `"${as}" is not a valid project name`);
  }
  const projects = manifest.projects.filter(({ name }) => projectName === null || name === projectName);
  if (projectName !== null && projects.length === 0) {
    const damage = manifest.left_out.find(({ name }) => name === projectName);
    if (damage !== undefined) throw new Error(`${path} does not have the project "${projectName}": ${damage.reason}`);
    const names = manifest.projects.map(({ name }) => name).join(', ');
    throw new EngineError(
      'not_found',
      `There is no project "${projectName}" in ${path}; it contains ${names || 'none'}`,
    );
  }
  return projects.map((saved) => {
    const stored = control.projects.find(({ name }) => name === saved.name);
    if (stored === undefined) throw new Error(`${path} cannot be restored. Its ${CONTROL_MEMBER} lacks ${saved.name}`);
    const { status, created_at: createdAt, quota_bytes: quotaBytes } = stored;
    const { own_schemas: ownSchemas = true, events = null, feed = null, archive = false } = stored;
    const { lineage = null, subjects = null } = stored;
    const roles = (stored.roles ?? []).map(storedRole);
    // A copy under another name gets no tokens: they were issued for the original.
    const tokens = as === null ? stored.tokens.map(storedToken) : [];
    const name = as ?? saved.name;
    return {
      name,
      saved,
      status,
      createdAt: new Date(createdAt),
      quotaBytes,
      ownSchemas,
      events,
      feed,
      origin: { lineage, name: saved.name, server: stored.server_id ?? null },
      subjects,
      // A copy goes its own way.
      lineage: as === null ? lineage : null,
      archive,
      roles,
      tokens,
    };
  });
}

const date = (text: string | null): Date | null => (text === null ? null : new Date(text));

const storedRole = ({ name, comment, created_at: createdAt }: SavedRole): RoleRow => ({
  name,
  comment,
  createdAt: new Date(createdAt),
});

const storedToken = (token: SavedToken): StoredToken => ({
  id: token.id,
  projectId: null,
  name: token.name,
  scopes: token.scopes,
  role: token.role ?? null,
  limits: token.limits ?? null,
  sha256: token.sha256,
  createdAt: new Date(token.created_at),
  createdBy: token.created_by ?? null,
  expiresAt: date(token.expires_at),
  revokedAt: date(token.revoked_at),
  lastUsedAt: date(token.last_used_at),
});

/**
 * Finds the untouched project of the first start, which the restore replaces. It stays if only missing projects are
 * wanted and the backup contains this same project.
 */
async function replacedProject(
  services: BackupServices,
  chosen: readonly ChosenProject[],
  { missing }: RestoreOptions,
): Promise<ProjectRow | null> {
  const first = await untouchedFirstProject(services);
  if (first === null || !missing) return first;
  const tokens = chosen.filter(({ name }) => name === first.name).flatMap((one) => one.tokens);
  return (await services.control.tokens.existing(tokens)).length > 0 ? null : first;
}

/** @param except a project that the restore removes first */
const existingNames = async (
  { projects }: BackupServices,
  except: Pick<ProjectRow, 'id'> | null,
): Promise<ReadonlySet<string>> => {
  const existing = (await projects.list()).filter((project) => isReady(project) && project.id !== except?.id);
  return new Set(existing.map(({ name }) => name));
};

/**
 * Checks again, because the project may have been used while the backup was verified.
 * @throws EngineError unique_violation
 */
async function removeFirstProject(services: BackupServices, progress: RestoreOptions['progress']): Promise<void> {
  const first = await untouchedFirstProject(services);
  if (first === null) {
    throw new EngineError('unique_violation', `The project "${FIRST_PROJECT.name}" has just been used`, {
      hint: 'Nothing was restored. Repeat the command.',
    });
  }
  await services.projects.delete(first.name);
  progress(`${first.name}: removed; the first start of the service had created it, and nobody had used it`);
}

function requireFreeNames(existing: ReadonlySet<string>, chosen: readonly ChosenProject[]): void {
  const namesInUse = chosen.filter(({ name }) => existing.has(name)).map(({ name }) => `"${name}"`);
  if (namesInUse.length === 0) return;
  throw new EngineError('unique_violation', `A project of this name already exists: ${namesInUse.join(', ')}`, {
    hint: 'Nothing was restored. Restore the others: --missing; or one under another name: --project NAME --as NEWNAME',
  });
}

async function requireFreeTokens({ control }: BackupServices, chosen: readonly ChosenProject[]): Promise<void> {
  const existingTokens = await control.tokens.existing(chosen.flatMap(({ tokens }) => tokens));
  if (existingTokens.length === 0) return;
  throw new EngineError(
    'unique_violation',
    `Tokens of the backup belong to a project here: ${existingTokens.join(', ')}`,
    {
      hint: 'Nothing was restored. A copy under another name comes without tokens: --project NAME --as NEWNAME',
    },
  );
}

async function requireExtensions(
  { databaseSetup }: BackupServices,
  { manifest }: BackupSource,
  chosen: readonly ChosenProject[],
  targets: readonly Tenancy[],
): Promise<void> {
  if (manifest.schema_version > databaseSetup.schemaVersion) {
    throw new Error('The backup was made by a newer program: restore it with that one');
  }
  const extensions = chosen.flatMap(({ saved }) => (saved.kind === 'logical' ? saved.extensions : []));
  const missing = new Set<string>();
  for (const target of targets) {
    const here = new Set(await target.extensions());
    for (const name of extensions) if (!here.has(name)) missing.add(name);
  }
  if (missing.size === 0) return;
  throw new Error(
    `The projects of the backup use extensions that new projects here would not have: ${[...missing].join(', ')}. ` +
      'Add them to the setting extensions (CDP_EXTENSIONS)',
  );
}

interface PlannedProject {
  readonly chosen: ChosenProject;
  readonly contents: ProjectContents;
}

/** @throws Error if a chosen project cannot be restored here */
async function planRestore(
  services: BackupServices,
  file: BackupSource,
  chosen: readonly ChosenProject[],
  targets: readonly Tenancy[],
  { at, programSearch, signal }: RestoreOptions,
): Promise<PlannedProject[]> {
  const { servers } = services;
  const dumps = chosen.flatMap(({ saved }) => (saved.kind === 'logical' ? [saved] : []));
  const [dump] = dumps;
  if (dump !== undefined && at !== null) {
    const message = `The backup of "${dump.name}" is a dump, of one moment: restore it without --at`;
    throw new EngineError('invalid_request', message);
  }
  const programs = dump && (await programsFor(dumps, await majorsOf(targets), programSearch));
  const plan: PlannedProject[] = [];
  for (const one of chosen) {
    const { saved } = one;
    if (saved.kind === 'physical') {
      requireDefaultTenancy(saved.name, targets, servers.defaultTenancy);
      plan.push({ chosen: one, contents: await filesOf(saved, file, services, at, signal) });
    } else if (programs) {
      const fill: ProjectContents['fill'] = async (placement) => {
        const tenancy = servers.tenancyOf(placement);
        const createRoles = (names: readonly string[]) => services.databaseSetup.createRoles(tenancy, placement, names);
        const loaded = await loadDump({ tenancy, placement, dumped: saved, file, programs, createRoles, signal });
        // A new place may let the project create schemas, as its own ones needed.
        if (placement.ownSchemas && !one.ownSchemas) {
          await services.databaseSetup.applyOwnSchemas(tenancy, { ...placement, ownSchemas: false });
        }
        return { ...loaded, damage: null };
      };
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

/** @throws BadBackup */
export async function verifyProject(file: BackupSource, saved: SavedProject, signal: AbortSignal): Promise<void> {
  const { name } = saved;
  const ofDump = [
    dumpMember(name),
    dumpListMember(name),
    ...[dumpAccessMember(name)].filter((member) => file.has(member)),
  ];
  for (const member of saved.kind === 'logical' ? ofDump : file.namesBelow(dataMember(name))) {
    signal.throwIfAborted();
    await file.verify(member);
  }
}

/**
 * Archives the write-ahead log of a restored project as that of the original was. A copy under another name is only
 * said not to be archived.
 * @returns why it is not archived; null: it is, or it need not be
 */
export async function archiveAgain(
  services: BackupServices,
  { name, archive }: Pick<ChosenProject, 'name' | 'archive'>,
  { as, progress }: RestoreOptions,
): Promise<string | null> {
  if (!archive) return null;
  const say = (what: string): null => {
    progress(`${name}: ${what}`);
    return null;
  };
  if (as !== null) {
    const command = `cdp project archive ${name} on`;
    return say(`NOT ARCHIVED, unlike the original: ${command} archives the write-ahead log of this copy, too`);
  }
  try {
    await setArchiving(services, name, true);
    return say(
      'its write-ahead log is archived again. Make a backup: only a new one can be restored to a later moment',
    );
  } catch (error) {
    const reason = messageOf(error);
    say(`NOT ARCHIVED, as it was before: ${reason}`);
    return reason;
  }
}

/**
 * Starts the server of a project, fills it, and makes the roles.
 * @param roles that the project has made, of which files of an earlier moment lack some
 */
export async function fillProject(
  { databaseSetup, servers }: BackupServices,
  placement: Placement,
  { fill, explain = (error) => error }: ProjectContents,
  roles: readonly Pick<RoleRow, 'name'>[],
  signal: AbortSignal,
): Promise<Awaited<ReturnType<typeof fill>>> {
  const filled = await withServer(servers.serverOf(placement), () => fill(placement)).catch((error: unknown) => {
    throw explain(error);
  });
  signal.throwIfAborted();
  const names = roles.map(({ name }) => name);
  await databaseSetup.createRoles(servers.tenancyOf(placement), placement, names);
  return filled;
}

async function restoreProject(
  services: BackupServices,
  chosen: ChosenProject,
  contents: ProjectContents,
  { placementRequest, signal, progress }: RestoreOptions,
): Promise<Omit<RestoreDone['projects'][number], 'not_archived'>> {
  const { name, status, tokens, roles } = chosen;
  let filled: Awaited<ReturnType<typeof fillProject>> = { tables: null, left_out: [], damage: null };
  const restoreInto = async ({ id, placement }: NewProject) => {
    filled = await fillProject(services, placement, contents, roles, signal);
    for (const line of await services.erasures.eraseAgain(placement, chosen.origin, chosen.subjects))
      progress(`${name}: ${line}`);
    signal.throwIfAborted();
    const { files } = services.servers.tenancyOf(placement);
    await services.control.projects.adoptHistory(id, { ...chosen, feed: files === null ? null : chosen.feed }, tokens);
    await services.control.subjects.adopt(id, chosen.lineage, chosen.subjects);
    // The next start decodes changes, and begins a new log before the first request.
    if (chosen.feed !== null) await files?.stop(placement.server);
    return status;
  };
  await services.projects.restore(name, placementRequest, restoreInto, contents.make);
  return { name, ...filled };
}

// Finds the project that the first start of a service created, if nobody has used it. A restore of all projects
// replaces it.

/** Whether the project has relations, in `data` or its own schemas, not counting those of extensions. */
const HAS_RELATIONS = sql`SELECT EXISTS (SELECT FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname NOT IN ('_cdp', 'information_schema') AND n.nspname !~ '^pg_' AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_depend d
    WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = c.oid AND d.deptype = 'e'))`;

/** @returns null if there is none, or if it has another token, a token that was used, or a relation */
async function untouchedFirstProject({ control, projects, servers }: BackupServices): Promise<ProjectRow | null> {
  const project = (await projects.list()).find(({ name }) => name === FIRST_PROJECT.name);
  if (project === undefined || !isReady(project)) return null;
  const [token, ...others] = await control.tokens.list(project.id);
  const isTokenUnused = token?.name === FIRST_PROJECT.token && token.lastUsedAt === null;
  if (!isTokenUnused || others.length > 0) return null;
  const { placement } = project;
  const [hasRelations] = await inDatabase(servers.tenancyOf(placement), placement, (session) =>
    session.row(HAS_RELATIONS),
  );
  return hasRelations === 'f' ? project : null;
}
