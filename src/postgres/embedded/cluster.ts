/** Makes the cluster: initdb beside its final place, then a rename, so that it is either absent or whole. */
import { chown, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from './account.js';
import type { Binaries } from './binaries.js';
import { buildFolder } from './build-folder.js';
import { SUPERUSER } from './config.js';
import { exists } from '../../files.js';
import type { Home } from './home.js';

/**
 * Collation by code point, from Postgres itself: the order of customer data, and so every index over text, is the same
 * on each machine and after each upgrade of the system (decision 0002).
 */
const LOCALE = ['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'];

/**
 * A session writes nothing to the server's log: its messages hold customer data, and RAISE LOG would let a project
 * fill the disk. Only a superuser may change this setting; the server's own processes keep theirs.
 */
const SILENT_SESSIONS = 'ALTER ROLE ALL SET log_min_messages = panic\n';

/** Runs initdb unless the cluster exists. Safe against a second starter and against kill -9. */
export async function ensureCluster(home: Home, binaries: Binaries, password: string, durable: boolean): Promise<void> {
  if (await exists(home.data)) return;
  const { account } = home;
  await buildFolder(home.data, async (data, staging) => {
    const passwordFile = join(staging, 'password');
    await writeFile(passwordFile, `${password}\n`, { flag: 'wx', mode: 0o600 });
    await chown(passwordFile, account.uid, account.gid);
    await mkdir(data, { mode: 0o700 });
    await chown(data, account.uid, account.gid);

    const init = [`--pgdata=${data}`, `--username=${SUPERUSER}`, `--pwfile=${passwordFile}`, '--auth=scram-sha-256'];
    const options = ['--data-checksums', '--no-instructions', ...(durable ? [] : ['--no-sync'])];
    await must('initdb', run(account, join(binaries.bin, 'initdb'), [...init, ...options, ...LOCALE]));
    await rm(passwordFile);
    const single = ['--single', ...(durable ? [] : ['-F']), '-D', data, 'postgres'];
    await must('postgres --single', run(account, join(binaries.bin, 'postgres'), single, SILENT_SESSIONS));
  });
}

async function must(program: string, result: ReturnType<typeof run>): Promise<void> {
  const { code, output } = await result;
  if (code === 0) return;
  throw new Error(`The database could not be made, ${program} failed:\n${lastLines(output)}`);
}

/** The end of what Postgres had to say, for an error message. */
export function lastLines(output: string): string {
  return output.trim().split('\n').slice(-12).join('\n');
}
