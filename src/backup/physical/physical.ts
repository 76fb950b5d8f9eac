/** Physical backup and restore of one project: the files of its server. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { EngineError } from '../../contract/errors.js';
import { DATABASE_LOCALE } from '../../embedded/cluster.js';
import { ARCHIVE_SETTINGS, type ServerFolder, RECOVERY_SETTINGS } from '../../embedded/server-folder.js';
import { exists } from '../../files.js';
import type { ProjectRow } from '../../tenancy/control-rows.js';
import { OwnServers } from '../../tenancy/own-servers.js';
import type { Placement } from '../../tenancy/placement.js';
import { type Tenancy, withServer } from '../../tenancy/tenancy.js';
import type { BackupFile } from '../backup-file.js';
import type { Installation } from '../installation.js';
import { dataOf, type PhysicalProject } from '../manifest.js';
import type { Add } from '../tar.js';
import { copyRunning } from './copy.js';
import { type Recovery, restoreFiles } from './restore-files.js';
import { archiveAll, segmentsFor } from './wal-archive.js';

const PLATFORM = `${process.platform}-${process.arch}`;

/** Copies the files of a project's server, which is started for that if it was stopped. */
export async function saveFiles(
  servers: OwnServers,
  { name, placement }: ProjectRow,
  add: Add,
  signal: AbortSignal,
): Promise<PhysicalProject> {
  const wasRunning = servers.runs(placement);
  const server = servers.serverOf(placement);
  const { data: dataDirectory } = await servers.fleet.folderOf(placement.server);
  const copied = await withServer(server, () =>
    copyRunning({ dataDirectory, login: server.address, signal }, (path, content) =>
      add(`${dataOf(name)}${path}`, content),
    ),
  );
  if (!wasRunning) await servers.fleet.stopIfUnused(placement.server);
  return {
    kind: 'physical',
    name,
    bytes: copied.bytes,
    server_id: placement.server,
    postgres: Number.parseInt(servers.version),
    version: servers.version,
    platform: PLATFORM,
    locale_provider: DATABASE_LOCALE.provider,
    locale: DATABASE_LOCALE.name,
    wal_start: copied.walStart,
    wal_stop: copied.walStop,
    timeline: copied.timeline,
    wal_segment_bytes: copied.segmentBytes,
    checksum_version: copied.checksumVersion,
    catalog_version: copied.catalogVersion,
    started_at: copied.startedAt.toISOString(),
    ended_at: copied.endedAt.toISOString(),
    folders: [...copied.folders],
  };
}

/** The servers that can run these files. @throws EngineError if there are none here */
export function serversFor({ name, platform, postgres }: PhysicalProject, tenancy: Tenancy): OwnServers {
  const major = tenancy instanceof OwnServers ? Number.parseInt(tenancy.version) : null;
  if (tenancy instanceof OwnServers && platform === PLATFORM && postgres === major) return tenancy;
  const here = major === null ? 'projects here share one server' : `this is ${PLATFORM} with Postgres ${major}`;
  throw new EngineError(
    'invalid_request',
    `The backup of "${name}" was made on ${platform} with Postgres ${postgres}, and ${here}`,
    { hint: 'Make a logical backup where the project is, which can be restored anywhere: cdp backup --format logical' },
  );
}

/**
 * Checks that a server can be recovered to a point in time.
 * @throws Error that says what is missing
 */
export async function recoveryTo(
  until: Date,
  saved: PhysicalProject,
  { control }: Installation,
  servers: OwnServers,
  signal: AbortSignal,
): Promise<Recovery> {
  const archive = join(servers.fleet.archives, saved.server_id);
  const living = await control.projectOnServer(saved.server_id);
  if (living !== null && (await archivesWal(servers, living.placement))) {
    const server = servers.serverOf(living.placement);
    await withServer(server, () => archiveAll(archive, server.address, signal));
  }
  const segments = await segmentsFor(archive, {
    walStart: saved.wal_start,
    timeline: saved.timeline,
    segmentBytes: saved.wal_segment_bytes,
    endedAt: new Date(saved.ended_at),
    until,
  });
  return { archive, segments, until };
}

const archivesWal = async (servers: OwnServers, placement: Placement): Promise<boolean> =>
  exists(join((await servers.fleet.folderOf(placement.server)).root, ARCHIVE_SETTINGS));

/** Makes the data directory of a new server. Its start recovers it; then call {@link endRecovery}. */
export async function loadFiles(
  { name, folders }: PhysicalProject,
  file: BackupFile,
  { data, account }: ServerFolder,
  recovery: Recovery | null,
  signal: AbortSignal,
): Promise<void> {
  const folder = dataOf(name);
  const files = file
    .namesBelow(folder)
    .map((member) => ({ path: member.slice(folder.length), content: () => file.read(member) }));
  await restoreFiles(data, { folders, files, recovery, account, signal });
}

/** Removes the settings of a recovery, once the server accepts connections. */
export const endRecovery = ({ data }: ServerFolder): Promise<void> =>
  rm(join(data, RECOVERY_SETTINGS), { force: true });
