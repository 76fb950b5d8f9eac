/** Finds a pair of Postgres's client programs pg_dump and pg_restore that fits the server, and runs them. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, constants, readdir, realpath, writeFile } from 'node:fs/promises';
import { basename, delimiter, dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type ConnectionOptions, rootCertificates } from 'node:tls';
import type { LoginOptions } from '../../pg/index.js';

/** Where to search: the operator's folder, or if there is none, PATH and the usual folders. */
export interface ProgramSearch {
  readonly folder: string | null;
  /** The environment's PATH. */
  readonly path: string;
}

export interface ClientPrograms {
  readonly folder: string;
  /** Such as `18.4`. */
  readonly version: string;
  readonly major: number;
}

/** Folders of packages, where a star stands for any name: Debian, Red Hat, Homebrew, Postgres.app, the installer. */
const USUAL_PLACES = [
  '/usr/lib/postgresql/*/bin',
  '/usr/pgsql-*/bin',
  '/usr/local/pgsql/bin',
  '/opt/homebrew/opt/*/bin',
  '/usr/local/opt/*/bin',
  '/Applications/Postgres.app/Contents/Versions/*/bin',
  '/Library/PostgreSQL/*/bin',
];

/**
 * Finds the pair with the lowest version in the range: pg_dump refuses a server newer than itself, pg_restore refuses
 * an archive of such a server, and an older server may not understand what a newer program writes.
 * @param min lowest major version
 * @param max highest major version
 * @throws Error that says what to install
 */
export async function findPrograms(places: ProgramSearch, min: number, max = Infinity): Promise<ClientPrograms> {
  const installed: ClientPrograms[] = [];
  for (const folder of await candidates(places)) {
    const version = await versionIn(folder);
    if (version !== null) installed.push({ folder, version, major: Number.parseInt(version) });
  }
  const [best] = installed
    .filter(({ major }) => major >= min && major <= max)
    .sort((a, b) => a.major - b.major || b.version.localeCompare(a.version, 'en', { numeric: true }));
  if (best === undefined) throw new Error(whatToInstall(places, installed, min, max));
  return best;
}

function whatToInstall({ folder }: ProgramSearch, installed: readonly ClientPrograms[], min: number, max: number) {
  const range = max === Infinity ? `version ${min} or later` : `version ${min} to ${max}`;
  const versions = installed.map(({ version, folder: where }) => `${version} in ${where}`).join(', ') || 'none';
  const where = folder === null ? 'in PATH and the usual places' : `in ${folder}`;
  return (
    `pg_dump and pg_restore of ${range} are needed; found ${where}: ${versions}. They are not part of this package: ` +
    `install postgresql-client-${min} (Debian, Ubuntu; for every version from apt.postgresql.org), postgresql${min} ` +
    `(Red Hat; from yum.postgresql.org) or postgresql@${min} (Homebrew), or set their folder with --postgres-bin ` +
    '(CDP_POSTGRES_BIN)'
  );
}

async function candidates({ folder, path }: ProgramSearch): Promise<string[]> {
  if (folder !== null) return [folder];
  const usual = await Promise.all(USUAL_PLACES.map(expanded));
  const inPath = await Promise.all(path.split(delimiter).filter(Boolean).map(realFolder));
  return [...new Set([...inPath.flatMap((place) => place ?? []), ...usual.flat()])];
}

/** The real folder of the program: the one in PATH may be Debian's wrapper, which chooses a version. */
async function realFolder(folder: string): Promise<string | null> {
  // There is none in this folder.
  const program = await realpath(join(folder, 'pg_dump')).catch(() => null);
  return program !== null && basename(program) === 'pg_dump' ? dirname(program) : null;
}

async function expanded(pattern: string): Promise<string[]> {
  const [before = '', after] = pattern.split('*');
  if (after === undefined) return [pattern];
  const parent = before.endsWith('/') ? before : dirname(before);
  // This usual place does not exist here.
  const names = await readdir(parent).catch(() => []);
  return names.map((name) => join(parent, name)).flatMap((path) => (path.startsWith(before) ? [path + after] : []));
}

/** null if the folder does not have both programs in the same version. */
async function versionIn(folder: string): Promise<string | null> {
  const versions = await Promise.all(
    ['pg_dump', 'pg_restore'].map(async (name) => {
      try {
        await access(join(folder, name), constants.X_OK);
        const output = await run(join(folder, name), ['--version'], { environment: { LC_ALL: 'C' } });
        return /(\d+(?:\.\d+|devel|beta\d+|rc\d+))/.exec(output)?.[1] ?? null;
      } catch {
        return null;
      }
    }),
  );
  return versions[0] === versions[1] ? (versions[0] ?? null) : null;
}

interface RunOptions {
  readonly environment: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  /** Standard input, which the program need not read completely. Default: empty. */
  readonly input?: Readable;
}

/** A program failed. Its message may name tables of a project, so only an operator may see it. */
export class ProgramFailed extends Error {}

/**
 * Runs a program until it exits.
 * @returns its output
 * @throws ProgramFailed
 */
export const run = (program: string, args: readonly string[], options: RunOptions): Promise<string> =>
  stream(program, args, options, async (output) => Buffer.concat(await output.toArray()).toString());

/**
 * Runs a program, and passes its output to `take` with back-pressure.
 * @throws ProgramFailed, what `take` throws
 */
export async function stream<T>(
  program: string,
  args: readonly string[],
  { environment, signal, input }: RunOptions,
  take: (output: Readable) => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted();
  const child = spawn(program, args, { env: environment, cwd: '/', stdio: ['pipe', 'pipe', 'pipe'], signal });
  let words = '';
  child.stderr.setEncoding('utf8').on('data', (part: string) => (words = (words + part).slice(-4_000)));
  const exit = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>;
  // It is awaited below.
  exit.catch(() => {});
  try {
    // A program that does not need all of its input closes it early; only its exit code counts.
    const fed = pipeline(input ?? Readable.from([]), child.stdin).catch(() => {});
    const result = await take(child.stdout);
    await fed;
    const [code, killedBy] = await exit;
    if (code === 0) return result;
    throw new ProgramFailed(`${basename(program)}: ${words.trim() || `ended with ${code ?? killedBy}`}`);
  } catch (error) {
    child.kill('SIGKILL');
    // The error that led here is thrown below.
    await exit.catch(() => {});
    throw signal?.aborted ? signal.reason : error;
  }
}

/**
 * The environment of a program that logs in with these options (Postgres manual, Environment Variables). It contains no
 * variable of the service, and keeps the password off the command line, which other users could read.
 * @param folder of mode 700, holds certificates while the program runs
 */
export async function libpqEnvironment(login: LoginOptions, folder: string): Promise<Record<string, string>> {
  const { host, port, hosts, needsPrimary, user, password, database, ssl, options } = login;
  // The primary first: a standby may not have a new role yet, and libpq gives up after a wrong password.
  const list = hosts?.inTurn() ?? [{ host, port }];
  return {
    LC_ALL: 'C',
    PGHOST: list.map((one) => one.host).join(','),
    PGPORT: list.map((one) => one.port).join(','),
    PGTARGETSESSIONATTRS: needsPrimary ? 'primary' : 'any',
    PGUSER: user,
    PGPASSWORD: password,
    PGDATABASE: database,
    PGCONNECT_TIMEOUT: String(Math.ceil(login.connectionTimeoutMillis / 1_000)),
    PGAPPNAME: login.application_name ?? 'cdp service',
    PGCLIENTENCODING: 'UTF8',
    ...(options === undefined ? {} : { PGOPTIONS: options }),
    ...(await sslEnvironment(ssl, folder)),
  };
}

async function sslEnvironment(ssl: boolean | ConnectionOptions | undefined, folder: string) {
  if (ssl === undefined || ssl === false) return { PGSSLMODE: 'disable' };
  const { ca, cert, key, rejectUnauthorized, checkServerIdentity } = ssl === true ? ({} as ConnectionOptions) : ssl;
  const file = async (name: string, content: unknown): Promise<string> => {
    const path = join(folder, name);
    await writeFile(path, Buffer.isBuffer(content) ? content : String(content), { mode: 0o600 });
    return path;
  };
  // If the URL names no certificate, the driver trusts Node's list; libpq would look in ~/.postgresql.
  const roots = ca ?? rootCertificates.join('\n');
  const verified = checkServerIdentity === undefined ? 'verify-full' : 'verify-ca';
  return {
    PGSSLMODE: rejectUnauthorized === false ? 'require' : verified,
    // Even with `require`, libpq would verify the certificate if it found a root certificate.
    PGSSLROOTCERT: rejectUnauthorized === false ? join(folder, 'none') : await file('root.crt', roots),
    ...(cert === undefined ? {} : { PGSSLCERT: await file('client.crt', cert) }),
    ...(key === undefined ? {} : { PGSSLKEY: await file('client.key', key) }),
  };
}
