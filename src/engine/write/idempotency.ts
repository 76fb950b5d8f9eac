/**
 * Idempotency-Key (contract section 6): the key and the answer are stored in the transaction of the request, so that a
 * repeat finds both or neither, even after a crash.
 */
import { createHash } from 'node:crypto';
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import type { Schema } from '../../contract/schema.js';
import { describes } from '../../contract/validator.js';
import { BEGIN, ROLLBACK, type Session, sql, type Statement } from '../../pg/index.js';
import { commit } from './transaction.js';

export interface IdempotencyKey {
  key: string;
  /** For a batch its table or {@link deletesFrom} it, else the method and the path: a key is its own for each. */
  path: string;
  /** SHA-256, hex, of the query string and the decoded body. */
  fingerprint: string;
  /** Of the decoded body alone, hex. */
  bodySha256: string;
  /** How long the receipt is kept. */
  receiptDays: number;
}

/** What a request is answered with. */
export interface Answered<A> {
  answer: A;
  /** It is the answer of an earlier request with the same key; nothing was done now. */
  replayed: boolean;
}

/** Printable ASCII. */
const KEY = new RegExp(`^[\\x20-\\x7e]{1,${LIMITS.idempotencyKeyCharacters}}$`);

/** @throws EngineError invalid_request if the text is no key, or too long for one */
export function checkKey(key: string): void {
  if (KEY.test(key)) return;
  throw new EngineError(
    'invalid_request',
    `Idempotency-Key must be 1 to ${LIMITS.idempotencyKeyCharacters} printable ASCII characters`,
  );
}

/** @throws EngineError as {@link checkKey} */
export function idempotencyKey(
  key: string,
  path: string,
  query: string,
  body: Buffer,
  receiptDays: number,
): IdempotencyKey {
  checkKey(key);
  const fingerprint = createHash('sha256').update(query).update('\0').update(body).digest('hex');
  return { key, path, fingerprint, bodySha256: createHash('sha256').update(body).digest('hex'), receiptDays };
}

/**
 * Triggers, defaults and free SQL may have changed the search path of a transaction that stores an answer, or a refused
 * record: there every operator is named by its schema, so that none of the project's takes its place.
 */
export const EQUALS = sql`OPERATOR(pg_catalog.=)`;

/** Expired keys that one request clears away. */
const PURGED_AT_ONCE = 100;

/** Of a batch that deletes; the path of one that inserts is the table alone. */
export const deletesFrom = (table: string): string => `DELETE ${table}`;

/** Instead of a path: a key that is settled there is refused for every path. */
export const ANY_PATH = '';

/**
 * The request that uses the key holds the advisory lock of this number, and shares that of {@link ANY_PATH} with
 * requests that use the key in other paths.
 */
export function lockOf(path: string, key: string): string {
  return createHash('sha256').update(path).update('\0').update(key).digest().readBigInt64BE(0).toString();
}

/**
 * Runs work that changes something and commits in a transaction that holds the key, unless an earlier request has used
 * it.
 * @param stored what the work stores under the key
 * @returns what the work returns, or the answer of the earlier request
 * @throws EngineError request_in_flight, idempotency_key_reused, key_settled, and what the work throws
 */
export async function withIdempotencyKey<T, A>(
  session: Session,
  idempotency: IdempotencyKey,
  stored: Schema<A>,
  work: () => Promise<T>,
): Promise<T | { answer: A; replayed: true }> {
  try {
    const earlier = await claimKey(session, idempotency, stored);
    if (earlier === null) return await work();
    await commit(session, [], true);
    return { answer: earlier.answer, replayed: true };
  } finally {
    // A repeat may come as soon as the answer is out: by then the key must be free.
    if (!session.closed && session.inTransaction) await session.run([ROLLBACK]);
  }
}

/** Begins the transaction and takes the key for its length. @returns the answer stored under it; null: it is new */
async function claimKey<A>(
  session: Session,
  idempotency: IdempotencyKey,
  stored: Schema<A>,
): Promise<{ answer: A } | null> {
  const { key, path, fingerprint } = idempotency;
  // The row is looked up by a statement after the lock's own, so that its snapshot sees what the last holder committed.
  // A row lock makes the commit wait for the synchronous standbys, if there are any: they may lack the answer so far.
  const [, locked, found] = await session.run([
    BEGIN,
    sql`SELECT pg_catalog.pg_try_advisory_xact_lock_shared(${lockOf(ANY_PATH, key)}::pg_catalog.int8)
      AND pg_catalog.pg_try_advisory_xact_lock(${lockOf(path, key)}::pg_catalog.int8)`,
    sql`SELECT pg_catalog.encode(fingerprint, 'hex'), answer FROM _cdp.idempotency_keys
      WHERE key = ${key} AND ((path = ${path} AND (${isKept} OR answer IS NULL)) OR (path = ${ANY_PATH} AND answer IS NULL))
      ORDER BY path DESC LIMIT 1 FOR UPDATE`,
  ]);
  if (locked?.rows[0]?.[0] !== 't') {
    throw new EngineError('request_in_flight', 'A request with this Idempotency-Key is still running');
  }
  const earlier = found?.rows[0];
  if (earlier === undefined) return null;
  const [of, text] = earlier;
  if (text == null) {
    throw new EngineError(
      'key_settled',
      'This Idempotency-Key was settled as not stored; requests that use it are always rejected',
    );
  }
  const answer = of === fingerprint ? readAnswer(text, stored) : null;
  if (answer === null) {
    throw new EngineError('idempotency_key_reused', 'This Idempotency-Key was used with another body or query');
  }
  return answer;
}

/** null for what this service has not written: free SQL can put anything into the table. */
function readAnswer<A>(text: string, stored: Schema<A>): { answer: A } | null {
  try {
    const answer: unknown = JSON.parse(text);
    return describes(stored)(answer) ? { answer } : null;
  } catch {
    return null;
  }
}

/**
 * Stores the answer under the key, and clears some expired keys away. Runs at the end of the request's transaction.
 * @param rows that a batch stored or deleted
 */
export function storeAnswer(
  { key, path, fingerprint, bodySha256, receiptDays }: IdempotencyKey,
  answer: unknown,
  rows: number | null = null,
): Statement[] {
  return [
    sql`DELETE FROM _cdp.idempotency_keys WHERE ctid ${EQUALS} ANY (ARRAY(
      SELECT ctid FROM _cdp.idempotency_keys WHERE expires_at OPERATOR(pg_catalog.<=) pg_catalog.now()
      LIMIT ${PURGED_AT_ONCE} FOR UPDATE SKIP LOCKED))`,
    sql`INSERT INTO _cdp.idempotency_keys
        (path, key, fingerprint, answer, body_sha256, row_count, transaction_id, expires_at)
      VALUES (${path}, ${key}, pg_catalog.decode(${fingerprint}, 'hex'), ${JSON.stringify(answer)},
        pg_catalog.decode(${bodySha256}, 'hex'), ${rows}, pg_catalog.pg_current_xact_id(),
        pg_catalog.now() OPERATOR(pg_catalog.+) ${`${receiptDays} days`}::pg_catalog.interval)
      ON CONFLICT (path, key) DO UPDATE
      SET fingerprint = excluded.fingerprint, answer = excluded.answer, body_sha256 = excluded.body_sha256,
        row_count = excluded.row_count, transaction_id = excluded.transaction_id, created_at = pg_catalog.now(),
        expires_at = excluded.expires_at`,
  ];
}

/** It is an answer that a repeat gets. */
export const isKept = sql`(created_at OPERATOR(pg_catalog.>)
  (pg_catalog.now() OPERATOR(pg_catalog.-) ${`${LIMITS.idempotencyHours} hours`}::pg_catalog.interval))`;
