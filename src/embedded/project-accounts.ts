/**
 * Gives each project's server its own user id, so that code in one server cannot access the files of another. All
 * installations on a machine that run as root share the ids, and a registry of them.
 */
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import { namesIn } from '../files.js';
import type { Account } from './accounts.js';
import { runningUids } from './proc.js';
import { ARCHIVE, PROJECTS } from './server-folder.js';
import type { UidRegistry } from './uid-registry.js';

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
