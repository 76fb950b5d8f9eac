/** A physical backup of a project as members of a backup's file, and back: for projects that have a server of their own. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { EngineError } from '../../contract/errors.js';
import { archiveAll, checkArchive } from '../../backup/physical/archive.js';
import { readControlFile } from '../../backup/physical/control-file.js';
import type { Add, Copied } from '../../backup/physical/data-folder.js';
import { type BackupFile, layOut } from '../../backup/physical/lay-out.js';
import { isRecovered, type Recovery, RECOVERY_SETTINGS } from '../../backup/physical/recovery.js';
import { copyRunning } from '../../backup/physical/running.js';
import { copyStopped } from '../../backup/physical/stopped.js';
import { copyCluster, DATABASE_LOCALE } from '../../embedded/cluster.js';
import { archiveFolder, ARCHIVE_SETTINGS, type Home } from '../../embedded/home.js';
import { exists } from '../../files.js';
import type { ProjectRow } from '../../tenancy/control-rows.js';
import { OwnServers } from '../../tenancy/own-servers.js';
import type { Placement } from '../../tenancy/placement.js';
import { withServer } from '../../tenancy/tenancy.js';
import type { Installation } from './installation.js';
import { dataOf, type PhysicalProject } from './manifest.js';

const PLATFORM = `${process.platform}-${process.arch}`;

/**
 * Saves the files of a project's server: of a stopped one as they are, of another while it is used.
 * @param add takes a member of the backup's file
 * @throws NeededMeanwhile if a stopped one was needed before the end: what was added until then is worth nothing
 */
export async function savePhysically(
  tenancy: OwnServers,
  { name, placement }: ProjectRow,
  add: Add,
  signal: AbortSignal,
): Promise<PhysicalProject> {
  const { data } = await tenancy.homeOf(placement);
  const addFile: Add = (path, content) => add(`${dataOf(name)}${path}`, content);
  const copied = (await copyIfStopped(tenancy, placement, data, addFile, signal)) ?? (await copyInUse());
  return {
    kind: 'physical',
    name,
    bytes: copied.bytes,
    server_id: placement.server,
    postgres: Number.parseInt(tenancy.version),
    version: tenancy.version,
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

  function copyInUse(): Promise<Copied> {
    const server = tenancy.serverOf(placement);
    return withServer(server, () => copyRunning({ dataFolder: data, login: server.address, signal }, addFile));
  }
}

/** @returns null if the server runs, or did not end cleanly: it is started then */
async function copyIfStopped(
  tenancy: OwnServers,
  placement: Placement,
  data: string,
  add: Add,
  signal: AbortSignal,
): Promise<Copied | null> {
  return tenancy.whileStopped(placement, async (needed) => {
    if ((await readControlFile(data)).state !== 'shut down') return null;
    return copyStopped(data, add, AbortSignal.any([signal, needed]));
  });
}

/** @param major of the Postgres here; null: projects have no server of their own. @throws EngineError where the files are no good */
export function refuseElsewhere({ name, platform, postgres }: PhysicalProject, major: number | null): void {
  if (platform === PLATFORM && postgres === major) return;
  const here = major === null ? 'projects have no server of their own' : `${PLATFORM} with Postgres ${major}`;
  throw new EngineError(
    'invalid_request',
    `The backup of "${name}" was made on ${platform} with Postgres ${postgres}; here is ${here}`,
    { hint: 'Make a logical backup of it where it is, which goes anywhere: cdp backup --format logical' },
  );
}

/**
 * Looks whether a server can get to a time, before anything is made.
 * @returns the archive of its log; null: what is in the backup is all
 * @throws Error that says what is missing
 */
export async function archiveFor(
  { control, tenancy }: Installation,
  saved: PhysicalProject,
  at: Date | null,
  signal: AbortSignal,
): Promise<string | null> {
  if (at === null || !(tenancy instanceof OwnServers)) return null;
  const archive = archiveFolder(tenancy.folder, saved.server_id);
  // Where the server is still there, all that it has committed by now goes into the archive.
  const living = await control.projectOnServer(saved.server_id);
  const archives = async ({ placement }: ProjectRow) =>
    exists(join((await tenancy.homeOf(placement)).root, ARCHIVE_SETTINGS));
  if (living !== null && (await archives(living))) {
    const server = tenancy.serverOf(living.placement);
    await withServer(server, () => archiveAll(archive, server.address, signal));
  }
  await checkArchive(archive, {
    serverId: saved.server_id,
    walStart: saved.wal_start,
    timeline: saved.timeline,
    segmentBytes: saved.wal_segment_bytes,
    endedAt: new Date(saved.ended_at),
    until: at,
  });
  return archive;
}

/** @param members names of all that the backup's file holds */
export async function restorePhysically(
  saved: PhysicalProject,
  members: Iterable<string>,
  read: (member: string) => BackupFile['content'],
  { root, data, account }: Home,
  { archive, until }: { archive: string | null; until: Date | null },
  signal: AbortSignal,
): Promise<void> {
  const files = function* (): Generator<BackupFile> {
    for (const member of membersOf(saved, members)) {
      signal.throwIfAborted();
      yield { path: member.slice(dataOf(saved.name).length), content: read(member) };
    }
  };
  let recovery: Recovery = null;
  if (archive !== null) {
    // The archive is another account's: its server's.
    recovery = { archive: join(root, REPLAYED), until };
    await copyCluster(archive, recovery.archive, account, false);
  }
  await layOut(data, { folders: saved.folders, files: files(), recovery, account });
}

/** Once the server takes connections. @throws Error if it is not recovered */
export async function endRecovery({ root, data }: Home): Promise<void> {
  if (!(await isRecovered(data))) throw new Error(`The server in ${data} is not recovered`);
  await rm(join(data, RECOVERY_SETTINGS), { force: true });
  await rm(join(root, REPLAYED), { recursive: true, force: true });
}

/** In the folder of a server, while it is restored: the log that it replays. */
const REPLAYED = 'replayed-wal';

export const membersOf = ({ name }: PhysicalProject, members: Iterable<string>): string[] =>
  [...members].filter((member) => member.startsWith(dataOf(name)));
