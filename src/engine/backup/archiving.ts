/** Keeping the write-ahead log of a project's server, so that a backup can be restored to any time since. */
import { lstat, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { archiveSettings, prepareArchive } from '../../backup/physical/archive.js';
import { EngineError } from '../../contract/errors.js';
import { ARCHIVE, archiveFolder, ARCHIVE_SETTINGS, projectFolder } from '../../embedded/home.js';
import { exists, namesIn, replaceFile } from '../../files.js';
import { OwnServers } from '../../tenancy/own-servers.js';
import { type Origin } from '../audit/audit.js';
import type { Installation } from './installation.js';

const DAY_MS = 86_400_000;

/**
 * Begins or ends it. The server is restarted for that; requests wait for it.
 * @throws EngineError not_found, invalid_request
 */
export async function setArchiving(installation: Installation, name: string, on: boolean, by: Origin): Promise<void> {
  const { audit, projects, tenancy } = installation;
  if (!(tenancy instanceof OwnServers)) {
    throw new EngineError('invalid_request', 'With DATABASE_URL the write-ahead log is the operator’s to archive');
  }
  const project = await projects.get(name);
  const { root, account } = await tenancy.homeOf(project.placement);
  const settings = join(root, ARCHIVE_SETTINGS);
  if (on) {
    const folder = archiveFolder(tenancy.folder, project.placement.server);
    await prepareArchive(folder, project.placement.server, account);
    const lines = Object.entries(archiveSettings(folder)).map(([key, value]) => `${key} = '${escaped(value)}'\n`);
    await replaceFile(settings, lines.join(''));
  } else {
    await rm(settings, { force: true });
  }
  await tenancy.stop(project.placement);
  audit.record(by, { operation: 'project.archive', outcome: 'ok', project });
}

const escaped = (value: string): string => value.replace(/['\\]/g, '\\$&');

/** Removes archived log that is older than some days, and the whole archive of a server that is gone once it has none. */
export async function removeOldArchives({ tenancy }: Installation, days: number): Promise<void> {
  if (!(tenancy instanceof OwnServers)) return;
  const all = join(tenancy.folder, ARCHIVE);
  const before = Date.now() - days * DAY_MS;
  for (const server of await namesIn(all)) {
    const folder = join(all, server);
    let kept = 0;
    for (const name of await namesIn(folder)) {
      const path = join(folder, name);
      // The server may be renaming it now.
      const found = await lstat(path).catch(() => null);
      if (!found?.isFile() || !/^[0-9A-F]{24}/.test(name)) continue;
      if (found.mtimeMs < before) await rm(path, { force: true });
      else kept++;
    }
    const isGone = !(await exists(join(tenancy.folder, projectFolder(server))));
    if (kept === 0 && isGone) await rm(folder, { recursive: true, force: true });
  }
}
