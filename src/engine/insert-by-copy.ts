/**
 * The fast way to insert a batch: COPY from the bytes of the request, in one round trip, on the remembered shape of the
 * table. It either stores the batch or stores nothing; whatever it cannot do, or Postgres refuses, is for the INSERT of
 * `records.ts`, which finds out what is wrong and says so.
 */
import type { Lease } from '../postgres/connections.js';
import { ConnectionLost, errorCode, isShutdown, PostgresError } from '../postgres/errors.js';
import type { CopyData } from './batch/copy/copy-encoder.js';
import { copyData, copyStatement } from './batch/copy/plan.js';
import type { Deadline } from './deadline.js';
import type { Project } from './project.js';
import { LIES_WITH_THE_SERVER } from './refused-record.js';
import type { KnownShape } from './shape-cache.js';
import type { SendCopies, WaitingBatch } from './shared-copy.js';
import type { RequestTrace } from './trace.js';
import { outcomeUnknown } from './transaction.js';

/** Batches up to this size are worth sharing a COPY: its cost is then mostly that of the statement and the commit. */
const SMALL_RECORDS = 25;

/**
 * @returns the number of records stored, or null where nothing was stored and the other way has to be gone
 * @throws EngineError outcome_unknown, table_busy, query_timeout, overloaded, database_unavailable
 */
export async function insertByCopy(
  project: Project,
  table: string,
  body: Uint8Array,
  deadline: Deadline,
): Promise<number | null> {
  const { copies } = project;
  const known = project.knownShape(table);
  const batch = known === undefined ? null : copies.encoder.encode(body, known.plan);
  if (known === undefined || batch === null) return null;
  const stored =
    batch.records > SMALL_RECORDS
      ? await storeAlone(project, known, batch, deadline)
      : await storeShared(project, known, batch, deadline);
  return stored ? batch.records : null;
}

async function storeAlone(project: Project, known: KnownShape, batch: CopyData, deadline: Deadline): Promise<boolean> {
  try {
    return await store(project, known, [batch], deadline, project.trace?.copying([]));
  } finally {
    project.copies.encoder.release(batch);
  }
}

function storeShared(project: Project, known: KnownShape, batch: CopyData, deadline: Deadline): Promise<boolean> {
  const { copies, patience } = project;
  // While it waits, it has memory of its own: what is lent would be many times as large.
  const own = { ...batch, data: Buffer.from(batch.data), trace: project.trace };
  copies.encoder.release(batch);
  const send: SendCopies = (batches, signal) =>
    store(project, known, batches, { ...deadline, signal }, traceOfAll(batches));
  return copies.storeShared(`${known.number} ${batch.columns.join()}`, own, deadline.signal, patience, send);
}

/** The first request that is traced has the COPY in its trace, and those of the others are linked to it. */
function traceOfAll(batches: readonly WaitingBatch[]): RequestTrace | undefined {
  const [first, ...others] = batches.flatMap(({ trace }) => trace ?? []);
  return first?.copying(others);
}

/** Postgres calls binary data for a type that the column does not have any more a protocol violation. */
const liesWithTheServer = (error: PostgresError): boolean =>
  error.sqlstate !== '08P01' && LIES_WITH_THE_SERVER.has(errorCode(error));

/** @param batches of the same columns */
function store(
  project: Project,
  known: KnownShape,
  batches: readonly CopyData[],
  deadline: Deadline,
  trace: RequestTrace | undefined,
): Promise<boolean> {
  const work = async (lease: Lease) => {
    const { session } = lease;
    const statement = copyStatement(known.plan, batches[0]?.columns ?? []);
    const completedBefore = session.completed;
    try {
      await session.copyIn(statement, copyData(known.plan, batches), known.check);
      return true;
    } catch (error) {
      // The table may have got a trigger since it was looked at, and what that did to the session is not rolled back.
      lease.soil();
      // Postgres was told to end the connection and said so before the COPY had come to its end, so nothing was committed.
      if (isShutdown(error) && session.completed === completedBefore) throw error;
      // The commit was on its way with the rest.
      if (error instanceof ConnectionLost || session.closed) throw outcomeUnknown(error, false);
      if (!(error instanceof PostgresError) || liesWithTheServer(error)) throw error;
      return false;
    }
  };
  return project.use('typed', deadline, work, 'writes', trace ?? null);
}
