/**
 * The users that run Postgres. Postgres refuses to run as root, so if the service is root, servers run as unprivileged
 * users.
 */
import { spawn } from 'node:child_process';
import { lstat, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { namesIn } from '../files.js';
import { runningUids } from './proc.js';

export interface Account {
  readonly uid: number;
  readonly gid: number;
}

export function caller(): Account {
  if (process.getuid === undefined || process.getgid === undefined) {
    throw new Error(`There is no embedded Postgres for ${process.platform}. Set DATABASE_URL to a server of your own`);
  }
  return { uid: process.getuid(), gid: process.getgid() };
}

export const calledByRoot = (): boolean => caller().uid === 0;

/**
 * The account for the server of a data directory: this process's own, unless that is root. Root uses the owner of the
 * directory; for a new directory, the system's user `postgres`, or else `nobody`.
 */
export async function accountFor(data: string): Promise<Account> {
  const owner = await stat(data).catch(() => undefined);
  if (!calledByRoot()) {
    if (owner !== undefined && owner.uid !== caller().uid) {
      throw new Error(
        `The database in ${data} belongs to user id ${owner.uid}. Start the service as that user or as root.`,
      );
    }
    return caller();
  }
  if (owner !== undefined && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid };
  for (const name of ['postgres', '_postgres', 'nobody']) {
    const [uid, gid] = await Promise.all([run(caller(), 'id', ['-u', name]), run(caller(), 'id', ['-g', name])]);
    if (uid.code === 0 && gid.code === 0) return { uid: Number(uid.output), gid: Number(gid.output) };
  }
  throw new Error('Postgres refuses to run as root, and this system has neither a user `postgres` nor `nobody`');
}

/** Whether the account can enter a folder through all of its parents. A process tries it, so ACLs count, too. */
export async function canEnter(account: Account, folder: string): Promise<boolean> {
  return (await run(account, '/bin/sh', ['-c', 'cd "$1"', 'sh', folder])).code === 0;
}

/** The environment of Postgres processes. The service's own may contain tokens and passwords. */
export const ENVIRONMENT: Readonly<Record<string, string>> = {
  PATH: '/usr/local/bin:/usr/bin:/bin',
  LC_ALL: 'C',
  TZ: 'UTC',
};

/**
 * Runs a program as an account, without supplementary groups. Ctrl-C does not reach it: the caller must stop it.
 * @returns the exit code (null after a signal), and stdout with stderr
 * @throws Error if the program cannot be executed
 */
export function run(
  account: Account,
  program: string,
  args: string[],
  environment = ENVIRONMENT,
): Promise<{ code: number | null; output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      ...account,
      cwd: '/',
      env: environment,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    let output = '';
    const collect = (chunk: Buffer): void => void (output += chunk.toString());
    child.stdout.on('data', collect);
    child.stderr.on('data', collect);
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, output }));
  });
}

export interface UidRange {
  readonly first: number;
  readonly last: number;
}

/** Gives each project's server its own user id, so that code in one server cannot access the files of another. */
export class ProjectAccounts {
  /** Ids by server, given by this process: the servers' data directories may not exist yet. */
  private readonly taken = new Map<string, number>();

  /** @param folders with an entry for each existing server, or for each server with archived WAL */
  constructor(
    private readonly uids: UidRange,
    private readonly folders: readonly { readonly path: string; readonly below: string }[],
  ) {}

  /**
   * Returns the lowest user id that no server, archive or process uses.
   * @throws Error if all are taken
   */
  async take(server: string): Promise<Account> {
    // A process that was left in a server must not share its user id with another server.
    const [owners, running] = await Promise.all([this.owners(), runningUids()]);
    // No `await` from here on, so that concurrent calls get different ids.
    const inUse = new Set([...owners, ...running, ...this.taken.values()]);
    for (let uid = this.uids.first; uid <= this.uids.last; uid++) {
      if (inUse.has(uid)) continue;
      this.taken.set(server, uid);
      return { uid, gid: uid };
    }
    throw new Error(`All user ids of the setting project-uids are in use (${this.uids.first} to ${this.uids.last})`);
  }

  /** Call this after the server has been removed. */
  release(server: string): void {
    this.taken.delete(server);
  }

  private async owners(): Promise<number[]> {
    const paths = this.folders.map(async ({ path, below }) =>
      (await namesIn(path)).map((name) => join(path, name, below)),
    );
    const found = (await Promise.all(paths)).flat().map((path) => lstat(path).catch(() => null));
    return (await Promise.all(found)).flatMap((entry) => (entry === null ? [] : [entry.uid]));
  }
}
