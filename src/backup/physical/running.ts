/**
 * Copies the data folder of a server that runs and is used, by Postgres's own rules (manual 25.3.4, "Making a Base Backup
 * Using the Low Level API"). The copy has the log from its start to its end, and so needs no archive.
 */
import { randomBytes } from 'node:crypto';
import { type LoginOptions, startupOptions, withClient } from '../../postgres/server.js';
import { readControlFile } from './control-file.js';
import { type Add, type Copied, copyFile, copyFiles } from './data-folder.js';
import { copyHistories } from './stopped.js';
import { parseLsn, segmentName, segmentOf } from './wal.js';

interface RunningServer {
  readonly dataFolder: string;
  /** Of a superuser, or a role that may call `pg_backup_start` and make slots. */
  readonly login: LoginOptions;
  /** Aborted: the copy ends at once; the server's side of it ends with the connection. */
  readonly signal: AbortSignal;
}

/** A checkpoint on a busy disk takes its time; a server that is silent for longer has gone. */
const QUESTION_MS = 600_000;

/** Nothing that a project made is found by name here; a session whose client has gone ends within a second. */
const SETTINGS = {
  search_path: 'pg_catalog',
  statement_timeout: '0',
  lock_timeout: '0',
  idle_session_timeout: '0',
  client_connection_check_interval: '1s',
};

type Client = Parameters<Parameters<typeof withClient>[1]>[0];

/**
 * A temporary slot keeps the log from the checkpoint at the start on, and goes with the connection, however that ends.
 * Without it a checkpoint during the copy removes what the copy needs.
 * @throws Error with what to do where the log grew beyond `max_slot_wal_keep_size`: the server goes on without the slot, and the
 *   copy is worth nothing; what `add` throws; pg.DatabaseError
 */
export async function copyRunning({ dataFolder, login, signal }: RunningServer, add: Add): Promise<Copied> {
  const options = startupOptions(SETTINGS);
  const session = { ...login, application_name: 'cdp backup', options, query_timeout: QUESTION_MS };
  let slotStart: string | null = null;
  try {
    return await withClient(
      session,
      async (client) => {
        const lost = new AbortController();
        client.on('error', (error) => lost.abort(error));
        client.on('end', () => lost.abort(new Error('The server closed the connection of the backup')));
        const slot = `cdp_backup_${randomBytes(8).toString('hex')}`;
        slotStart = await reserve(client, slot);
        return copyBetween(client, slot, dataFolder, add, AbortSignal.any([signal, lost.signal]));
      },
      signal,
    );
  } catch (error) {
    if (slotStart !== null && !signal.aborted) await explainLoss(session, slotStart, signal);
    throw error;
  }
}

async function reserve(client: Client, slot: string): Promise<string> {
  const { rows } = await client.query<{ lsn: string }>(
    'SELECT lsn::text AS lsn FROM pg_create_physical_replication_slot($1, true, true)',
    [slot],
  );
  return rows[0]?.lsn ?? '';
}

async function copyBetween(
  client: Client,
  slot: string,
  dataFolder: string,
  add: Add,
  signal: AbortSignal,
): Promise<Copied> {
  const startedAt = new Date();
  const started = await client.query<{ lsn: string }>('SELECT pg_backup_start($1, true)::text AS lsn', [slot]);
  const { folders, bytes } = await copyFiles(dataFolder, add, signal);
  const stopped = await client.query<{ lsn: string; label: string; tablespaces: string }>(
    'SELECT lsn::text AS lsn, labelfile AS label, spcmapfile AS tablespaces FROM pg_backup_stop(wait_for_archive => false)',
  );
  const endedAt = new Date();
  const { lsn: walStop = '', label = '', tablespaces = '' } = stopped.rows[0] ?? {};
  if (tablespaces !== '')
    throw new Error('The server has tablespaces, which a backup of its data folder does not hold');
  const walStart = started.rows[0]?.lsn ?? '';
  const { timeline, segmentBytes, checksumVersion, catalogVersion } = await readControlFile(dataFolder);

  let wal = await copyHistories(dataFolder, add, signal);
  // The end is the byte after the last one that is needed.
  const last = segmentOf(parseLsn(walStop) - 1n, segmentBytes);
  for (let segment = segmentOf(parseLsn(walStart), segmentBytes); segment <= last; segment++) {
    const name = segmentName(timeline, segment, segmentBytes);
    const copied = await copyFile(dataFolder, `pg_wal/${name}`, add, signal);
    if (copied !== segmentBytes)
      throw new Error(`The server no longer has the segment ${name} of its log, or not all of it`);
    wal += copied;
  }
  await requireSlot(client, slot);
  await add('backup_label', [Buffer.from(label)]);
  const facts = { timeline, segmentBytes, checksumVersion, catalogVersion, startedAt, endedAt };
  return { folders, bytes: bytes + wal + Buffer.byteLength(label), walStart, walStop, ...facts };
}

/** A segment may be written over by a later one as soon as no slot keeps it. */
async function requireSlot(client: Client, slot: string): Promise<void> {
  const { rows } = await client.query<{ status: string }>(
    'SELECT wal_status AS status FROM pg_replication_slots WHERE slot_name = $1',
    [slot],
  );
  if (rows[0] === undefined || rows[0].status === 'lost')
    throw new Error('The server has dropped the slot of the backup');
}

/** A checkpoint that needs the room ends the session which holds the slot, without saying why. */
async function explainLoss(session: LoginOptions, slotStart: string, signal: AbortSignal): Promise<void> {
  const bound = await withClient(
    session,
    async (client) => {
      // Whole segments count (KeepLogSeg in xlog.c).
      const { rows } = await client.query<{ bound: string }>(
        `SELECT current_setting('max_slot_wal_keep_size') AS bound
         FROM pg_settings AS keep, pg_settings AS segment
         WHERE keep.name = 'max_slot_wal_keep_size' AND segment.name = 'wal_segment_size' AND keep.setting::bigint >= 0
           AND div(pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0'), segment.setting::numeric)
             - div(pg_wal_lsn_diff($1::pg_lsn, '0/0'), segment.setting::numeric)
             > div(keep.setting::numeric * 1048576, segment.setting::numeric)`,
        [slotStart],
      );
      return rows[0]?.bound;
    },
    signal,
  ).catch(() => undefined);
  if (bound === undefined) return;
  throw new Error(
    `The server wrote more than ${bound} of log while it was copied (max_slot_wal_keep_size), so the copy is not whole. ` +
      'Nothing happened to the server. Try again when it writes less',
  );
}
