/** `postmaster.pid`, Postgres's own lock on a data folder, which says who serves it and how far that one has come. */
import { link, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { PORT } from './config.js';
import { exists, hasCode, isMissing, unique } from '../../files.js';
import type { Home } from './home.js';
import { endOrphans, isAlive, servedFolder, stopPostmaster } from './processes.js';

interface LockFile {
  readonly pid: number;
  readonly status: string;
}

/** Reads the file: the pid is its first line, `starting`, `ready` or `stopping` its eighth (miscadmin.h of Postgres). */
export async function readLockFile(home: Home): Promise<LockFile | undefined> {
  const content = await readFile(lockPath(home), 'utf8').catch(orUndefined);
  return content === undefined ? undefined : parsed(content);
}

const lockPath = (home: Home): string => join(home.data, 'postmaster.pid');

function parsed(content: string): LockFile {
  const lines = content.split('\n');
  return { pid: Number.parseInt(lines[0] ?? ''), status: lines[7]?.trim() ?? '' };
}

/**
 * The postmaster that serves the data folder, if there is one. When there is none, nothing is left that keeps a new
 * one from starting: neither a lock file nor a busy process of a dead server, on which Postgres would give up.
 */
export async function findPostmaster(home: Home): Promise<number | undefined> {
  const content = await settledContent(lockPath(home));
  if (content !== undefined) {
    const { pid } = parsed(content);
    const folder = await servedFolder(pid);
    if (folder === home.data) return pid;
    // A server whose folder is no longer there: it is ours, and the data folder was moved under it.
    if (folder !== undefined && !(await exists(folder))) await stopPostmaster(pid, folder);
    await endOrphans(home);
  }
  for (const path of [lockPath(home), join(home.socketDir, `.s.PGSQL.${PORT}.lock`)]) await clear(path, home);
  return undefined;
}

/**
 * Removes a lock file that Postgres would wrongly respect: an empty one, or one whose process id now belongs to another
 * program or to a zombie. One whose process is gone stays: Postgres clears it away itself, and learns from it whether
 * the dead server's memory is still in use.
 */
async function clear(path: string, home: Home): Promise<void> {
  const content = await settledContent(path);
  if (content === undefined) return;
  const { pid } = parsed(content);
  if (isAlive(pid) && (await servedFolder(pid)) !== home.data) await setAside(path, content);
}

/** A starting postmaster makes the file and then fills it, so an empty one is only a remnant when it stays empty. */
async function settledContent(path: string): Promise<string | undefined> {
  for (;;) {
    const content = await readFile(path, 'utf8').catch(orUndefined);
    if (content === undefined || !Number.isNaN(parsed(content).pid)) return content;
    const made = await stat(path).catch(orUndefined);
    if (made !== undefined && Date.now() - made.mtimeMs > 2_000) return content;
    await sleep(20);
  }
}

/** Removes the file if it is still the one that was judged; a postmaster started meanwhile gets its own back. */
async function setAside(path: string, judged: string): Promise<void> {
  const aside = `${path}.${unique()}`;
  try {
    await rename(path, aside);
  } catch (error) {
    if (isMissing(error)) return;
    throw error;
  }
  if ((await readFile(aside, 'utf8')) !== judged) {
    await link(aside, path).catch((error: unknown) => {
      if (!hasCode(error, 'EEXIST')) throw error;
    });
  }
  await rm(aside);
}

function orUndefined(error: unknown): undefined {
  if (!isMissing(error)) throw error;
}
