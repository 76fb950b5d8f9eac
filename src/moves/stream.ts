/**
 * Copies a project from one Postgres server to another while it is written to: a copy of one snapshot, then all later
 * changes by logical decoding (docs/decisions/0047-moves-by-stream.md). Writes are refused only while the last changes
 * are applied.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { ident, join, literal, PostgresError, type Session, sql, trusted, visibleIn } from '../pg/index.js';
import type { Placement } from '../tenancy/placement.js';
import { belongsToProject } from '../tenancy/project-rights.js';
import { inDatabase, type ProjectDatabase } from '../tenancy/tenancy.js';
import { Applier, RowNotFound } from './apply.js';
import { copySequences } from './contents.js';
import {
  copyAccess,
  copyDatabase,
  type CopyOptions,
  type CopyResult,
  withSearchPath,
  configureSession,
  withWriter,
} from './copy.js';
import {
  columnsOf,
  hasTriggers,
  NotStreamable,
  schemaCheck,
  streamedTables,
  streamObstacles,
} from './stream-obstacles.js';

interface StreamOptions extends CopyOptions {
  /** Called when few changes remain: ends all writes to the source. If it throws, the stream ends. */
  readonly endWrites: () => Promise<void>;
}

/** How long the creation of a slot may wait for running transactions. */
const SLOT_MS = 30_000;

/** Maximum number of changes per read. One transaction may exceed this, because its changes stay together. */
const READ_CHANGES = 50_000;

/** A read with fewer changes than that and less time than this has caught up. */
const CAUGHT_UP_MS = 500;

/** If the target has not caught up after this time, the source writes too fast for it. */
const CATCH_UP_MS = 600_000;

/**
 * Like {@link copyDatabase}, which compares both sides at the snapshot. After that, each change must affect exactly one
 * row.
 * @throws NotStreamable: nothing is left on the source, and the target must be created again; otherwise as {@link
 * copyDatabase}
 */
export async function streamDatabase(options: StreamOptions): Promise<CopyResult> {
  const { source, target, signal } = options;
  const obstacles = await streamObstacles(source.tenancy, source.placement, target.tenancy);
  if (obstacles.length > 0) throw new NotStreamable(obstacles.join('; '));
  await restartForStream(source);
  let endWritesError: unknown;
  const endWrites = () =>
    options.endWrites().catch((error: unknown) => {
      endWritesError = error;
      throw error;
    });
  try {
    return await inDatabase(
      source.tenancy,
      source.placement,
      (session) => stream(session, { ...options, endWrites }),
      signal,
    );
  } catch (error) {
    if (error !== endWritesError && (error instanceof PostgresError || error instanceof RowNotFound)) {
      throw new NotStreamable(error.message, { cause: error });
    }
    throw error;
  } finally {
    // If this fails, the code that settles the move does it.
    await cleanUpStream(source).catch(() => {});
  }
}

/** @param session of the service; the slot ends with it */
async function stream(session: Session, options: StreamOptions): Promise<CopyResult> {
  const { source, target, signal } = options;
  await configureSession(session, 'reading');
  await session.query(sql`SET synchronous_commit = on`);
  const columns = await columnsOf(session, source.placement);
  await publish(session, source);
  const copied = await copyDatabase({ ...options, isWritten: true });
  const check = schemaCheck(session, source, columns, copied, signal);
  return applying(session, options, async (writer) => {
    const applier = new Applier(writer, visibleIn(copied.snapshot));
    const read = (to: ReadLimit) => readChanges(session, slotOf(source.placement), to, applier);
    const identities = await identitiesOf(writer, target.placement);
    await generate(writer, identities, 'BY DEFAULT');
    await withSearchPath(writer, target.placement, async () => {
      await catchUp(read);
      await check();
      await catchUp(read);
      await options.endWrites();
      await read({ lsn: await flushedNow(session) });
      await check();
    });
    await generate(writer, identities, 'ALWAYS');
    await copySequences(session, writer, source.placement);
    return { ...copied, leftOut: await copyAccess(writer, session, options) };
  });
}

/**
 * From here on, the server keeps all changes of the project's tables. A snapshot taken after this contains everything
 * that was committed before.
 */
async function publish(session: Session, { placement }: ProjectDatabase): Promise<void> {
  const tables = await session.query(sql`SELECT cn.nspname, c.relname FROM ${streamedTables(placement)} ORDER BY 1, 2`);
  const names = join(tables.map(([schema, name]) => ident(schema ?? '', name ?? '')));
  const limit = sql`SET statement_timeout = ${trusted(String(SLOT_MS))}`;
  await session.query(sql`SET lock_timeout = ${trusted(String(SLOT_MS))}`);
  await session.query(limit);
  await session.query(sql`CREATE PUBLICATION ${ident(PUBLICATION)} FOR TABLE ${names}`);
  await session.query(
    sql`SELECT pg_create_logical_replication_slot(${slotOf(placement)}, 'pgoutput', temporary => true)`,
  );
  await session.query(sql`SET statement_timeout = 0`);
  // A transaction whose commit is in the WAL stays invisible until it is removed from the list of running ones.
  const [next] = await session.row(sql`SELECT pg_snapshot_xmax(pg_current_snapshot())`);
  for (const until = performance.now() + SLOT_MS; ; await sleep(20)) {
    const [isOver] = await session.row(sql`SELECT pg_snapshot_xmin(pg_current_snapshot()) >= ${next ?? ''}::xid8`);
    if (isOver === 't') return;
    if (performance.now() > until) throw new NotStreamable('a transaction on its server does not end');
  }
}

/**
 * Runs `work` as the target's writer, without triggers: either there are none, or the service's role disables them for
 * the writer's next login, because the writer itself may not.
 */
async function applying<T>(
  session: Session,
  { source, target, signal }: StreamOptions,
  work: (writer: Session) => Promise<T>,
): Promise<T> {
  const { tenancy, placement } = target;
  if (!(await hasTriggers(session, source.placement))) return withWriter(target, signal, work);
  const role = sql`ALTER ROLE ${ident(placement.writer)} IN DATABASE ${ident(placement.database)}`;
  const change = (what: string) =>
    inDatabase(tenancy, placement, (service) => service.query(sql`${role} ${trusted(what)}`));
  await change('SET session_replication_role = replica');
  return withWriter(target, signal, async (writer) => {
    await change('RESET session_replication_role');
    return work(writer);
  });
}

type Column = readonly (string | null)[];

/** The columns of the project that are GENERATED ALWAYS AS IDENTITY. UPDATE may not set them to a given value. */
const identitiesOf = (session: Session, placement: Placement): Promise<Column[]> =>
  session.query(sql`SELECT nspname, relname, attname FROM pg_attribute
    JOIN pg_class c ON c.oid = attrelid JOIN pg_namespace n ON n.oid = relnamespace
    WHERE attidentity = 'a' AND NOT relispartition AND relkind IN ('r', 'p') AND ${belongsToProject(placement)}`);

async function generate(session: Session, columns: readonly Column[], when: 'ALWAYS' | 'BY DEFAULT'): Promise<void> {
  for (const [schema, table, name] of columns) {
    const column = sql`${ident(schema ?? '', table ?? '')} ALTER COLUMN ${ident(name ?? '')}`;
    await session.query(sql`ALTER TABLE ${column} SET GENERATED ${trusted(when)}`);
  }
}

interface ReadLimit {
  /** The position up to which to read; default: all that is available. */
  readonly lsn?: string;
  /** Stops after the transaction that reaches this number. */
  readonly changes?: number;
}

/** @returns the number of messages */
async function readChanges(session: Session, slot: string, { lsn, changes }: ReadLimit, applier: Applier) {
  const [to, max] = [literalOr(lsn), trusted(String(changes ?? 'NULL'))];
  const rows = session.copyOut(
    sql`COPY (SELECT data FROM pg_logical_slot_get_binary_changes(${literal(slot)}, ${to}, ${max},
      'proto_version', '1', 'publication_names', ${literal(PUBLICATION)})) TO STDOUT (FORMAT binary)`,
  );
  let count = 0;
  for await (const message of binaryRows(rows)) {
    count++;
    const pause = applier.take(message);
    if (pause !== undefined) await pause;
  }
  await applier.commit();
  return count;
}

const literalOr = (lsn: string | undefined) => (lsn === undefined ? trusted('NULL') : literal(lsn));

/**
 * COPY's binary format: after the header, each row has its number of columns, which is one here, a length and the data.
 */
const BINARY_HEADER_BYTES = 19;

async function* binaryRows(parts: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let at = BINARY_HEADER_BYTES;
  for await (const part of parts) {
    while (at < part.length && part.readInt16BE(at) > 0) {
      const [start, length] = [at + 6, part.readInt32BE(at + 2)];
      at = start + length;
      yield part.subarray(start, at);
    }
    at = 0;
  }
}

/** @throws NotStreamable */
async function catchUp(read: (to: ReadLimit) => Promise<number>): Promise<void> {
  for (const until = performance.now() + CATCH_UP_MS; performance.now() < until;) {
    const start = performance.now();
    const count = await read({ changes: READ_CHANGES });
    if (count < READ_CHANGES && performance.now() - start < CAUGHT_UP_MS) return;
  }
  throw new NotStreamable('changes come faster than they can be made on the target');
}

/**
 * A position after all committed transactions, including those committed without waiting for the disk. They can be read
 * up to there.
 */
async function flushedNow(session: Session): Promise<string> {
  const [lsn] = await session.row(sql`SELECT pg_logical_emit_message(true, 'cdp', '')`);
  return lsn ?? '';
}

// Prepares the source of a stream, and cleans up after it.

export const PUBLICATION = 'cdp_move';

/** The name must be unique on the server. The slot is temporary: it ends with its session, or a crash of the server. */
export const slotOf = ({ database }: Pick<Placement, 'database'>): string => `cdp_move_${database}`;

export const restartForStream = ({ tenancy, placement }: ProjectDatabase): Promise<void> =>
  tenancy.setLogicalDecoding(placement, true);

/** Removes everything that a stream has left. */
export async function cleanUpStream({ tenancy, placement }: ProjectDatabase): Promise<void> {
  await inDatabase(tenancy, placement, async (session) => {
    await session.query(
      sql`SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = ${slotOf(placement)} AND active_pid IS NOT NULL`,
    );
    await session.query(sql`DROP PUBLICATION IF EXISTS ${ident(PUBLICATION)}`);
  });
  await tenancy.setLogicalDecoding(placement, false);
}
