/**
 * `cdp project archive`: archives the WAL of a project's server, so that a backup can be restored to any later time.
 */
import { join } from 'node:path';
import { EngineError } from '../contract/errors.js';
import { withServer } from '../tenancy/postgres-server.js';
import type { Tenancy } from '../tenancy/tenancy.js';
import type { BackupServices } from './backup-services.js';
import { archiveSettings, prepareArchive, removeOldSegments, requireArchiveModule } from './physical/wal-archive.js';

/**
 * Turns archiving on or off. This restarts the server; requests wait for it.
 * @throws EngineError not_found, invalid_request
 */
export async function setArchiving(services: BackupServices, name: string, on: boolean): Promise<void> {
  const { projects, record, servers } = services;
  const project = await projects.get(name);
  const { files } = servers.tenancyOf(project.placement);
  if (files === null) {
    throw new EngineError(
      'invalid_request',
      'With DATABASE_URL, or on an added server, archive the write-ahead log yourself',
    );
  }
  const { server } = project.placement;
  const archive = join(files.archives, server);
  if (on) {
    const postgres = servers.serverOf(project.placement);
    await withServer(postgres, () => requireArchiveModule(postgres.pool));
    await prepareArchive(archive, (await files.folderOf(server)).account);
  }
  await files.setArchiving(server, on ? archiveSettings(archive) : null);
  record('project.archive', project);
}

/** Removes older archived WAL. */
export async function removeOldArchives({ files }: Tenancy, days: number): Promise<void> {
  if (files !== null) await removeOldSegments(files.archives, days, (id) => files.has(id));
}
