/** Creates data directories with initdb, or as copies of a template. */
import { chown, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { flushFileSystem } from '../files.js';
import { type Account, ownAccount, run, runsAsRoot } from './accounts.js';
import type { Binaries } from './binaries.js';
import { SUPERUSER } from './postgres-config.js';

/** The first major with locales of its own. */
const BUILTIN_LOCALES = 17;

interface DatabaseLocale {
  readonly provider: string;
  /** For people: the collation, and where it differs, what decides about letters and their case. */
  readonly name: string;
  /** Options of initdb. */
  readonly options: readonly string[];
}

/**
 * Collation by code point, by Postgres itself: the order of text, and so every index on it, is the same on each machine
 * and after each upgrade of the system (decision 0002). Before 17, only letters and their case (`upper`, `ILIKE`, regular
 * expressions) come from the system's C.UTF-8.
 */
export const databaseLocale = (major: number): DatabaseLocale =>
  major >= BUILTIN_LOCALES
    ? {
        provider: 'builtin',
        name: 'C.UTF-8',
        options: ['--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'],
      }
    : {
        provider: 'libc',
        name: 'C, LC_CTYPE C.UTF-8',
        options: ['--locale=C', '--locale-provider=libc', '--lc-ctype=C.UTF-8'],
      };

/** A WAL segment has 1 MB instead of 16, because most servers write little. */
const SEGMENT_MB = 1;

/** Runs initdb. Logins need no password: only the service can access the socket. */
export async function initializeCluster(
  data: string,
  account: Account,
  { bin, major }: Binaries,
  durable: boolean,
): Promise<void> {
  await mkdir(data, { mode: 0o700 });
  await chown(data, account.uid, account.gid);
  const init = [`--pgdata=${data}`, `--username=${SUPERUSER}`, '--auth=trust', `--wal-segsize=${SEGMENT_MB}`];
  const options = ['--data-checksums', '--no-instructions', ...(durable ? [] : ['--no-sync'])];
  const locale = ['--encoding=UTF8', ...databaseLocale(major).options];
  await must(run(account, join(bin, 'initdb'), [...init, ...options, ...locale]), 'initdb');
}

/** Copies the data directory of a stopped server, and makes the account its owner. */
export async function copyCluster(from: string, to: string, account: Account, durable: boolean): Promise<void> {
  await must(run(ownAccount(), 'cp', ['-Rp', from, to]), 'cp');
  await giveTo(account, to, durable);
}

/**
 * If the caller is root, makes an account the owner of a data directory. Also flushes the directory, because Postgres
 * assumes that the files of a cleanly stopped server are on disk.
 */
export async function giveTo(account: Account, data: string, durable = true): Promise<void> {
  if (runsAsRoot()) await must(run(ownAccount(), 'chown', ['-R', `${account.uid}:${account.gid}`, data]), 'chown');
  if (durable) await flushFileSystem(data);
}

async function must(result: ReturnType<typeof run>, program: string): Promise<void> {
  const { code, output } = await result;
  if (code === 0) return;
  throw new Error(`The data directory could not be created: ${program} failed:\n${lastLines(output)}`);
}

/** The end of a program's output, for an error message. */
export function lastLines(output: string): string {
  return output.trim().split('\n').slice(-12).join('\n');
}
