/** A user id for each project's server, if the service runs as root: what runs in one server cannot reach the files of another. */
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Account, caller } from './account.js';
import { namesIn } from '../files.js';
import { ARCHIVE, PROJECTS } from './home.js';
import { runningUids } from './processes.js';
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

  /** The lowest user id of the range that no server, no archive and no process has. @throws Error if all are taken */
  async take(server: string): Promise<Account> {
    const { root, uids } = this;
    if (uids === null || caller().uid !== 0 || root.owner.uid !== 0) return root.account;
    // Whoever got a shell in a server may have left a process behind, which must not find its user id given to another.
    const [owners, running] = await Promise.all([this.owners(), runningUids()]);
    // From here on without a pause: who asks at the same moment gets another one.
    const inUse = new Set([...owners, ...running, ...this.taken.values()]);
    for (let uid = uids.first; uid <= uids.last; uid++) {
      if (inUse.has(uid)) continue;
      this.taken.set(server, uid);
      return { uid, gid: uid };
    }
    throw new Error(`All user ids of the setting project-uids are taken (${uids.first} to ${uids.last})`);
  }

  /** The server is gone. */
  release(server: string): void {
    this.taken.delete(server);
  }

  private async owners(): Promise<number[]> {
    const paths = async (folder: string, below: string) =>
      (await namesIn(folder)).map((name) => join(folder, name, below));
    const { folder } = this.root;
    const all = [...(await paths(join(folder, PROJECTS), 'data')), ...(await paths(join(folder, ARCHIVE), ''))];
    const found = await Promise.all(all.map((path) => lstat(path).catch(() => null)));
    return found.flatMap((folder) => (folder === null ? [] : [folder.uid]));
  }
}
