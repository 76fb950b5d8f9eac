/** The program `cdp` as a process of its own: started, watched, signaled and always ended, whatever a test does. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, cp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import pg, { type ClientConfig } from 'pg';
import { type Account, canEnter, run } from '../../src/embedded/accounts.js';
import { SUPERUSER } from '../../src/embedded/postgres-config.js';
import { findPostmasters, serves } from '../../src/embedded/processes.js';
import { makeFolder } from './folder.js';
import { copyPreparedDataDir } from './prepared-data-dir.js';

export const projectRoot = fileURLToPath(new URL('../..', import.meta.url));

export interface Surroundings {
  /** Besides PATH and HOME, nothing of ours gets through. */
  env?: Record<string, string>;
  /** As whom; default: ourselves. */
  account?: Account;
  /** Folder of the program, default: this project's. See {@link programFor}. */
  program?: string;
  /** Node itself; default: the one that runs us. */
  node?: string;
  cwd?: string;
  /** For its standard input, which then ends. */
  input?: string;
}

export interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

export interface RunningProgram {
  readonly process: ChildProcess;
  /** What it has written to stdout so far. */
  readonly output: () => string;
  /** The lines of stdout that are JSON. */
  readonly log: () => Record<string, unknown>[];
  readonly ended: Promise<Ended>;
  /** Signals it and waits for its end. */
  readonly end: (signal?: NodeJS.Signals) => Promise<Ended>;
}

export interface RunningService extends RunningProgram {
  readonly url: string;
}

/** Everything that was started and has not ended, for {@link endEverything}. */
const running = new Set<ChildProcess>();
const folders: string[] = [];
const dataDirs: string[] = [];

export function startProgram(args: readonly string[], surroundings: Surroundings = {}): RunningProgram {
  const { env = {}, account, program = projectRoot, node = process.execPath, cwd = '/', input } = surroundings;
  const { PATH = '', HOME = '/' } = process.env;
  const child = spawn(node, [join(program, 'dist/cli/bin.js'), ...args], {
    ...account,
    cwd,
    env: { PATH, HOME, ...env },
    stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
  });
  child.stdin?.on('error', () => {}).end(input);
  running.add(child);
  let [stdout, stderr] = ['', ''];
  child.stdout?.setEncoding('utf8').on('data', (text: string) => void (stdout += text));
  child.stderr?.setEncoding('utf8').on('data', (text: string) => void (stderr += text));
  const ended = once(child, 'close').then(([code, signal]) => {
    running.delete(child);
    return { code: code as number | null, signal: signal as NodeJS.Signals | null, stdout, stderr };
  });
  return {
    process: child,
    output: () => stdout,
    log: () => jsonLines(stdout),
    ended,
    end: (signal = 'SIGTERM') => {
      child.kill(signal);
      return ended;
    },
  };
}

/** Runs a command to its end. */
export const runProgram = (args: readonly string[], surroundings?: Surroundings): Promise<Ended> =>
  startProgram(args, surroundings).ended;

/**
 * Starts `cdp serve` and waits until it listens.
 * @throws Error with what it wrote, where it ends instead
 */
export async function startServe(args: readonly string[], surroundings?: Surroundings): Promise<RunningService> {
  const program = startProgram(['serve', '--port', '0', ...args], surroundings);
  let end: Ended | undefined;
  void program.ended.then((ended) => (end = ended));
  for (;;) {
    const line = program.log().find(({ msg }) => msg === 'listening');
    if (line !== undefined) return { ...program, url: String(line.url) };
    if (end !== undefined)
      throw new Error(`cdp serve ended with ${end.code ?? end.signal}:\n${end.stdout}${end.stderr}`);
    await sleep(10);
  }
}

function jsonLines(text: string): Record<string, unknown>[] {
  return text
    .split('\n')
    .slice(0, -1)
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

/**
 * A data folder that does not exist yet, in a place that an unprivileged Postgres can reach. Gone after the tests.
 * @param below folders in between
 */
export async function newDataDir(...below: string[]): Promise<string> {
  const dataDir = join(await newFolder(), ...below, 'data');
  dataDirs.push(dataDir);
  return dataDir;
}

/** One in which initdb has been, for whatever is not about the first start itself. */
export async function preparedDataDir(): Promise<string> {
  const dataDir = await newDataDir();
  await copyPreparedDataDir(dataDir);
  return dataDir;
}

export async function newFolder(): Promise<string> {
  const folder = makeFolder('cdp-program-');
  await chmod(folder, 0o711);
  folders.push(folder);
  return folder;
}

/** The process id of the control server of a data folder; undefined if it does not run. */
export const postmasterOf = (dataDir: string): Promise<number | undefined> => postmasterIn(dataDir, 'control');

/** The same of a project's server. */
export const projectPostmaster = async (dataDir: string, project = 'default'): Promise<number | undefined> =>
  postmasterIn(dataDir, join('projects', await serverOf(dataDir, project)));

/** The id of a project's server, as the control database knows it. */
export async function serverOf(dataDir: string, project = 'default'): Promise<string> {
  const client = new pg.Client(superuserOf(dataDir));
  await client.connect();
  try {
    const { rows } = await client.query<{ server: string }>('SELECT server FROM cdp.projects WHERE name = $1', [
      project,
    ]);
    return rows[0]?.server ?? '';
  } finally {
    await client.end();
  }
}

/** Pids of all servers that run in a data folder. */
export const postmastersIn = async (dataDir: string): Promise<number[]> =>
  (await findPostmasters(join(dataDir, 'postgres'))).map(({ pid }) => pid);

async function postmasterIn(dataDir: string, server: string): Promise<number | undefined> {
  const data = join(dataDir, 'postgres', server, 'data');
  const content = await readFile(join(data, 'postmaster.pid'), 'utf8').catch(() => '');
  const pid = Number.parseInt(content);
  return !Number.isNaN(pid) && (await serves(pid, data)) ? pid : undefined;
}

/** The token that a first start without a terminal leaves in the data folder. */
export const firstToken = (dataDir: string): Promise<string> =>
  eventually('the first token is in its file', async () => {
    const content = await readFile(join(dataDir, 'first-token'), 'utf8').catch(() => '');
    return content.endsWith('\n') && content.trim();
  });

/** How the superuser comes into the control database of a data folder. */
export const superuserOf = (dataDir: string): ClientConfig => ({
  host: join(dataDir, 'postgres/control/socket'),
  user: SUPERUSER,
  database: 'postgres',
});

/** The same of a project's database, while its server runs. */
export const superuserOfProject = async (dataDir: string, project = 'default'): Promise<ClientConfig> => ({
  host: join(dataDir, 'postgres/projects', await serverOf(dataDir, project), 'socket'),
  user: SUPERUSER,
  database: 'project',
});

/** For `afterAll`: kills what a failed test has left, service and Postgres, and removes the data folders. */
export async function endEverything(): Promise<void> {
  await killEverything();
  dataDirs.length = 0;
  for (const folder of folders.splice(0)) {
    await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  }
}

/** The same, and leaves the folders for the test to look into. */
export async function killEverything(): Promise<void> {
  for (const child of running) {
    child.kill('SIGKILL');
    await once(child, 'close');
  }
  for (const dataDir of dataDirs) {
    for (const { pid } of await findPostmasters(join(dataDir, 'postgres'))) process.kill(pid, 'SIGKILL');
  }
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  if (address === null || typeof address === 'string') throw new Error('No port');
  return address.port;
}

/**
 * Asks again until the response is not false, null or undefined: at first often, later less, since asking takes the
 * processor from what it waits for. @throws after `seconds`, naming `what`
 */
export async function eventually<T>(
  what: string,
  ask: () => Promise<T | false | null | undefined>,
  seconds = 60,
): Promise<T> {
  for (const since = Date.now(); Date.now() - since < seconds * 1_000;) {
    const response = await ask();
    if (response !== false && response !== null && response !== undefined) return response;
    await sleep(Math.min(10 + (Date.now() - since) / 20, 50));
  }
  throw new Error(`It did not happen within ${seconds} seconds: ${what}`);
}

/**
 * The program as the account can run it: in place where it can get there, else a copy in `folder`, readable for
 * everybody, of the build, the packages that it needs and Node itself.
 */
export async function programFor(account: Account, folder: string): Promise<Surroundings> {
  if ((await canRun(account, process.execPath)) && (await canEnter(account, join(projectRoot, 'dist')))) {
    return { account };
  }
  const lock = JSON.parse(await readFile(join(projectRoot, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { dev?: boolean }>;
  };
  const packages = Object.keys(lock.packages).filter((path) => path !== '' && lock.packages[path]?.dev !== true);
  const installed = packages.filter((path) => existsSync(join(projectRoot, path)));
  for (const path of ['package.json', 'dist', ...installed]) {
    await cp(join(projectRoot, path), join(folder, path), { recursive: true, verbatimSymlinks: true });
  }
  const node = join(folder, 'node');
  await cp(process.execPath, node);
  await once(spawn('chmod', ['-R', 'a+rX', folder]), 'close');
  return { account, program: folder, node };
}

const canRun = (account: Account, program: string): Promise<boolean> =>
  run(account, program, ['--version']).then(
    ({ code }) => code === 0,
    () => false,
  );
