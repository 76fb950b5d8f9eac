/** One postmaster: started in a session of its own, watched until it accepts connections, and until it ends. */
import { type ChildProcess, spawn } from 'node:child_process';
import { type FileHandle, constants, open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Binaries } from './binaries.js';
import { lastLines } from './cluster.js';
import { HBA } from './config.js';
import { isMissing, replaceFile } from '../files.js';
import { type Home, makeHome } from './home.js';
import { limited } from './limits.js';
import { clearAway, findPostmaster, readLockFile } from './lock-file.js';
import { endOrphans, postmasterArguments, stopPostmaster } from './processes.js';

/** A postmaster that accepts connections, and is a child of this process. */
export interface Postmaster {
  readonly pid: number;
  /** Resolves when it has ended, with its last words: `exit code 1`, `client backend was terminated by signal 11`. */
  readonly ended: Promise<string>;
  /** Ends it: transactions are rolled back, connections closed. */
  stop(): Promise<void>;
}

export interface StartOptions {
  /** `postgresql.conf` as text. */
  readonly config: string;
  /** MiB of private memory that each of its processes may take. */
  readonly backendMib: number;
  /** Nobody else may run this server: one that is found running is stopped. */
  readonly exclusive: boolean;
}

const POLL_MS = 5;

/** How often a start may meet what a dead server left behind. */
const ATTEMPTS = 3;

/**
 * Starts the server of a home and waits until it accepts connections, for as long as a recovery takes. What a dead
 * server has left is cleared away only if the start fails: a lock file with a pid that belongs to another process now,
 * or a backend that outlived its postmaster.
 * @param signal stops the server instead, if it is aborted
 * @throws Error with the end of Postgres's log
 */
export async function startPostmaster(
  home: Home,
  binaries: Binaries,
  options: StartOptions,
  signal?: AbortSignal,
): Promise<Postmaster> {
  await makeHome(home);
  await replaceFile(home.config, options.config);
  await replaceFile(home.hba, HBA);
  for (let attempt = 1; ; attempt++) {
    const started = await tryStart(home, binaries, options.backendMib, signal);
    if (!(started instanceof Error)) return started;
    if (attempt === ATTEMPTS || signal?.aborted) throw started;
    if (!options.exclusive && (await findPostmaster(home)) !== undefined) throw started;
    if (!(await clearAway(home))) throw started;
  }
}

async function tryStart(
  home: Home,
  binaries: Binaries,
  backendMib: number,
  signal: AbortSignal | undefined,
): Promise<Postmaster | Error> {
  if (signal?.aborted) return new Error('The start was ended before it began');
  const { child, logStart } = await spawnPostmaster(home, binaries, backendMib);
  const pid = child.pid as number;
  const exited = new Promise<string>((resolve) => {
    child.once('exit', (code, signal) => resolve(signal === null ? `exit code ${code}` : `ended by ${signal}`));
  });
  const ready = await isReady(home, child, signal);
  if (!ready || signal?.aborted) {
    if (signal?.aborted) await stopStarting(child, home);
    const log = await logSince(home, logStart);
    return new Error(`Postgres did not start (${await exited}). The end of ${home.log}:\n${lastLines(log)}`);
  }
  const ended = exited.then(async (how) => {
    // A busy backend outlives a postmaster that was killed, and nobody might start this server again.
    if (how !== CLEAN_END) await endOrphans(home).catch(() => {});
    return (await lastWords(home, logStart)) ?? how;
  });
  return { pid, ended, stop: () => stopPostmaster(pid, home.data) };
}

const CLEAN_END = 'exit code 0';

/** In its first moments the system may not show yet what it is. */
async function stopStarting(child: ChildProcess, home: Home): Promise<void> {
  while (!hasEnded(child)) {
    await stopPostmaster(child.pid as number, home.data);
    await sleep(POLL_MS);
  }
}

/** Neither our end nor Ctrl-C in our terminal reaches it, and it does not keep us alive. */
async function spawnPostmaster(home: Home, binaries: Binaries, backendMib: number) {
  const log = await openLog(home);
  try {
    const logStart = (await log.stat()).size;
    const postgres = join(binaries.bin, 'postgres');
    const [program, args] = limited(postgres, postmasterArguments(home), backendMib);
    const child = spawn(program, args, {
      ...home.account,
      cwd: '/',
      env: binaries.environment,
      detached: true,
      stdio: ['ignore', log.fd, log.fd],
    });
    await new Promise((resolve, reject) => child.once('spawn', resolve).once('error', reject));
    child.unref();
    return { child, logStart };
  } finally {
    await log.close();
  }
}

const hasEnded = (child: ChildProcess): boolean => child.exitCode !== null || child.signalCode !== null;

/** @returns false if it has ended instead, or was told to */
async function isReady(home: Home, child: ChildProcess, signal: AbortSignal | undefined): Promise<boolean> {
  for (let pause = POLL_MS; !hasEnded(child) && !signal?.aborted; pause = Math.min(pause * 1.2, 100)) {
    const lock = await readLockFile(home);
    if (lock !== undefined && lock.pid === child.pid && lock.status === 'ready') return true;
    await sleep(pause);
  }
  return false;
}

/** The log of one server may take this much of the disk. */
const LOG_LIMIT_BYTES = 8 * 1024 * 1024;

/**
 * Opens the log for the server to write to. Over its limit it is emptied, under a running server too, which writes to
 * its end (O_APPEND). A link is not followed: we may be root in a folder of somebody else.
 */
async function openLog(home: Home): Promise<FileHandle> {
  const { O_RDWR, O_APPEND, O_CREAT, O_NOFOLLOW } = constants;
  const file = await open(home.log, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW, 0o600);
  if ((await file.stat()).uid !== home.account.uid) await file.chown(home.account.uid, home.account.gid);
  if ((await file.stat()).size > LOG_LIMIT_BYTES) await file.truncate();
  return file;
}

/** Keeps the log of a running server within its limit. Out of memory, Postgres writes 15 MB a second of it. */
export async function boundLog(home: Home): Promise<void> {
  await (await openLog(home)).close();
}

async function logSince(home: Home, start: number): Promise<string> {
  const log = await readFile(home.log).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
    return Buffer.alloc(0);
  });
  return log.subarray(log.length < start ? 0 : start).toString();
}

/** What Postgres says when one of its processes dies. Nothing else of the log is passed on: the rest may contain a project's text. */
const CRASH = /^\S+ \S+ \S+ \[\d+\] LOG: {2}((?:[a-z ]{1,40}) )\(PID \d+\) (was terminated by signal \d+)/;
const PANIC = /^\S+ \S+ \S+ \[\d+\] PANIC:/;

async function lastWords(home: Home, logStart: number): Promise<string | undefined> {
  const lines = (await logSince(home, logStart)).slice(-65_536).split('\n').reverse();
  for (const line of lines.slice(0, 200)) {
    const [, process, end] = CRASH.exec(line) ?? [];
    if (process !== undefined && end !== undefined) return process + end;
    if (PANIC.test(line)) return 'Postgres ended by PANIC';
  }
  return undefined;
}
