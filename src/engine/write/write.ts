/**
 * Runs a write in one transaction, which stores the response under the request's Idempotency-Key, if it has one. Only
 * here a dry run begins and ends.
 */
import type { Schema } from '../../contract/schema.js';
import { BEGIN, ROLLBACK, type Statement } from '../../pg/index.js';
import type { Lease } from '../../tenancy/connections/connections.js';
import type { ConnectionKind } from '../../tenancy/connections/connection-kind.js';
import { claimKey, type IdempotencyKey, storeResponse } from './idempotency.js';
import type { Clock, Deadline } from '../limits/deadline.js';
import type { Project } from '../project.js';
import type { Growth } from '../limits/quota.js';
import type { RequestTrace } from '../database/trace.js';
import { commit } from './commit.js';

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
  readonly statementsOfResponse: (response: unknown, rows?: number) => readonly Statement[];
  /** Runs the last statements, stores the response, and commits; a dry run is rolled back instead. @throws as `commit` */
  readonly commit: <A>(statements: readonly Statement[], response: A, rows?: number) => Promise<A>;
}

/** Lets a repeat with the same Idempotency-Key get the response to the first request. */
interface Repeat<A> {
  /** null: the request has none. */
  readonly key: IdempotencyKey | null;
  /** The schema of the stored response. */
  readonly responseSchema: Schema<A>;
}

/** `A`: the response that is stored under a key; never: the operation takes none. */
interface WriteOptions<A> {
  readonly deadline: Deadline;
  readonly repeat?: Repeat<A>;
  /** Default: `grows`. */
  readonly growth?: Growth;
  readonly connection?: ConnectionKind;
  /** Begins the transaction, unless the look-up of the key does. */
  readonly begin?: readonly Statement[];
  /** The commit resets the session in the same round trip. */
  readonly reset?: boolean;
  readonly trace?: RequestTrace | null | undefined;
}

type Work<T> = (write: Write) => Promise<T>;

/**
 * @param work runs `begin` with its first statements and ends in a commit
 * @returns the result of the work, or the response to an earlier request with the key
 * @throws EngineError quota_exceeded if it grows, as `DatabaseAccess.use`, and what the work throws; with a key also
 * request_in_flight, idempotency_key_reused, key_settled
 */
export async function runWrite<T>(project: Project, options: WriteOptions<never>, work: Work<T>): Promise<T>;
export async function runWrite<T, A>(
  project: Project,
  options: WriteOptions<A>,
  work: Work<T>,
): Promise<T | { response: A; replayed: true }>;
export async function runWrite<T, A>(
  project: Project,
  options: WriteOptions<A>,
  work: Work<T>,
): Promise<T | { response: A; replayed: true }> {
  const { deadline, repeat, growth = 'grows', connection = 'typed', begin = [BEGIN], reset = false, trace } = options;
  const { dryRun } = project;
  const key = repeat?.key ?? null;
  const hasKey = key !== null;
  if (!hasKey && growth === 'grows') await project.shared.quotas.requireRoom(project.row);
  // Not `project.use`, which refuses to write in a dry run.
  return project.shared.database.use(project, { connection, deadline, growth, trace }, async (lease, clock) => {
    const { session } = lease;
    const write: Write = {
      lease,
      clock,
      begin: hasKey ? [] : begin,
      hasKey,
      statementsOfResponse: (response, rows) => (hasKey ? storeResponse(key, response, rows) : []),
      commit: async (statements, response, rows) => {
        if (dryRun === null) {
          await commit(session, [...statements, ...write.statementsOfResponse(response, rows)], { hasKey, reset });
        } else {
          await dryRun.end(session, statements);
          if (reset) await session.reset();
        }
        return response;
      },
    };
    await dryRun?.begin(session);
    if (repeat?.key == null) return work(write);
    try {
      const earlier = await claimKey(session, repeat.key, repeat.responseSchema);
      if (earlier !== null) {
        await commit(session, [], { hasKey });
        return { response: earlier.response, replayed: true };
      }
      // Checked only now: a repeat gets its response even without room.
      if (growth === 'grows') await project.shared.quotas.requireRoom(project.row);
      return await work(write);
    } finally {
      // A repeat may arrive as soon as the response is sent: by then the key must be free.
      if (!session.closed && session.inTransaction) await session.run([ROLLBACK]);
    }
  });
}
