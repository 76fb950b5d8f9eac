/** Postgres's own client programs, pg_dump and pg_restore: finding a pair that fits the server, and running one. */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, constants, readdir, realpath } from 'node:fs/promises';
import { basename, delimiter, dirname, join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

/** Where to look: the operator's folder alone, where one is named; else PATH and the usual places. */
export interface ProgramPlaces {
  readonly folder: string | null;
  /** The environment's PATH. */
  readonly path: string;
}

export interface ClientPrograms {
  readonly folder: string;
  /** As they report it: `18.4`. */
  readonly version: string;
  readonly major: number;
}

/** Folders that packages install to, a star for any name: Debian, Red Hat, Homebrew, Postgres.app, the installer. */
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
 * The pair of the lowest fitting version: pg_dump refuses a server that is newer than itself, pg_restore an archive that is,
 * and what a newer one writes an older server need not understand.
 * @param least major version that they must have
 * @param most major version that they may have
 * @throws Error that says what to install
 */
export async function findPrograms(places: ProgramPlaces, least: number, most = Infinity): Promise<ClientPrograms> {
  const found: ClientPrograms[] = [];
  for (const folder of await candidates(places)) {
    const version = await versionIn(folder);
    if (version !== null) found.push({ folder, version, major: Number.parseInt(version) });
  }
  const [best] = found
    .filter(({ major }) => major >= least && major <= most)
    .sort((a, b) => a.major - b.major || b.version.localeCompare(a.version, 'en', { numeric: true }));
  if (best === undefined) throw new Error(whatToInstall(places, found, least, most));
  return best;
}

function whatToInstall({ folder }: ProgramPlaces, found: readonly ClientPrograms[], least: number, most: number) {
  const wanted = most === Infinity ? `version ${least} or later` : `version ${least} to ${most}`;
  const seen = found.map(({ version, folder: where }) => `${version} in ${where}`).join(', ') || 'none at all';
  const where = folder === null ? 'in PATH and the usual places' : `in ${folder}`;
  return (
    `pg_dump and pg_restore of ${wanted} are needed, and ${where} there is ${seen}. They are not part of this package: ` +
    `install postgresql-client-${least} (Debian, Ubuntu; for every version from apt.postgresql.org), postgresql${least} ` +
    `(Red Hat; from yum.postgresql.org) or postgresql@${least} (Homebrew), or name their folder by --postgres-bin ` +
    '(CDP_POSTGRES_BIN)'
  );
}

async function candidates({ folder, path }: ProgramPlaces): Promise<string[]> {
  if (folder !== null) return [folder];
  const usual = await Promise.all(USUAL_PLACES.map(expanded));
  const inPath = await Promise.all(path.split(delimiter).filter(Boolean).map(realFolder));
  return [...new Set([...inPath.flatMap((place) => place ?? []), ...usual.flat()])];
}

/** The folder of the program itself: what stands in PATH may be Debian's wrapper, which chooses among versions. */
async function realFolder(folder: string): Promise<string | null> {
  const program = await realpath(join(folder, 'pg_dump')).catch(() => null);
  return program !== null && basename(program) === 'pg_dump' ? dirname(program) : null;
}

async function expanded(pattern: string): Promise<string[]> {
  const [before = '', after] = pattern.split('*');
  if (after === undefined) return [pattern];
  const parent = before.endsWith('/') ? before : dirname(before);
  const names = await readdir(parent).catch(() => []);
  return names.map((name) => join(parent, name)).flatMap((path) => (path.startsWith(before) ? [path + after] : []));
}

/** null where the folder does not hold both programs of one version. */
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
  /** What it reads; default: nothing. It may end without having read it all. */
  readonly input?: Readable;
}

/** What a dump holds was refused. The words may name tables of a project: they are for the operator. */
export class ProgramFailed extends Error {}

/** Runs a program to its end. @returns what it wrote. @throws ProgramFailed */
export async function run(program: string, args: readonly string[], options: RunOptions): Promise<string> {
  const parts: Buffer[] = [];
  await stream(program, args, options, async (output) => {
    for await (const part of output) parts.push(part as Buffer);
  });
  return Buffer.concat(parts).toString();
}

/** Runs a program and hands what it writes to `take`, under back-pressure. @throws ProgramFailed, what `take` throws */
export async function stream(
  program: string,
  args: readonly string[],
  { environment, signal, input }: RunOptions,
  take: (output: Readable) => Promise<void>,
): Promise<void> {
  signal?.throwIfAborted();
  const child = spawn(program, args, { env: environment, cwd: '/', stdio: ['pipe', 'pipe', 'pipe'], signal });
  const said = collected(child);
  const ended = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>;
  ended.catch(() => {});
  try {
    // A program that is content before the end of its input closes it: how it ended is what counts.
    const fed = feed(child, input).catch(() => {});
    await take(child.stdout);
    await fed;
    const [code, killedBy] = await ended;
    if (code !== 0) throw new ProgramFailed(`${basename(program)}: ${said() || `ended with ${code ?? killedBy}`}`);
  } catch (error) {
    child.kill('SIGKILL');
    await ended.catch(() => {});
    throw signal?.aborted ? signal.reason : error;
  }
}

type Child = ChildProcessByStdio<Writable, Readable, Readable>;

async function feed({ stdin }: Child, input: Readable | undefined): Promise<void> {
  stdin.on('error', () => {});
  if (input === undefined) stdin.end();
  else await pipeline(input, stdin);
}

/** The end of what it says on stderr. */
function collected({ stderr }: Child): () => string {
  let text = '';
  stderr.setEncoding('utf8').on('data', (part: string) => (text = (text + part).slice(-4_000)));
  return () => text.trim();
}
