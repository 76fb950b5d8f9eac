/** Runs every schema change: a write with a short lock timeout, and a limit on how long it holds the table. */
import { EngineError } from '../../contract/errors.js';
import type { Schema } from '../../contract/schema.js';
import { fixed, type Session } from '../../pg/index.js';
import type { Growth } from '../limits/quota.js';
import type { Project } from '../project.js';
import type { Replayable, IdempotencyKey } from '../write/idempotency.js';
import { runWrite, type Write } from '../write/write.js';

export interface SchemaLimits {
  /** A change that scans or rewrites a table is rolled back after this time (contract section 5). */
  holdMs: number;
  signal: AbortSignal;
}

export interface ChangeOptions extends SchemaLimits {
  idempotency?: IdempotencyKey | null;
}

/** A change in progress. */
export type Change = Pick<Write, 'lease' | 'begin' | 'commit'>;

/** How long DDL waits for a lock (contract section 5). */
const LOCK_TIMEOUT_MS = 2_000;

const SHORT_WAIT = fixed(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`);

/**
 * Runs a change; `work` runs `begin` with its first statements and ends in a commit.
 * @throws EngineError table_busy, and what `work` throws; quota_exceeded if it grows; with a key also
 * request_in_flight, idempotency_key_reused, key_settled
 */
export async function schemaChange<A>(
  project: Project,
  { holdMs, signal, idempotency = null }: ChangeOptions,
  responseSchema: Schema<A>,
  growth: Growth,
  work: (change: Change) => Promise<A>,
): Promise<Replayable<A>> {
  const expired = () =>
    new EngineError(
      'table_busy',
      `The change would have held the table for more than ${holdMs} ms and was rolled back`,
    );
  const deadline = { timeoutMs: holdMs, signal, expired };
  return runWrite(project, { deadline, repeat: { key: idempotency, responseSchema }, growth }, async (write) => {
    const { lease, begin, commit } = write;
    return { response: await work({ lease, begin: [...begin, SHORT_WAIT], commit }), replayed: false };
  });
}

export function schemaRead<T>(
  project: Project,
  { holdMs, signal }: SchemaLimits,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  const expired = () => new EngineError('query_timeout', 'Reading the schema took too long');
  const deadline = { timeoutMs: holdMs, signal, expired };
  return project.use({ connection: 'typed-read', deadline, growth: 'none' }, (lease) => work(lease.session));
}
