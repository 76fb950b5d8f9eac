/** Runs a write in one transaction, which stores the response under the request's Idempotency-Key, if it has one. */
import type { Schema } from '../../contract/schema.js';
import { BEGIN, type Statement } from '../../pg/index.js';
import type { Lease } from '../../tenancy/connections/connections.js';
import type { ConnectionKind } from '../../tenancy/connections/project-session.js';
import { type IdempotencyKey, storeResponse, withIdempotencyKey } from './idempotency.js';
import type { Clock, Deadline } from '../limits/deadline.js';
import type { Project } from '../project.js';
import type { QuotaImpact } from '../limits/quota.js';
import type { RequestTrace } from '../database/trace.js';
import { commit } from './transaction.js';

/** A write in progress. */
export interface Write {
  readonly lease: Lease;
  readonly clock: Clock;
  /** Statements to run before its first one; none if the look-up of the key has begun the transaction. */
  readonly begin: readonly Statement[];
  /** The request has an Idempotency-Key: a repeat cannot do the work twice. */
  readonly hasKey: boolean;
  /**
   * Statements that store the response under the key, if there is one. @param rows the number that a batch stored or
   * deleted
   */
  readonly storeResponse: (response: unknown, rows?: number) => readonly Statement[];
  /** Runs the last statements, stores the response, and commits. @throws as `commit` */
  readonly commit: <A>(statements: readonly Statement[], response: A, rows?: number) => Promise<A>;
}

interface WriteOptions<A> {
  readonly deadline: Deadline;
  readonly idempotency: IdempotencyKey | null;
  /** The schema of the stored response. */
  readonly responseSchema: Schema<A>;
  /**
   * False: the project does not grow, or the work checks the quota itself. Without a key, the caller has already checked
   * for room.
   */
  readonly grows?: boolean;
  readonly connection?: ConnectionKind;
  /** Begins the transaction, unless the look-up of the key does. */
  readonly begin?: readonly Statement[];
  /** The commit resets the session in the same round trip. */
  readonly resets?: boolean;
  /** Effect on the size of the project, see `Project.use`. */
  readonly impact?: QuotaImpact;
  readonly trace?: RequestTrace | null | undefined;
}

/**
 * @param work runs `begin` with its first statements and ends in a commit
 * @returns the result of the work, or the response to an earlier request with the key
 * @throws EngineError as `DatabaseAccess.use`, and what the work throws; with a key also request_in_flight,
 * idempotency_key_reused, key_settled, quota_exceeded
 */
export function runWrite<T, A>(
  project: Project,
  options: WriteOptions<A>,
  work: (write: Write) => Promise<T>,
): Promise<T | { response: A; replayed: true }> {
  const {
    deadline,
    idempotency,
    responseSchema,
    grows = true,
    connection = 'typed',
    begin = [BEGIN],
    resets: reset = false,
    impact,
    trace,
  } = options;
  const hasKey = idempotency !== null;
  const run = async (lease: Lease, clock: Clock) => {
    const { session } = lease;
    const write: Write = {
      lease,
      clock,
      begin: hasKey ? [] : begin,
      hasKey,
      storeResponse: (response, rows) => (idempotency === null ? [] : storeResponse(idempotency, response, rows)),
      commit: async (statements, response, rows) => {
        const { dryRun } = project;
        await commit(session, [...statements, ...write.storeResponse(response, rows)], { hasKey, dryRun, reset });
        return response;
      },
    };
    if (idempotency === null) return work(write);
    return withIdempotencyKey(session, idempotency, responseSchema, async () => {
      // Checked only now: a repeat under its key is answered even without room.
      if (grows) await project.shared.quotas.requireRoom(project.row);
      return work(write);
    });
  };
  return project.use({ connection, deadline, impact, trace }, run);
}
