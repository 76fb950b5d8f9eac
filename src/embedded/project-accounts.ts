/** A user id for each project's server, if the service runs as root: what runs in one server cannot reach the files of another. */
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type Account, caller } from './account.js';
import { exists } from '../files.js';
import { PROJECTS } from './home.js';
import type { Root } from './root.js';

export interface UidRange {
  readonly first: number;
  readonly last: number;
}

export class ProjectAccounts {
  /** By server, of those that were made by this process: their data directories may not be there yet. */
  private readonly taken = new Map<string, number>();

  /** @param uids null: all servers run as the control server does */
  constructor(
    private readonly root: Root,
    private readonly uids: UidRange | null,
  ) {}

  /** The lowest user id of the range that no server has. @throws Error if all are taken */
  async take(server: string): Promise<Account> {
    const { root, uids } = this;
    if (uids === null || caller().uid !== 0 || root.owner.uid !== 0) return root.account;
    const owners = await this.owners();
    for (const uid of this.taken.values()) owners.add(uid);
    for (let uid = uids.first; uid <= uids.last; uid++) {
      if (owners.has(uid)) continue;
      this.taken.set(server, uid);
      return { uid, gid: uid };
    }
    throw new Error(`All user ids of the setting project-uids are taken (${uids.first} to ${uids.last})`);
  }

  /** The server is gone. */
  release(server: string): void {
    this.taken.delete(server);
  }

  private async owners(): Promise<Set<number>> {
    const folder = join(this.root.folder, PROJECTS);
    const names = (await exists(folder)) ? await readdir(folder) : [];
    const found = await Promise.all(names.map((name) => lstat(join(folder, name, 'data')).catch(() => null)));
    return new Set(found.flatMap((data) => (data === null ? [] : [data.uid])));
  }
}
