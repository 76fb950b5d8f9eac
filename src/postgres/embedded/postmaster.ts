/** One postmaster: started in a session of its own, watched until it is ready, its log kept within bounds. */
import { type ChildProcess, spawn } from 'node:child_process';
import { type FileHandle, constants, open } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Binaries } from './binaries.js';
import { lastLines } from './cluster.js';
import { HBA, serverConfig } from './config.js';
import { replaceFile } from '../../files.js';
import type { Home, Log } from './home.js';
import { readLockFile } from './lock-file.js';
import { limited } from './limits.js';
import { postmasterArguments, serves, stopPostmaster } from './processes.js';

export interface Postmaster {
  readonly pid: number;
  /** Present where this process started it. */
  readonly child?: ChildProcess;
}

const POLL_MS = 10;
const LOG_LIMIT_BYTES = 16 * 1024 * 1024;

/** Starts a postmaster that neither our end nor Ctrl-C in our terminal reaches, and that does not keep us alive. */
export async function startPostmaster(
  home: Home,
  binaries: Binaries,
  options: { durable: boolean; backendMib: number; connections: number },
): Promise<{ postmaster: Postmaster; failure: () => Promise<Error> }> {
  await replaceFile(home.config, serverConfig(home, options.connections, options.durable));
  await replaceFile(home.hba, HBA);
  const log = await openLog(home);
  try {
    const logStart = (await log.stat()).size;
    const [program, args] = limited(join(binaries.bin, 'postgres'), postmasterArguments(home), options.backendMib);
    const child = spawn(program, args, {
      ...home.account,
      cwd: '/',
      env: binaries.environment,
      detached: true,
      stdio: ['ignore', log.fd, log.fd],
    });
    await new Promise((resolve, reject) => child.once('spawn', resolve).once('error', reject));
    child.unref();
    return { postmaster: { pid: child.pid as number, child }, failure: () => startFailure(home, child, logStart) };
  } finally {
    await log.close();
  }
}

export function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

/** It did not end by itself, which it would do again. */
export const wasKilled = ({ child }: Postmaster): boolean => child !== undefined && child.signalCode !== null;

/** Whether it serves the folder no more. */
export const isGone = async (home: Home, { pid, child }: Postmaster): Promise<boolean> =>
  child === undefined ? !(await serves(pid, home.data)) : hasEnded(child);

/**
 * Waits while the postmaster starts, for as long as it takes: after a crash it first replays its log.
 * @returns false when it has ended instead.
 */
export async function isReady(home: Home, postmaster: Postmaster, log: Log): Promise<boolean> {
  const { pid } = postmaster;
  const started = Date.now();
  for (let told = 0; ;) {
    if (await isGone(home, postmaster)) return false;
    const lock = await readLockFile(home);
    if (lock?.pid === pid && lock.status === 'ready') return true;
    // Whoever asked it to end may be gone and not see it through.
    if (lock?.pid === pid && lock.status === 'stopping') await stopPostmaster(pid, home.data);
    const seconds = Math.floor((Date.now() - started) / 5_000) * 5;
    if (seconds > told) log('Postgres is still starting', { seconds });
    told = seconds;
    await sleep(POLL_MS);
  }
}

/**
 * Opens the log for the server to write to. Over its limit it is emptied, under a running server too, which writes to
 * its end (O_APPEND). A link is not followed: we may be root in a folder of somebody else.
 */
export async function openLog(home: Home): Promise<FileHandle> {
  const { O_RDWR, O_APPEND, O_CREAT, O_NOFOLLOW } = constants;
  const file = await open(home.log, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW, 0o600);
  await file.chown(home.account.uid, home.account.gid);
  if ((await file.stat()).size > LOG_LIMIT_BYTES) await file.truncate();
  return file;
}

async function startFailure(home: Home, child: ChildProcess, logStart: number): Promise<Error> {
  const file = await openLog(home);
  try {
    const said = (await file.readFile()).subarray(logStart).toString();
    const how = child.signalCode ?? `exit code ${child.exitCode}`;
    return new Error(`Postgres did not start (${how}). The end of ${home.log}:\n${lastLines(said)}`);
  } finally {
    await file.close();
  }
}
