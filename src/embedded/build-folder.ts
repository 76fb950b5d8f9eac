/** Builds a folder so that it is either absent or complete, whoever else builds it and whoever is killed. */
import { chmod, lstat, mkdir, readdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { hasCode, unique } from '../files.js';
import { isAlive } from './processes.js';

/**
 * Builds a folder beside its final place and renames it there, so that `target` is either absent or complete. Of two
 * builders one wins and the other throws its work away; what a killed builder left is removed by the next one.
 * @param fill makes `folder`; `staging` around it takes what must not come along.
 */
export async function buildFolder(
  target: string,
  fill: (folder: string, staging: string) => Promise<void>,
): Promise<void> {
  const prefix = `.new-${basename(target)}-`;
  await removeLeftovers(dirname(target), prefix);
  const staging = join(dirname(target), `${prefix}${unique()}`);
  try {
    await mkdir(staging);
    await chmod(staging, 0o711);
    await fill(join(staging, 'result'), staging);
    await rename(join(staging, 'result'), target);
  } catch (error) {
    if (!hasCode(error, 'ENOTEMPTY', 'EEXIST')) throw error;
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

/**
 * Whose builder is gone; the process id in the name may have been given to another program, so age counts as well. Its
 * initdb may still be writing, which is tried for some seconds and is no reason not to go on.
 */
async function removeLeftovers(parent: string, prefix: string): Promise<void> {
  const tenMinutesAgo = Date.now() - 600_000;
  for (const name of (await readdir(parent)).filter((entry) => entry.startsWith(prefix))) {
    const folder = join(parent, name);
    const made = (await lstat(folder).catch(() => undefined))?.mtimeMs ?? 0;
    const isBeingBuilt = isAlive(Number.parseInt(name.slice(prefix.length))) && made > tenMinutesAgo;
    if (!isBeingBuilt) await rm(folder, { recursive: true, force: true, maxRetries: 8 }).catch(() => undefined);
  }
}
