/**
 * The fast way to insert a batch: COPY from the bytes of the request, in one round trip, on a remembered shape of the
 * table, which it makes forgotten where that is not the table's any more; a record that goes alone goes by a prepared
 * INSERT, which costs Postgres less than a COPY of one row. It either stores the batch or stores nothing; whatever it
 * cannot do, or Postgres refuses, is for the INSERT of `records.ts`, which finds out what is wrong and says so.
 */
import { ConnectionLost, errorCode, isShutdown, PostgresError } from '../../postgres/errors.js';
import type { BatchAnswer } from '../../contract/wire/batch.js';
import type { Lease } from '../../tenancy/connections/connections.js';
import { MIN_POOLED_BYTES } from '../../postgres/spare-buffers.js';
import type { RowsIn } from '../../postgres/wire/rows-in.js';
import { DEADLOCK_DETECTED, PROTOCOL_VIOLATION } from '../../postgres/sqlstate.js';
import { inserted } from './batch-answer.js';
import { rowsIn } from '../batch/copy/plan.js';
import { withIds } from './copied-ids.js';
import type { Deadline } from '../admission/deadline.js';
import { claimKey, type IdempotencyKey, rememberAnswer, takeNewKey } from './idempotency.js';
import type { Project } from '../project.js';
import { LIES_WITH_THE_SERVER } from './refused-record.js';
import type { KnownShape } from './shape-cache.js';
import { MAX_SHARED_BYTES, type SendBatches, type WaitingBatch } from './shared-copy.js';
import type { RequestTrace } from '../trace.js';
import { outcomeUnknown } from '../transaction.js';

export interface CopyOptions {
  /** Answer the ids as well. */
  returnIds: boolean;
  idempotency: IdempotencyKey | null;
}

/** A batch on its way out, and what it is answered with once it is stored. */
interface Outgoing extends WaitingBatch {
  readonly answer: BatchAnswer;
  /** What the answer is kept under. */
  readonly idempotency: IdempotencyKey | null;
}

/** @returns null: fall back to the reference path */
export function prepareCopy(
  { copies: { encoder }, trace }: Project,
  { plan }: KnownShape,
  body: Uint8Array,
  { returnIds, idempotency }: CopyOptions,
): Outgoing | null {
  const lent = encoder.encode(body, plan);
  if (lent === null) return null;
  const { records } = lent;
  if (!returnIds) {
    // Field by field, as one object: a copy that is added to takes several times the memory, for every request.
    const { columns, data } = lent;
    return { records, plan: lent.plan, columns, data, trace, answer: inserted(records), idempotency };
  }
  const identified = withIds(lent);
  encoder.release(lent);
  return identified && { ...identified.batch, trace, answer: inserted(records, identified.ids), idempotency };
}

/**
 * @returns false: nothing was stored; fall back to the reference path
 * @throws EngineError outcome_unknown, table_busy, query_timeout, overloaded, database_unavailable
 */
export function sendCopy(project: Project, known: KnownShape, batch: Outgoing, deadline: Deadline): Promise<boolean> {
  const { idempotency, answer } = batch;
  const stored =
    idempotency === null
      ? sendShared(project, known, batch, deadline)
      : store(project, known, [batch], deadline, { idempotency, answer });
  // The memory of small ones is not lent.
  return batch.data.length < MIN_POOLED_BYTES ? stored : stored.finally(() => project.copies.encoder.release(batch));
}

function sendShared(project: Project, known: KnownShape, batch: Outgoing, deadline: Deadline): Promise<boolean> {
  const send: SendBatches = (batches, signal) =>
    project.knownShape(known.table.name) === known
      ? store(project, known, batches, { ...deadline, signal }, null)
      : OUTDATED;
  if (batch.data.length > MAX_SHARED_BYTES) return send([batch], deadline.signal);
  return project.copies.sharedBy(batch.columns, batch.records).store(batch, deadline.signal, project.patience, send);
}

/** While it waited, others have found that the table is not like this any more. */
const OUTDATED = Promise.resolve(false);

/** The first request that is traced has the COPY in its trace, and those of the others are linked to it. */
function traceOf(rows: RowsIn, batches: readonly WaitingBatch[]): RequestTrace | null {
  const [first, ...others] = batches.flatMap(({ trace }) => trace ?? []);
  if (first === undefined) return null;
  return 'copy' in rows ? first.copying(others) : first;
}

/** Postgres calls binary data for a type that the column does not have any more a protocol violation. */
const liesWithTheServer = (error: PostgresError): boolean =>
  error.sqlstate !== PROTOCOL_VIOLATION && LIES_WITH_THE_SERVER.has(errorCode(error));

/** An answer that is to be kept under a key. */
interface Keyed {
  readonly idempotency: IdempotencyKey;
  readonly answer: BatchAnswer;
}

/** @param batches of the same columns */
function store(
  project: Project,
  known: KnownShape,
  batches: readonly WaitingBatch[],
  deadline: Deadline,
  keyed: Keyed | null,
): Promise<boolean> {
  const { table, check } = known;
  const rows = rowsIn(batches);
  const before = keyed === null ? [] : takeNewKey(keyed.idempotency);
  const after = keyed === null ? [check] : [check, ...rememberAnswer(keyed.idempotency, keyed.answer)];
  /** It has been sent, and the connection was lost. */
  let mayHaveRun = false;
  const work = async (lease: Lease): Promise<boolean> => {
    const { session } = lease;
    if (table.runsProjectCode) lease.resetAfterUse();
    const completedBefore = session.completed;
    try {
      await session.store(rows, before, after);
      return true;
    } catch (error) {
      return failed(lease, error, session.completed - completedBefore - before.length);
    }
  };
  /** @param completed statements, from the rows on */
  const failed = async (lease: Lease, error: unknown, completed: number): Promise<boolean> => {
    const { session } = lease;
    // The table may have got a trigger since it was looked at, and what that did to the session is not rolled back.
    lease.resetAfterUse();
    // Postgres was told to end the connection and said so before the rows had come to their end, so nothing was committed.
    if (isShutdown(error) && completed <= 0) throw error;
    // The commit was on its way with the rest.
    if (error instanceof ConnectionLost || session.closed) {
      // Under its key it cannot be done twice: on a connection that had died while it was idle, it is sent again.
      if (keyed !== null && !mayHaveRun && error instanceof ConnectionLost) {
        mayHaveRun = true;
        throw error;
      }
      throw outcomeUnknown(error, keyed !== null);
    }
    if (!(error instanceof PostgresError)) throw error;
    // Each of its batches waited for one other perhaps; only together they had more than one to wait for.
    if (error.sqlstate === DEADLOCK_DETECTED && batches.length > 1) return false;
    if (liesWithTheServer(error)) throw error;
    // What refuses it now may be its own key.
    if (mayHaveRun && keyed !== null && (await isStored(lease, keyed.idempotency))) return true;
    // The check is what comes behind the rows.
    if (completed === 1) project.forgetShape(known);
    return false;
  };
  const stored = project.use('typed', deadline, work, 'writes', traceOf(rows, batches));
  if (keyed === null) return stored;
  return stored.catch((error: unknown) => {
    throw mayHaveRun ? outcomeUnknown(error, true) : error;
  });
}

/** Whether a try under the key has stored the batch, whose outcome nobody saw. @throws EngineError outcome_unknown */
async function isStored({ session }: Lease, idempotency: IdempotencyKey): Promise<boolean> {
  try {
    return (await claimKey(session, [], idempotency)) !== null;
  } catch (error) {
    throw outcomeUnknown(error, true);
  }
}
