/** Making data directories: by initdb, and as copies of one that is ready. */
import { chown, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type Account, caller, run } from './account.js';
import type { Binaries } from './binaries.js';
import { SUPERUSER } from './config.js';

/**
 * Collation by code point, from Postgres itself: the order of customer data, and so every index over text, is the same
 * on each machine and after each upgrade of the system (decision 0002).
 */
const LOCALE = ['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'];

/** What {@link LOCALE} says, for a backup's manifest. */
export const DATABASE_LOCALE = { provider: 'builtin', name: 'C.UTF-8' };

/** A server that does little should need little disk: one segment of the write-ahead log is 1 MB instead of 16. */
const SEGMENT_MB = 1;

/** Runs initdb in a folder that does not exist. Logins need no password: only the folder's owner reaches the socket. */
export async function initializeCluster(
  data: string,
  account: Account,
  { bin }: Binaries,
  durable: boolean,
): Promise<void> {
  await mkdir(data, { mode: 0o700 });
  await chown(data, account.uid, account.gid);
  const init = [`--pgdata=${data}`, `--username=${SUPERUSER}`, '--auth=trust', `--wal-segsize=${SEGMENT_MB}`];
  const options = ['--data-checksums', '--no-instructions', ...(durable ? [] : ['--no-sync'])];
  await must(run(account, join(bin, 'initdb'), [...init, ...options, ...LOCALE]), 'initdb');
}

/**
 * Copies the data directory of a stopped server, for an account. It is on the disk before this returns: a clean server
 * takes it for granted that its files are, and starts without flushing them.
 */
export async function copyCluster(from: string, to: string, account: Account, durable: boolean): Promise<void> {
  // -p keeps modes; the owner is set afterwards, if the caller may.
  const flush = durable ? ' && { sync -f "$2" 2>/dev/null || sync; }' : '';
  const script = `cp -Rp "$1" "$2" && { [ "$(id -u)" != 0 ] || chown -R "$3" "$2"; }${flush}`;
  await must(run(caller(), '/bin/sh', ['-c', script, 'sh', from, to, `${account.uid}:${account.gid}`]), 'cp');
}

async function must(result: ReturnType<typeof run>, program: string): Promise<void> {
  const { code, output } = await result;
  if (code === 0) return;
  throw new Error(`The data directory could not be created: ${program} failed:\n${lastLines(output)}`);
}

/** The end of what Postgres had to say, for an error message. */
export function lastLines(output: string): string {
  return output.trim().split('\n').slice(-12).join('\n');
}
