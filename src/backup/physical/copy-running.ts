/**
 * Copies the data directory of a running server by Postgres's low-level base backup (Postgres manual, Making a Base
 * Backup Using the Low Level API). The copy includes the WAL written meanwhile, so it needs no archive.
 */
import { randomBytes } from 'node:crypto';
import {
  isShutdown,
  type LoginOptions,
  type Row,
  type Session,
  sql,
  startupOptions,
  type Statement,
  withSession,
} from '../../pg/index.js';
import type { CopiedFiles } from '../manifest.js';
import { type AddFile, copyFile, copyFiles, copyTimelineHistories } from './data-files.js';
import { type DamagedPages, PageCheck } from './page-checksums.js';
import { parseLsn, segmentName, segmentOf } from './wal.js';

interface RunningServer {
  readonly dataDirectory: string;
  /** The login of a superuser. */
  readonly login: LoginOptions;
  readonly signal: AbortSignal;
}

/** A checkpoint on a busy disk can take minutes; a server that takes longer has failed. */
const QUERY_MS = 600_000;

/**
 * Names resolve only to objects of pg_catalog, never of the project. The session ends within a second of its client.
 */
const SETTINGS = {
  search_path: 'pg_catalog',
  statement_timeout: '0',
  lock_timeout: '0',
  idle_session_timeout: '0',
  client_connection_check_interval: '1s',
};

const loginForBackup = (login: LoginOptions) => ({
  ...login,
  application_name: 'cdp backup',
  options: startupOptions(SETTINGS),
  timeoutMs: QUERY_MS,
});

/**
 * A temporary replication slot keeps the WAL that the copy needs, from before the checkpoint at its start. It ends with
 * the connection.
 * @throws DamagedPages; Error if the server was stopped or its WAL outgrew `max_slot_wal_keep_size`; what `add` throws; PostgresError
 */
export async function copyRunning({ dataDirectory, login, signal }: RunningServer, add: AddFile): Promise<CopiedFiles> {
  const copy = async (session: Session): Promise<CopiedFiles> => {
    const connectionLost = new AbortController();
    session.onClose((reason) => connectionLost.abort(reason));
    return copyInSession(session, dataDirectory, add, AbortSignal.any([signal, connectionLost.signal]));
  };
  try {
    return await withSession(loginForBackup(login), copy, signal);
  } catch (error) {
    if (!isShutdown(error)) throw error;
    // Postgres ends the session of a slot if a checkpoint needs the disk space of the WAL (Postgres manual, Sending
    // Servers).
    const message =
      'The server ended the backup: it was stopped, or it wrote more WAL during the copy than max_slot_wal_keep_size ' +
      'allows. The project is not affected. Try again when it writes less';
    throw new Error(message, { cause: error });
  }
}

/** Reads all pages of a server. @returns those that are damaged; null: none, or its pages have no checksums */
export async function damagedPages({ dataDirectory, login, signal }: RunningServer): Promise<DamagedPages | null> {
  const discard: AddFile = async (_path, content) => {
    for await (const part of content) void part;
  };
  return withSession(
    loginForBackup(login),
    async (session) => {
      const [checksums] = await row(session, sql`SELECT data_page_checksum_version FROM pg_control_init()`);
      if (checksums === '0') return null;
      // What the recovery has changed is in memory first.
      await session.query(sql`CHECKPOINT`);
      const [start] = await row(session, NOW);
      const pages = new PageCheck(start ?? '');
      await copyFiles(dataDirectory, discard, signal, pages);
      const [stop] = await row(session, NOW);
      return pages.damageUntil(stop ?? '');
    },
    signal,
  );
}

const NOW = sql`SELECT pg_current_wal_insert_lsn()`;

async function copyInSession(
  session: Session,
  dataDirectory: string,
  add: AddFile,
  signal: AbortSignal,
): Promise<CopiedFiles> {
  const slot = `cdp_backup_${randomBytes(8).toString('hex')}`;
  await session.query(sql`SELECT pg_create_physical_replication_slot(${slot}, true, true)`);
  const startedAt = new Date().toISOString();
  const [start] = await row(session, sql`SELECT pg_backup_start(${slot}, true)`);
  const [checksums] = await row(session, sql`SELECT data_page_checksum_version FROM pg_control_init()`);
  const check = checksums === '0' ? null : new PageCheck(start ?? '');
  const { folders, bytes } = await copyFiles(dataDirectory, add, signal, check);
  const [stop, label, tablespaces] = await row(
    session,
    sql`SELECT lsn, labelfile, spcmapfile FROM pg_backup_stop(wait_for_archive => false)`,
  );
  const endedAt = new Date().toISOString();
  const damage = check?.damageUntil(stop ?? '') ?? null;
  if (damage !== null) throw damage;
  if (tablespaces !== '') throw new Error('The server has tablespaces, which are outside of its data directory');
  const facts = await row(
    session,
    sql`SELECT timeline_id, bytes_per_wal_segment, data_page_checksum_version, catalog_version_no
        FROM pg_control_checkpoint(), pg_control_init(), pg_control_system()`,
  );
  const [timeline = 0, segmentBytes = 0, checksumVersion = 0, catalogVersion = 0] = facts.map(Number);
  const [walStart, walStop] = [start ?? '', stop ?? ''];

  let wal = await copyTimelineHistories(dataDirectory, add, signal);
  // `walStop` is the byte after the last one.
  const last = segmentOf(parseLsn(walStop) - 1n, segmentBytes);
  for (let segment = segmentOf(parseLsn(walStart), segmentBytes); segment <= last; segment++) {
    const name = segmentName(timeline, segment, segmentBytes);
    const copied = await copyFile(dataDirectory, `pg_wal/${name}`, add, signal);
    if (copied !== segmentBytes) throw new Error(`The WAL segment ${name} is missing or incomplete`);
    wal += copied;
  }
  // If the slot was lost, a later segment may have overwritten one while it was read.
  await row(session, sql`SELECT 1 FROM pg_replication_slots WHERE slot_name = ${slot} AND wal_status <> 'lost'`);
  const backupLabel = Buffer.from(label ?? '');
  await add('backup_label', [backupLabel]);
  return {
    bytes: bytes + wal + backupLabel.length,
    wal_start: walStart,
    wal_stop: walStop,
    timeline,
    wal_segment_bytes: segmentBytes,
    checksum_version: checksumVersion,
    catalog_version: catalogVersion,
    started_at: startedAt,
    ended_at: endedAt,
    folders,
  };
}

/** @throws Error if there is no row */
async function row(session: Session, statement: Statement): Promise<Row> {
  const [row] = await session.query(statement);
  if (row === undefined) throw new Error('The server has dropped the replication slot of the backup');
  return row;
}
