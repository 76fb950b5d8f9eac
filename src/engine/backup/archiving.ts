/** Keeping the write-ahead log of a project's server, so that a backup can be restored to any time since. */
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { archiveFolder, archiveSettings, prepareArchive } from '../../backup/physical/archive.js';
import { EngineError } from '../../contract/errors.js';
import { ARCHIVE_SETTINGS } from '../../embedded/home.js';
import { isMissing, replaceFile } from '../../files.js';
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

/** Removes archived log that is older than some days, of servers that are gone, too. */
export async function removeOldArchives({ tenancy }: Installation, days: number): Promise<void> {
  if (!(tenancy instanceof OwnServers)) return;
  const all = join(tenancy.folder, 'archive');
  const before = Date.now() - days * DAY_MS;
  for (const server of await namesIn(all)) {
    const folder = join(all, server);
    for (const segment of (await namesIn(folder)).filter((name) => /^[0-9A-F]{24}/.test(name))) {
      const path = join(folder, segment);
      const { mtimeMs } = await stat(path);
      if (mtimeMs < before) await rm(path, { force: true });
    }
  }
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}
