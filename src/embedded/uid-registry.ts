/**
 * The user ids of projects' servers, of all installations on this machine that run as root: one link for each id, to the
 * folder of its server. The services cannot see the ids of each other in another way: idle servers have no processes.
 */
import { mkdir, readdir, symlink, readlink, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { exists, hasCode } from '../files.js';
import { memoized } from '../promises.js';
import { ownAccount } from './accounts.js';
import { ownFolder, SYSTEM_FOLDER } from './embedded-folder.js';
import { ARCHIVE } from './server-folder.js';

export class UidRegistry {
  /** False on a system that is read-only, such as a container's: what else runs there has another one. */
  private readonly isWritable = memoized(async () => {
    try {
      await mkdir(dirname(dirname(this.folder)), { recursive: true });
      await ownFolder(dirname(this.folder), 0o755, ownAccount());
      await ownFolder(this.folder, 0o755, ownAccount());
      return true;
    } catch (error) {
      if (hasCode(error, 'EROFS', 'EACCES', 'EPERM')) return false;
      throw error;
    }
  });

  /** @param folder its own, in one of the service */
  constructor(private readonly folder = join(SYSTEM_FOLDER, 'uids')) {}

  /** The ids that have been claimed, also by servers that no longer exist. */
  async claimed(): Promise<ReadonlySet<number>> {
    return new Set((await this.isWritable()) ? (await readdir(this.folder)).map(Number) : []);
  }

  /**
   * @param server the folder of the server, which exists
   * @returns false if the id belongs to another server that exists, or whose archive does
   */
  async claim(uid: number, server: string): Promise<boolean> {
    if (!(await this.isWritable())) return true;
    const link = join(this.folder, String(uid));
    for (;;) {
      try {
        await symlink(server, link);
        return true;
      } catch (error) {
        if (!hasCode(error, 'EEXIST')) throw error;
      }
      // Removed meanwhile: the loop tries again.
      const holder = await readlink(link).catch(() => null);
      if (holder === server) return true;
      if (holder !== null && (await isUsed(holder))) return false;
      await rm(link, { force: true });
    }
  }

  /** Ends a claim, unless the server's archive is left. */
  async release(uid: number, server: string): Promise<void> {
    const link = join(this.folder, String(uid));
    // Without a link there is no claim.
    if ((await readlink(link).catch(() => null)) !== server || (await isUsed(server))) return;
    await rm(link, { force: true });
  }
}

export const isUsed = async (server: string): Promise<boolean> =>
  (await exists(server)) || exists(join(dirname(dirname(server)), ARCHIVE, basename(server)));
