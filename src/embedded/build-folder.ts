/** Builds a folder that is either absent or complete, even if others build it at the same time or are killed. */
import { chmod, lstat, mkdir, readdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { hasCode, unique } from '../files.js';
import { isAlive } from './processes.js';

/**
 * Builds a folder next to its final place and renames it, so that `target` is either absent or complete. Of two builders
 * one wins, and the other discards its work; the next builder removes what a killed one left.
 * @param fill makes `folder`; its parent `staging` is for temporary files
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
 * Of builders that are gone. The process id in the name may belong to another program by now, so age counts as well. Their
 * initdb may still be writing: removal is retried for some seconds, and its failure is ignored.
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
