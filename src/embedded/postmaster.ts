/** One postmaster: starts it in its own session, waits until it accepts connections, and stops it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { type FileHandle, constants, open } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Binaries } from './binaries.js';
import { lastLines } from './cluster.js';
import { HBA } from './postgres-config.js';
import { isMissing, replaceFile } from '../files.js';
import { makeServerFolder, type ServerFolder } from './server-folder.js';
import { limited, type ProcessLimits } from './process-limits.js';
import { removeLeftovers, findPostmaster, readLockFile } from './lock-file.js';
import { endOrphans, postmasterArguments, stopPostmaster } from './processes.js';

/** A child of this process that accepts connections. */
export interface Postmaster {
  readonly pid: number;
  /**
   * Resolves after the server has exited, with the reason: `exit code 1`, `client backend was terminated by signal 11`.
   * Never rejects.
   */
  readonly ended: Promise<string>;
  /** Stops the server: rolls back transactions and closes connections. */
  stop(): Promise<void>;
}

/** Another postmaster had the data directory; it may have exited since. */
export class OtherPostmaster extends Error {}

interface StartOptions extends ProcessLimits {
  /** `postgresql.conf` as text. */
  readonly config: string;
  /** Only this process may run the server: a postmaster that is already running is stopped. */
  readonly exclusive: boolean;
}

const POLL_MS = 5;

/** Maximum number of attempts while leftovers of a dead server prevent the start. */
const ATTEMPTS = 3;

/**
 * Starts a server and waits until it accepts connections, however long its recovery takes. Leftovers of a dead server
 * are removed only if the start fails: a lock file whose process id now belongs to another process, or a backend that
 * outlived its postmaster.
 * @param signal aborted: the server is stopped instead
 * @throws OtherPostmaster, Error; both with the end of Postgres's log
 */
export async function startPostmaster(
  folder: ServerFolder,
  binaries: Binaries,
  options: StartOptions,
  signal?: AbortSignal,
): Promise<Postmaster> {
  await makeServerFolder(folder);
  await replaceFile(folder.config, options.config);
  await replaceFile(folder.hba, HBA);
  for (let attempt = 1; ; attempt++) {
    const started = await tryStart(folder, binaries, options, signal);
    if (!(started instanceof Error)) return started;
    if (attempt === ATTEMPTS || signal?.aborted) throw started;
    if (!options.exclusive && (await findPostmaster(folder)) !== undefined) throw started;
    if (!(await removeLeftovers(folder))) throw started;
  }
}

async function tryStart(
  folder: ServerFolder,
  binaries: Binaries,
  limits: ProcessLimits,
  signal: AbortSignal | undefined,
): Promise<Postmaster | Error> {
  if (signal?.aborted) return new Error('The start was canceled');
  const { child, exited, logStart } = await spawnPostmaster(folder, binaries, limits);
  const pid = child.pid as number;
  const ready = await isReady(folder, child, signal).catch((error: unknown) => {
    child.kill('SIGQUIT');
    throw error;
  });
  if (!ready || signal?.aborted) {
    if (signal?.aborted) await stopStarting(child, folder);
    const log = await logSince(folder, logStart).catch(String);
    const message = `Postgres did not start (${await exited}). The end of ${folder.log}:\n${lastLines(log)}`;
    return FOUND_OTHER.test(log) ? new OtherPostmaster(message) : new Error(message);
  }
  const ended = exited.then(async (how) => {
    // A busy backend outlives a killed postmaster, and this server may not be started again soon.
    if (how !== CLEAN_END) await endOrphans(folder).catch(() => {});
    // A log that cannot be read says nothing.
    return (await lastWords(folder, logStart).catch(() => undefined)) ?? how;
  });
  return { pid, ended, stop: () => stopPostmaster(pid, folder.data) };
}

/** Postgres's message if the lock file names a running process (miscinit.c of Postgres). */
const FOUND_OTHER = /FATAL: {2}lock file "postmaster\.pid" already exists/;

const CLEAN_END = 'exit code 0';

/** Repeated, because at first the process does not have the command line of a postmaster. */
async function stopStarting(child: ChildProcess, folder: ServerFolder): Promise<void> {
  while (!hasEnded(child)) {
    await stopPostmaster(child.pid as number, folder.data);
    await sleep(POLL_MS);
  }
}

/** Detached: it survives this process and a Ctrl-C in its terminal, and does not keep this process alive. */
async function spawnPostmaster(folder: ServerFolder, binaries: Binaries, limits: ProcessLimits) {
  const log = await openLog(folder);
  try {
    const logStart = (await log.stat()).size;
    const postgres = join(binaries.bin, 'postgres');
    const [program, args] = limited(postgres, postmasterArguments(folder), limits);
    const child = spawn(program, args, {
      ...folder.account,
      cwd: '/',
      env: binaries.environment,
      detached: true,
      stdio: ['ignore', log.fd, log.fd],
    });
    // Listens at once: a server that finds another one running exits within milliseconds.
    const exited = new Promise<string>((resolve) => {
      child.once('exit', (code, signal) => resolve(signal === null ? `exit code ${code}` : `ended by ${signal}`));
    });
    await new Promise((resolve, reject) => child.once('spawn', resolve).once('error', reject));
    child.unref();
    return { child, exited, logStart };
  } finally {
    await log.close();
  }
}

const hasEnded = (child: ChildProcess): boolean => child.exitCode !== null || child.signalCode !== null;

/** @returns false if it has exited, or `signal` is aborted */
async function isReady(folder: ServerFolder, child: ChildProcess, signal: AbortSignal | undefined): Promise<boolean> {
  for (let pause = POLL_MS; !hasEnded(child) && !signal?.aborted; pause = Math.min(pause * 1.2, 100)) {
    const lock = await readLockFile(folder);
    if (lock !== undefined && lock.pid === child.pid && lock.status === 'ready') return true;
    await sleep(pause);
  }
  return false;
}

/** The size limit of a server's log. */
const LOG_LIMIT_BYTES = 8 * 1024 * 1024;

/**
 * Opens the log for the server, and truncates it if it exceeds its limit, even while the server appends to it. Does not
 * follow a link, because this process may be root in another user's folder.
 */
async function openLog(folder: ServerFolder): Promise<FileHandle> {
  const { O_RDWR, O_APPEND, O_CREAT, O_NOFOLLOW } = constants;
  const file = await open(folder.log, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW, 0o600);
  try {
    const { uid, size, nlink } = await plainStat(file, folder.log);
    if (nlink > 1) throw new Error(`${folder.log} has another name, too`);
    if (uid !== folder.account.uid) await file.chown(folder.account.uid, folder.account.gid);
    if (size > LOG_LIMIT_BYTES) await file.truncate();
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function plainStat(file: FileHandle, path: string) {
  const stats = await file.stat();
  if (!stats.isFile()) throw new Error(`${path} is not a plain file`);
  return stats;
}

/** Keeps the log of a running server within its limit. When out of memory, Postgres logs 15 MB per second. */
export async function boundLog(folder: ServerFolder): Promise<void> {
  await (await openLog(folder)).close();
}

/** The end of the log is enough: the server's account can make it of any size. */
const LOG_END_BYTES = 65_536;

async function logSince({ log }: ServerFolder, start: number): Promise<string> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  const file = await open(log, O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
    return null;
  });
  if (file === null) return '';
  try {
    const { size } = await plainStat(file, log);
    const from = Math.max(size < start ? 0 : start, size - LOG_END_BYTES);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(LOG_END_BYTES), 0, LOG_END_BYTES, from);
    return buffer.toString('utf8', 0, bytesRead);
  } finally {
    await file.close();
  }
}

/**
 * Postgres's messages about the end of one of its processes. The rest of the log is kept back: it may contain a
 * project's data.
 */
const CRASH = /^\S+ \S+ \S+ \[\d+\] LOG: {2}((?:[a-z ]{1,40}) )\(PID \d+\) (was terminated by signal \d+)/;
const PANIC = /^\S+ \S+ \S+ \[\d+\] PANIC:/;

async function lastWords(folder: ServerFolder, logStart: number): Promise<string | undefined> {
  const lines = (await logSince(folder, logStart)).split('\n').reverse();
  for (const line of lines.slice(0, 200)) {
    const [, process, end] = CRASH.exec(line) ?? [];
    if (process !== undefined && end !== undefined) return process + end;
    if (PANIC.test(line)) return 'Postgres ended by PANIC';
  }
  return undefined;
}
