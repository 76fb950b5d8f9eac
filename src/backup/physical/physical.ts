/** Physical backup and restore of one project: the files of its server. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { EngineError } from '../../contract/errors.js';
import { DATABASE_LOCALE } from '../../embedded/cluster.js';
import type { Fleet } from '../../embedded/fleet.js';
import { RECOVERY_SETTINGS } from '../../embedded/server-folder.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import { type Tenancy, withServer } from '../../tenancy/tenancy.js';
import type { BackupFile } from '../backup-file.js';
import type { Contents, Installation } from '../installation.js';
import { dataOf, type PhysicalProject } from '../manifest.js';
import type { Add } from '../tar.js';
import { copyRunning } from './copy-running.js';
import { type Recovery, restoreFiles } from './restore-files.js';
import { archiveAll, segmentsFor } from './wal-archive.js';

const PLATFORM = `${process.platform}-${process.arch}`;

/** Copies the files of a project's server. If the server is stopped, it is started for the copy. */
export async function saveFiles(
  { servers }: Installation,
  fleet: Fleet,
  { name, placement }: ProjectRow,
  { add, signal }: { add: Add; signal: AbortSignal },
): Promise<PhysicalProject> {
  const wasRunning = fleet.isRunning(placement.server);
  const server = servers.serverOf(placement);
  const { data: dataDirectory } = await fleet.folderOf(placement.server);
  const copied = await withServer(server, () =>
    copyRunning({ dataDirectory, login: server.address, signal }, (path, content) =>
      add(`${dataOf(name)}${path}`, content),
    ),
  );
  if (!wasRunning) await fleet.stopIfUnused(placement.server);
  return {
    kind: 'physical',
    name,
    server_id: placement.server,
    postgres: fleet.major,
    version: fleet.version,
    platform: PLATFORM,
    locale_provider: DATABASE_LOCALE.provider,
    locale: DATABASE_LOCALE.name,
    ...copied,
  };
}

/**
 * A server whose data directory comes from the backup. It recovers when it starts.
 * @param until point in time; null: the state in the backup
 * @throws EngineError, Error if it cannot be restored here, or not to that time
 */
export async function filesOf(
  saved: PhysicalProject,
  file: BackupFile,
  installation: Installation,
  until: Date | null,
  signal: AbortSignal,
): Promise<Contents> {
  const { databases, servers } = installation;
  const { defaultTenancy } = servers;
  const fleet = fleetFor(saved, defaultTenancy);
  const recovery = until === null ? null : await recoveryTo(until, saved, installation, fleet, signal);
  const folder = dataOf(saved.name);
  const files = file
    .namesBelow(folder)
    .map((member) => ({ path: member.slice(folder.length), content: () => file.read(member) }));
  return {
    make: async (placement) => {
      const { data, account } = await fleet.createEmpty(placement.server);
      await restoreFiles(data, { folders: saved.folders, files, recovery, account, signal });
    },
    fill: async (placement) => {
      // The recovery has ended, because the server accepts connections.
      await rm(join((await fleet.folderOf(placement.server)).data, RECOVERY_SETTINGS), { force: true });
      await databases.upgrade(defaultTenancy, placement);
      return { tables: null, left_out: [] };
    },
  };
}

/**
 * The servers that can run these files.
 * @throws EngineError if there are none here
 */
function fleetFor({ name, platform, postgres }: PhysicalProject, { fleet }: Tenancy): Fleet {
  if (fleet !== null && platform === PLATFORM && postgres === fleet.major) return fleet;
  const here = fleet === null ? 'projects here share one server' : `this is ${PLATFORM} with Postgres ${fleet.major}`;
  throw new EngineError(
    'invalid_request',
    `The backup of "${name}" was made on ${platform} with Postgres ${postgres}, and ${here}`,
    { hint: 'Make a logical backup where the project is, which can be restored anywhere: cdp backup --format logical' },
  );
}

/** @throws Error that says what is missing for a recovery to this point in time */
async function recoveryTo(
  until: Date,
  saved: PhysicalProject,
  { control, servers }: Installation,
  fleet: Fleet,
  signal: AbortSignal,
): Promise<Recovery> {
  const archive = join(fleet.archives, saved.server_id);
  const living = await control.projects.find('server', saved.server_id);
  if (living !== null && (await fleet.archivesWal(living.placement.server))) {
    const server = servers.serverOf(living.placement);
    await withServer(server, () => archiveAll(archive, server.address, signal));
  }
  return { archive, segments: await segmentsFor(archive, saved, until), until };
}
