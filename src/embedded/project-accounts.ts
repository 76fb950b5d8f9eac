/**
 * Gives each project's server its own user id, so that code in one server cannot access the files of another. All
 * installations on a machine that run as root share the ids, and a registry of them.
 */
import { lstat, mkdir, readdir, readlink, rm, symlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { exists, hasCode, namesIn } from '../files.js';
import { memoized } from '../tasks.js';
import { type Account, ownAccount } from './accounts.js';
import { ownFolder, SYSTEM_FOLDER } from './embedded-folder.js';
import { runningUids } from './proc.js';
import { ARCHIVE, PROJECTS } from './server-folder.js';

export interface UidRange {
  readonly first: number;
  readonly last: number;
}

export class ProjectAccounts {
  /** Ids by server, given by this process: the servers' data directories may not exist yet. */
  private readonly usedUids = new Map<string, number>();

  /** @param folder of all servers */
  constructor(
    private readonly uids: UidRange,
    private readonly folder: string,
    private readonly registry: UidRegistry,
  ) {}

  /** Registers the ids of the existing servers: those of a data folder that was made by an earlier version, or moved. */
  async register(): Promise<void> {
    for (const [server, uid] of await this.owners())
      if (this.has(uid)) await this.registry.claim(uid, this.placeOf(server));
  }

  /**
   * Returns the lowest user id that no server, archive, process or other installation uses.
   * @param server its folder exists
   * @throws Error if all are taken
   */
  async take(server: string): Promise<Account> {
    // A process that was left in a server must not share its user id with another server.
    const [owners, running, claimed] = await Promise.all([this.owners(), runningUids(), this.registry.claimed()]);
    const inUse = new Set([...owners.map(([, uid]) => uid), ...running]);
    const { first, last } = this.uids;
    const range = Array.from({ length: last - first + 1 }, (_, n) => first + n).filter((uid) => !inUse.has(uid));
    // An id whose server has disappeared without being deleted, such as with its disk, comes last.
    for (const uid of [...range.filter((uid) => !claimed.has(uid)), ...range.filter((uid) => claimed.has(uid))]) {
      if ([...this.usedUids.values()].includes(uid)) continue;
      // Before the `await`, so that concurrent calls get different ids.
      this.usedUids.set(server, uid);
      if (await this.registry.claim(uid, this.placeOf(server))) return { uid, gid: uid };
      this.usedUids.delete(server);
    }
    throw new Error(`All user ids of the setting project-uids are in use (${first} to ${last})`);
  }

  /** Whether an id is one that this service gives to servers. */
  has(uid: number): boolean {
    return uid >= this.uids.first && uid <= this.uids.last;
  }

  /** Call this after the server has been removed. Its archive keeps the id. */
  async release(server: string, uid: number): Promise<void> {
    this.usedUids.delete(server);
    await this.registry.release(uid, this.placeOf(server));
  }

  private placeOf(server: string): string {
    return join(this.folder, PROJECTS, server);
  }

  /** The servers, also those with only an archive left, and the owners of their files. */
  private async owners(): Promise<[server: string, uid: number][]> {
    const ownersIn = async (folder: string, below: string) => {
      const names = await namesIn(join(this.folder, folder));
      const owners = names.map(async (name): Promise<[string, number][]> => {
        // Removed since the folder was listed.
        const entry = await lstat(join(this.folder, folder, name, below)).catch(() => null);
        return entry === null ? [] : [[name, entry.uid]];
      });
      return (await Promise.all(owners)).flat();
    };
    return [...(await ownersIn(PROJECTS, 'data')), ...(await ownersIn(ARCHIVE, ''))];
  }
}

// The user ids of projects' servers, of all installations on this machine that run as root: one link for each id, to
// the folder of its server. The services cannot see the ids of each other in another way: idle servers have no
// processes.

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

const isUsed = async (server: string): Promise<boolean> =>
  (await exists(server)) || exists(join(dirname(dirname(server)), ARCHIVE, basename(server)));
