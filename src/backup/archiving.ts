/**
 * `cdp project archive`: archives the WAL of a project's server, so that a backup can be restored to any later time.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { EngineError } from '../contract/errors.js';
import { configValue } from '../embedded/config.js';
import { ARCHIVE_SETTINGS } from '../embedded/server-folder.js';
import { replaceFile } from '../files.js';
import type { Tenancy } from '../tenancy/tenancy.js';
import type { Installation } from './installation.js';
import { archiveSettings, prepareArchive, removeOldSegments } from './physical/wal-archive.js';

/**
 * Turns archiving on or off. This restarts the server; requests wait for it.
 * @throws EngineError not_found, invalid_request
 */
export async function setArchiving(installation: Installation, name: string, on: boolean): Promise<void> {
  const { projects, record, servers } = installation;
  const project = await projects.get(name);
  const { fleet } = servers.tenancyOf(project.placement);
  if (fleet === null) {
    throw new EngineError(
      'invalid_request',
      'With DATABASE_URL, or on an added server, archive the write-ahead log yourself',
    );
  }
  const { server } = project.placement;
  const { root, account } = await fleet.folderOf(server);
  const settings = join(root, ARCHIVE_SETTINGS);
  if (on) {
    const archive = join(fleet.archives, server);
    await prepareArchive(archive, account);
    const lines = Object.entries(archiveSettings(archive)).map(([key, value]) => `${key} = ${configValue(value)}\n`);
    await replaceFile(settings, lines.join(''));
  } else {
    await rm(settings, { force: true });
  }
  await fleet.stop(server);
  record('project.archive', project);
}

/** Removes older archived WAL. */
export async function removeOldArchives({ fleet }: Tenancy, days: number): Promise<void> {
  if (fleet !== null) await removeOldSegments(fleet.archives, days, (id) => fleet.has(id));
}
