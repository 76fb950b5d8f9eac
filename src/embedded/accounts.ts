/**
 * The users that run Postgres. Postgres refuses to run as root, so if the service is root, servers run as unprivileged
 * users.
 */
import { spawn } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { hasCode } from '../files.js';

export interface Account {
  readonly uid: number;
  readonly gid: number;
}

export function ownAccount(): Account {
  if (process.getuid === undefined || process.getgid === undefined) {
    throw new Error(`There is no embedded Postgres for ${process.platform}. Set DATABASE_URL to a server of your own`);
  }
  return { uid: process.getuid(), gid: process.getgid() };
}

export const runsAsRoot = (): boolean => ownAccount().uid === 0;

/**
 * The account for the server of a data directory: this process's own, unless that is root. Root uses the owner of the
 * directory; for a new directory, the system's user `postgres`, or else `nobody`.
 */
export async function accountFor(data: string): Promise<Account> {
  // There is no data directory yet.
  const owner = await stat(data).catch(() => undefined);
  if (!runsAsRoot()) {
    if (owner !== undefined && owner.uid !== ownAccount().uid) {
      throw new Error(
        `The database in ${data} belongs to user id ${owner.uid}. Start the service as that user or as root.`,
      );
    }
    return ownAccount();
  }
  if (owner !== undefined && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid };
  for (const name of ['postgres', '_postgres', 'nobody']) {
    const [uid, gid] = await Promise.all([
      run(ownAccount(), 'id', ['-u', name]),
      run(ownAccount(), 'id', ['-g', name]),
    ]);
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
 * @param timeoutMs after which it is killed, with what it has started; default: never
 * @returns the exit code (null after a signal), and stdout with stderr
 * @throws Error if the program cannot be executed, or is killed
 */
export function run(
  account: Account,
  program: string,
  args: string[],
  environment = ENVIRONMENT,
  timeoutMs?: number,
): Promise<{ code: number | null; output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      ...account,
      cwd: '/',
      env: environment,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    const late = (ms: number): void => {
      if (child.pid !== undefined) killGroup(child.pid);
      reject(new Error(`${program} did not end within ${ms / 1_000} s`));
    };
    const timer = timeoutMs === undefined ? undefined : setTimeout(late, timeoutMs, timeoutMs);
    let output = '';
    const collect = (chunk: Buffer): void => void (output += chunk.toString());
    child.stdout.on('data', collect);
    child.stderr.on('data', collect);
    child.on('error', reject);
    child.on('close', (code) => {
      clearTimeout(timer);
      resolve({ code, output });
    });
  });
}

function killGroup(leader: number): void {
  try {
    process.kill(-leader, 'SIGKILL');
  } catch (error) {
    if (!hasCode(error, 'ESRCH')) throw error; // otherwise it has exited by itself
  }
}
