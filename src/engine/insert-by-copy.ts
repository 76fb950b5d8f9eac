/**
 * The fast way to insert a batch: COPY from the bytes of the request, in one round trip, on the remembered shape of the
 * table. It either stores the batch or stores nothing; whatever it cannot do, or Postgres refuses, is for the INSERT of
 * `records.ts`, which finds out what is wrong and says so.
 */
import { shapeIsStill } from '../postgres/catalog.js';
import { ConnectionLost, errorCode, PostgresError } from '../postgres/errors.js';
import { type CopyText, CopyTextEncoder } from './batch/copy/copy-text.js';
import { copyStatement } from './batch/copy/plan.js';
import type { Deadline } from './deadline.js';
import type { Project } from './project.js';
import { LIES_WITH_THE_SERVER } from './refused-record.js';
import type { KnownShape } from './shape-cache.js';
import { SharedCopy } from './shared-copy.js';
import { outcomeUnknown } from './transaction.js';

/** One for the process: it works through a body at a time, without waiting for anything in between. */
const encoder = new CopyTextEncoder();

/** Batches up to this size are worth sharing a COPY: its cost is then mostly that of the statement and the commit. */
const SMALL_RECORDS = 25;

/** Small batches under way, by the shape and the columns they are for. */
const shared = new Map<string, SharedCopy>();

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
  const known = project.knownShape(table);
  const text = known === undefined ? null : encoder.encode(body, known.plan);
  if (known === undefined || text === null) return null;
  try {
    const stored =
      text.records > SMALL_RECORDS
        ? await store(project, known, [text], deadline)
        : await storeShared(project, known, text, deadline);
    return stored ? text.records : null;
  } finally {
    encoder.release(text);
  }
}

async function storeShared(project: Project, known: KnownShape, text: CopyText, deadline: Deadline): Promise<boolean> {
  const key = `${project.id} ${known.table.fingerprint} ${text.columns.join()}`;
  let copies = shared.get(key);
  if (copies === undefined) {
    copies = new SharedCopy(
      (texts, signal) => store(project, known, texts, { ...deadline, signal }),
      project.waitLimits,
    );
    shared.set(key, copies);
  }
  try {
    return await copies.store(text, deadline.signal);
  } finally {
    if (copies.isIdle) shared.delete(key);
  }
}

/** @param texts of the same columns */
function store(project: Project, known: KnownShape, texts: readonly CopyText[], deadline: Deadline): Promise<boolean> {
  return project.use('typed', deadline, async ({ session }) => {
    const statement = copyStatement(known.plan, texts[0]?.columns ?? []);
    try {
      await session.copyIn(
        statement,
        texts.map(({ data }) => data),
        shapeIsStill(known.table),
      );
      return true;
    } catch (error) {
      // The commit was on its way with the rest.
      if (error instanceof ConnectionLost || session.closed) throw outcomeUnknown(error, false);
      if (!(error instanceof PostgresError) || LIES_WITH_THE_SERVER.has(errorCode(error.sqlstate))) throw error;
      return false;
    }
  });
}
