/** Whether a server that was shut down has written anything since its backup, by its control file. */
import { readSmallFileBelow } from '../../files.js';
import type { CopiedFiles } from '../manifest.js';
import { parseLsn, segmentOf } from './wal.js';

/** Places in `pg_control` (catalog/pg_control.h of Postgres 15 to 18), and the state of a server that was shut down. */
const [STATE, CHECKPOINT, TIMELINE] = [16, 32, 48];
const SHUT_DOWN = 1;

/** The first record of a segment is behind this header (access/xlog_internal.h). */
const SEGMENT_HEADER_BYTES = 40n;

/**
 * The end of a backup switches to a new segment. If nothing else was written, the checkpoint of the shutdown is its first
 * record.
 */
export async function isAsSaved(
  dataDirectory: string,
  { wal_stop: walStop, wal_segment_bytes: segmentBytes, timeline }: CopiedFiles,
): Promise<boolean> {
  const control = await readSmallFileBelow(dataDirectory, 'global/pg_control');
  if (control === null || control.readUInt32LE(STATE) !== SHUT_DOWN) return false;
  const next = (segmentOf(parseLsn(walStop) - 1n, segmentBytes) + 1n) * BigInt(segmentBytes);
  return (
    control.readBigUInt64LE(CHECKPOINT) === next + SEGMENT_HEADER_BYTES && control.readUInt32LE(TIMELINE) === timeline
  );
}
