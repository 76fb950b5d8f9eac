/** The frame of every schema call: one transaction, short waits for locks, and a bound on how long a table is held. */
import { EngineError } from '../../contract/errors.js';
import type { Lease } from '../../tenancy/connections/connections.js';
import { BEGIN, fixed, type Session, type Statement } from '../../pg/index.js';
import type { Project } from '../project.js';
import type { QuotaImpact } from '../quota.js';

export interface SchemaLimits {
  /** A change that scans or rewrites a table is undone after this time (contract section 5). */
  holdMs: number;
  signal: AbortSignal;
}

/** DDL waits this long for its lock (contract section 5). */
const LOCK_TIMEOUT_MS = 2_000;

const BEGIN_CHANGE: readonly Statement[] = [BEGIN, fixed(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`)];

/**
 * Runs a change; `work` sends `begin` with its first statements and ends in a commit.
 * @throws EngineError table_busy, and what `work` throws
 */
export function schemaChange<T>(
  project: Project,
  { holdMs, signal }: SchemaLimits,
  work: (lease: Lease, begin: readonly Statement[]) => Promise<T>,
  impact: QuotaImpact = 'writes',
): Promise<T> {
  const expired = () =>
    new EngineError(
      'table_busy',
      `The change would have held the table for more than ${holdMs} ms and was rolled back`,
    );
  return project.use('typed', { timeoutMs: holdMs, signal, expired }, (lease) => work(lease, BEGIN_CHANGE), impact);
}

export function schemaRead<T>(
  project: Project,
  { holdMs, signal }: SchemaLimits,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  const expired = () => new EngineError('query_timeout', 'Reading the schema took too long');
  return project.use('typed', { timeoutMs: holdMs, signal, expired }, (lease) => work(lease.session), 'none');
}
