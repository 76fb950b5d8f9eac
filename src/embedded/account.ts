/** Who the Postgres processes run as. Postgres refuses root, so a root caller hands them to an unprivileged user. */
import { spawn } from 'node:child_process';
import { stat } from 'node:fs/promises';

export interface Account {
  readonly uid: number;
  readonly gid: number;
}

/** The account of this process. */
export function caller(): Account {
  if (process.getuid === undefined || process.getgid === undefined) {
    throw new Error(`There is no embedded Postgres for ${process.platform}. Set DATABASE_URL to a server of your own.`);
  }
  return { uid: process.getuid(), gid: process.getgid() };
}

export const calledByRoot = (): boolean => caller().uid === 0;

/**
 * The account for the cluster in `data`: the caller itself, unless that is root. Then the owner of the cluster, which an
 * ordinary user may have made; for a new one the system's `postgres` user, else `nobody`.
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
  throw new Error(
    'Postgres refuses to run as root, and this system has neither a user `postgres` nor `nobody` to run it as.',
  );
}

/** Whether the account gets into the folder through every folder above it. Asked of the system, so ACLs count too. */
export async function canEnter(account: Account, folder: string): Promise<boolean> {
  return (await run(account, '/bin/sh', ['-c', 'cd "$1"', 'sh', folder])).code === 0;
}

/** What a Postgres process gets to see of our environment: nothing, since ours may hold tokens and passwords. */
export const ENVIRONMENT: Readonly<Record<string, string>> = {
  PATH: '/usr/local/bin:/usr/bin:/bin',
  LC_ALL: 'C',
  TZ: 'UTC',
};

/**
 * Runs a program as the account to its end. Node drops the supplementary groups when it is given a uid.
 * @returns the exit code (null after a signal) and stdout with stderr; throws if the program cannot be executed.
 */
export function run(
  account: Account,
  program: string,
  args: string[],
  input = '',
  environment = ENVIRONMENT,
): Promise<{ code: number | null; output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { ...account, cwd: '/', env: environment, stdio: 'pipe' });
    let output = '';
    const collect = (chunk: Buffer): void => void (output += chunk.toString());
    child.stdout.on('data', collect);
    child.stderr.on('data', collect);
    child.stdin.on('error', () => undefined); // the program may end without reading
    child.stdin.end(input);
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, output }));
  });
}
