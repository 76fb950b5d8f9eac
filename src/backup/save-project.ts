/** Saves one project into a backup of any kind: as the files of its server or as a dump, with its rows of the control database. */
import { EngineError } from '../contract/errors.js';
import { shownToken } from '../contract/wire/tokens.js';
import type { ProjectRow } from '../tenancy/control/control-rows.js';
import type { Tenancy } from '../tenancy/tenancy.js';
import type { BackupServices } from './backup-services.js';
import { type ClientPrograms, findPrograms, type ProgramSearch } from './logical/client-programs.js';
import { saveDump } from './logical/dump.js';
import type { Control, SavedProject } from './manifest.js';
import { saveFiles } from './physical/physical.js';
import type { Saving } from './tar.js';

export type SaveProject = (row: ProjectRow, saving: Saving) => Promise<SavedProject>;

interface SaverOptions {
  readonly projects: readonly ProjectRow[];
  /** Default: files, if each project has its own server. */
  readonly form: 'physical' | 'logical' | null;
  readonly programSearch: ProgramSearch;
  /** For temporary files, mode 700. */
  readonly folder: string;
  /** Whether to stop each server that is not in use once it is saved. Default: only one that was started for it. */
  readonly stopsUnused?: boolean;
}

/**
 * @throws Error if Postgres's client programs are missing for all servers
 * @throws EngineError if a project's server has no files to save
 */
export async function saverOf(
  services: BackupServices,
  { form, programSearch, projects, folder, stopsUnused = false }: SaverOptions,
): Promise<SaveProject> {
  const tenancyOf = ({ placement }: ProjectRow) => services.servers.tenancyOf(placement);
  const dumped = form === 'logical' ? projects : projects.filter((one) => tenancyOf(one).files === null);
  if (form === 'physical' && dumped.length > 0) {
    throw new EngineError(
      'invalid_request',
      'Projects of DATABASE_URL or of an added server share its files, so their backups are logical',
    );
  }
  const { defaultTenancy } = services.servers;
  const isDumping = form === 'logical' || defaultTenancy.files === null;
  const tenancies = new Set([...(isDumping ? [defaultTenancy] : []), ...dumped.map(tenancyOf)]);
  const programs = await programsOfServers(tenancies, programSearch);
  return async (project, saving) => {
    const tenancy = tenancyOf(project);
    const { files } = tenancy;
    if (files !== null && form !== 'logical') return saveFiles(services, files, project, { ...saving, stopsUnused });
    const installed = await programs.get(tenancy);
    if (installed === undefined) throw new Error('Postgres has no client programs');
    return saveDump(services, project, { ...saving, programs: installed, folder });
  };
}

/**
 * The client programs for each server. A project of a server for which there are none cannot be saved, but the others can.
 * @throws Error that says what to install, if there are none for any of the servers
 */
async function programsOfServers(
  tenancies: ReadonlySet<Tenancy>,
  programSearch: ProgramSearch,
): Promise<Map<Tenancy, Promise<ClientPrograms>>> {
  const programsByTenancy = new Map(
    Array.from(tenancies, (tenancy) => [tenancy, tenancy.major().then((major) => findPrograms(programSearch, major))]),
  );
  // Those of a server that no longer answers reject before a project needs them.
  for (const programs of programsByTenancy.values()) programs.catch(() => {});
  if (programsByTenancy.size > 0)
    await Promise.any(programsByTenancy.values()).catch(() => Promise.all(programsByTenancy.values()));
  return programsByTenancy;
}

/** The rows of a project in the control database, without anything that grants access. */
export async function controlRow(
  { control, servers }: BackupServices,
  row: ProjectRow,
): Promise<Control['projects'][number]> {
  const tokens = await control.tokens.ofProject(row.id);
  const roles = await control.roles.list(row.id);
  const { files } = servers.tenancyOf(row.placement);
  return {
    name: row.name,
    status: row.status === 'inactive' ? 'inactive' : 'active',
    created_at: row.createdAt.toISOString(),
    server_id: files === null ? null : row.placement.server,
    quota_bytes: row.quotaBytes,
    own_schemas: row.placement.ownSchemas,
    events: row.events,
    feed: row.feed,
    lineage: await control.subjects.lineageOf(row.id),
    subjects: (await control.subjects.declaration(row.id))?.declaration ?? null,
    archive: files !== null && (await files.archivesWal(row.placement.server)),
    roles: roles.map(({ name, comment, createdAt }) => ({ name, comment, created_at: createdAt.toISOString() })),
    tokens: tokens.map((token) => ({ ...shownToken(token), sha256: token.sha256 })),
  };
}
