/**
 * Idempotency-Key (contract section 6): the key and the answer are stored in the transaction of the insert, so that a
 * repeat finds both or neither, whatever crashed in between.
 */
import { createHash } from 'node:crypto';
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { BatchAnswer } from '../../contract/wire/batch.js';
import { BEGIN, ROLLBACK, type Session, sql, type Statement } from '../../pg/index.js';
import { describes } from '../../contract/validator.js';
import { commit } from '../transaction.js';
import type { Inserted } from './inserted.js';

export interface IdempotencyKey {
  key: string;
  /** The table the request goes to: a key is its own for each path. */
  path: string;
  /** SHA-256, hex, of the query string and the decoded body. */
  fingerprint: string;
}

/** Printable ASCII. */
const KEY = new RegExp(`^[\\x20-\\x7e]{1,${LIMITS.idempotencyKeyCharacters}}$`);

/** @throws EngineError invalid_request if the header is no key, or too long for one */
export function idempotencyKey(key: string, path: string, query: string, body: Buffer): IdempotencyKey {
  if (!KEY.test(key)) {
    throw new EngineError(
      'invalid_request',
      `Idempotency-Key must be 1 to ${LIMITS.idempotencyKeyCharacters} printable ASCII characters`,
    );
  }
  const fingerprint = createHash('sha256').update(query).update('\0').update(body).digest('hex');
  return { key, path, fingerprint };
}

/**
 * Triggers and defaults of the table may have changed the search path of the transaction that the answer is stored in: there
 * every operator is named by its schema, so that none of the project's takes its place.
 */
const EQUALS = sql`OPERATOR(pg_catalog.=)`;

/** Expired keys that one insert clears away. */
const PURGED_AT_ONCE = 100;

/** The request that uses the key holds the advisory lock of this number. */
function lockOf({ path, key }: IdempotencyKey): string {
  return createHash('sha256').update(path).update('\0').update(key).digest().readBigInt64BE(0).toString();
}

/**
 * Runs work that inserts and commits in a transaction that holds the key, unless an earlier request has used it.
 * @returns what the work returns, or the answer of the earlier request
 * @throws EngineError request_in_flight, idempotency_key_reused, and what the work throws
 */
export async function underKey<T>(
  session: Session,
  idempotency: IdempotencyKey,
  work: () => Promise<T>,
): Promise<T | Inserted> {
  try {
    const answer = await claimKey(session, idempotency);
    if (answer === null) return await work();
    await commit(session, [], true);
    return { answer, replayed: true };
  } finally {
    // A repeat may come as soon as the answer is out: by then the key must be free.
    if (!session.closed && session.inTransaction) await session.run([ROLLBACK]);
  }
}

/** Begins the transaction and takes the key for its length. @returns the answer stored under it; null: it is new */
async function claimKey(session: Session, idempotency: IdempotencyKey): Promise<BatchAnswer | null> {
  const { key, path, fingerprint } = idempotency;
  // The row is looked up by a statement after the lock's own, so that its snapshot sees what the last holder committed. A
  // row lock makes the commit wait for the synchronous standbys, if there are any: they may lack the answer so far.
  const [, locked, found] = await session.run([
    BEGIN,
    sql`SELECT pg_catalog.pg_try_advisory_xact_lock(${lockOf(idempotency)}::pg_catalog.int8)`,
    sql`SELECT pg_catalog.encode(fingerprint, 'hex'), answer FROM _cdp.idempotency_keys
      WHERE path = ${path} AND key = ${key} AND ${isKept} FOR UPDATE`,
  ]);
  if (locked?.rows[0]?.[0] !== 't') {
    throw new EngineError('request_in_flight', 'A request with this Idempotency-Key is still running');
  }
  const earlier = found?.rows[0];
  if (earlier === undefined) return null;
  const answer = earlier[0] === fingerprint ? readAnswer(earlier[1] ?? '') : null;
  if (answer === null) {
    throw new EngineError('idempotency_key_reused', 'This Idempotency-Key was used with another body or query');
  }
  return answer;
}

const isAnswer = describes(BatchAnswer);

/** null for what this service has not written: free SQL can put anything into the table. */
function readAnswer(text: string): BatchAnswer | null {
  try {
    const answer: unknown = JSON.parse(text);
    return isAnswer(answer) ? answer : null;
  } catch {
    return null;
  }
}

/** Stores the answer under the key, and clears some expired keys away. Runs in the insert's transaction. */
export function rememberAnswer({ key, path, fingerprint }: IdempotencyKey, answer: BatchAnswer): Statement[] {
  return [
    sql`DELETE FROM _cdp.idempotency_keys WHERE ctid ${EQUALS} ANY (ARRAY(
      SELECT ctid FROM _cdp.idempotency_keys WHERE NOT ${isKept} LIMIT ${PURGED_AT_ONCE} FOR UPDATE SKIP LOCKED))`,
    sql`INSERT INTO _cdp.idempotency_keys (path, key, fingerprint, answer)
      VALUES (${path}, ${key}, pg_catalog.decode(${fingerprint}, 'hex'), ${JSON.stringify(answer)})
      ON CONFLICT (path, key) DO UPDATE
      SET fingerprint = excluded.fingerprint, answer = excluded.answer, created_at = pg_catalog.now()`,
  ];
}

const isKept = sql`(created_at OPERATOR(pg_catalog.>)
  (pg_catalog.now() OPERATOR(pg_catalog.-) ${`${LIMITS.idempotencyHours} hours`}::pg_catalog.interval))`;
