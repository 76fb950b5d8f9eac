/** Copies the data folder of a server that was stopped cleanly. */
import { join } from 'node:path';
import { exists } from '../../files.js';
import { type ControlFile, readControlFile } from './control-file.js';
import { type Add, type Copied, copyFile, copyFiles } from './data-folder.js';
import { formatLsn, IS_TIMELINE_HISTORY, segmentName, segmentOf } from './wal.js';
import { readdir } from 'node:fs/promises';

/**
 * The caller sees to it that nobody starts the server meanwhile; where somebody did, the copy is refused at its end.
 * @throws Error where the server runs, or did not end cleanly; what `add` throws
 */
export async function copyStopped(dataFolder: string, add: Add, signal: AbortSignal): Promise<Copied> {
  const startedAt = new Date();
  const before = await cleanlyStopped(dataFolder);
  const { folders, bytes } = await copyFiles(dataFolder, add, signal);
  const wal = await copyWal(dataFolder, before, add, signal);
  const after = await cleanlyStopped(dataFolder);
  if (after.checkpoint !== before.checkpoint) throw new Error(`The server in ${dataFolder} ran while it was copied`);
  const lsn = formatLsn(before.checkpoint);
  const { timeline, segmentBytes, checksumVersion, catalogVersion } = before;
  const facts = { timeline, segmentBytes, checksumVersion, catalogVersion, startedAt, endedAt: new Date() };
  return { folders, bytes: bytes + wal, walStart: lsn, walStop: lsn, ...facts };
}

async function cleanlyStopped(dataFolder: string): Promise<ControlFile> {
  if (await exists(join(dataFolder, 'postmaster.pid'))) throw new Error(`A server runs in ${dataFolder}`);
  const control = await readControlFile(dataFolder);
  if (control.state === 'shut down') return control;
  throw new Error(`The server in ${dataFolder} did not end cleanly (${control.state}): start it, and stop it again`);
}

/** The segment of the last checkpoint, and the next one, where the record may end. */
async function copyWal(
  dataFolder: string,
  { checkpoint, timeline, segmentBytes }: ControlFile,
  add: Add,
  signal: AbortSignal,
): Promise<number> {
  const first = segmentOf(checkpoint, segmentBytes);
  const copy = (name: string) => copyFile(dataFolder, `pg_wal/${name}`, add, signal);
  const bytes = await copy(segmentName(timeline, first, segmentBytes));
  if (bytes === null) throw new Error(`${dataFolder} lacks the segment of its last checkpoint`);
  const next = await copy(segmentName(timeline, first + 1n, segmentBytes));
  return bytes + (next ?? 0) + (await copyHistories(dataFolder, add, signal));
}

/** Where the timelines before this one ended. */
export async function copyHistories(dataFolder: string, add: Add, signal: AbortSignal): Promise<number> {
  let bytes = 0;
  for (const name of (await readdir(join(dataFolder, 'pg_wal'))).filter((entry) => IS_TIMELINE_HISTORY.test(entry))) {
    bytes += (await copyFile(dataFolder, `pg_wal/${name}`, add, signal)) ?? 0;
  }
  return bytes;
}
