/**
 * Idempotency-Key (contract C11): the key and the response are stored in the transaction of the request, so that a
 * repeat finds both or neither, even after a crash.
 */
import { createHash } from 'node:crypto';
import { EngineError } from '../contract/errors.js';
import { LIMITS } from '../contract/limits.js';
import type { Schema } from '../contract/schema.js';
import { describes } from '../contract/validator.js';
import { BEGIN, type Fragment, type Session, sql, type Statement } from '../pg/index.js';
import { keyPathsOf } from '../tenancy/placement.js';

export interface IdempotencyKey {
  text: string;
  /**
   * Within which a key of a role is unique: for a batch, the table, {@link deletesFrom} or {@link appendsTo} it; for a stream
   * {@link streamsInto} or {@link appendStreamsInto} it; otherwise the method and the path.
   */
  namespace: string;
  /** SHA-256, hex, of the query string and the decoded body. */
  fingerprint: string;
  /** SHA-256 of only the decoded body, hex. */
  bodySha256: string;
  /** How long the receipt is kept. */
  receiptDays: number;
  /** The part of a stream that the request stores; absent: it is no stream. */
  readonly chunk?: ChunkOfStream;
}

/** A chunk that is stored under a key. */
export interface ChunkOfStream {
  /** The range in the decoded body. */
  readonly start: number;
  readonly end: number;
  /** Hex. */
  readonly sha256: string;
  /** It is the last of its stream. */
  readonly isLast: boolean;
  /**
   * What to keep of the stream so far.
   * @param response to the chunk
   */
  stateAfter(response: unknown): { readonly state: object; readonly rows: number };
}

/** The response to a request. */
export interface Replayable<A> {
  response: A;
  /** Whether the response is that of an earlier request with the same key; this request did nothing. */
  replayed: boolean;
}

/** Printable ASCII. */
const KEY = new RegExp(`^[\\x20-\\x7e]{1,${LIMITS.idempotencyKeyCharacters}}$`);

/** @throws EngineError invalid_request if the text is not a valid key */
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
  namespace: string,
  query: string,
  body: Buffer,
  receiptDays: number,
): IdempotencyKey {
  checkKey(key);
  // The body is hashed twice: instances of other versions compare fingerprints of this form.
  const fingerprint = createHash('sha256').update(query).update('\0').update(body).digest('hex');
  return {
    text: key,
    namespace,
    fingerprint,
    bodySha256: createHash('sha256').update(body).digest('hex'),
    receiptDays,
  };
}

/**
 * The key of a request whose body was hashed while it arrived.
 * @param kind the query, and everything else that must be the same in a repeat
 * @param bodySha256 hex
 */
export function keyOfHash(
  text: string,
  namespace: string,
  kind: string,
  bodySha256: string,
  receiptDays: number,
): IdempotencyKey {
  const fingerprint = createHash('sha256').update(kind).update('\0').update(bodySha256).digest('hex');
  return { text, namespace, fingerprint, bodySha256, receiptDays };
}

/**
 * Triggers, defaults and free SQL may have changed the search path of a transaction that stores a response or a refused
 * record. There, every operator is qualified, so that none resolves to one of the project.
 */
export const EQUALS = sql`OPERATOR(pg_catalog.=)`;

/** Maximum number of expired keys that one request deletes. */
const PURGED_AT_ONCE = 100;

/** The namespace of a batch that deletes; that of one that inserts is just the table. */
export const deletesFrom = (tableName: string): string => `DELETE ${tableName}`;

/** The namespace of batches of a caller who may only append. */
export const appendsTo = (tableName: string, callerId: string): string =>
  `APPEND ${tableName} ${createHash('sha256').update(callerId).digest('hex')}`;

/** The namespace of a stream. */
export const streamsInto = (tableName: string): string => `STREAM ${tableName}`;

/** The namespace of a stream of a caller who may only append. */
export const appendStreamsInto = (tableName: string, callerId: string): string =>
  `${appendsTo(tableName, callerId)} STREAM`;

/** The column `path`: the namespace, within the role that the project has made and as which the request acts, or null. */
export const pathOf = (role: string | null, namespace: string): string =>
  role === null ? namespace : `${keyPathsOf(role)}${namespace}`;

/** A condition on a row: it is no key of a role that the project has made. */
export const NOT_OF_ROLES = sql`NOT pg_catalog.starts_with(path, 'ROLE ')`;

/** The namespace of a {@link pathOf}. */
export const namespaceIn = (role: string | null, path: string): string =>
  role === null ? path : path.slice(keyPathsOf(role).length);

/** Stands for all namespaces: a key settled under it is refused in each. */
export const ANY_NAMESPACE = '';

/**
 * The number of an advisory lock. A request that uses the key holds the lock of its path, and shares that of
 * {@link ANY_NAMESPACE} with requests that use the key in others.
 */
export function lockOf(path: string, key: string): string {
  return createHash('sha256').update(path).update('\0').update(key).digest().readBigInt64BE(0).toString();
}

/** Takes the locks of the key until the end of the transaction; false: another request has one. */
export function lockKey(role: string | null, { text, namespace }: IdempotencyKey): Statement {
  const [path, anyPath] = [pathOf(role, namespace), pathOf(role, ANY_NAMESPACE)];
  return sql`SELECT pg_catalog.pg_try_advisory_xact_lock_shared(${lockOf(anyPath, text)}::pg_catalog.int8)
    AND pg_catalog.pg_try_advisory_xact_lock(${lockOf(path, text)}::pg_catalog.int8)`;
}

/** Where the row of a key is, and how a SELECT locks it: that makes the commit wait for synchronous standbys. */
export const keyTable = (role: string | null, text: string): { from: Fragment; lock: Fragment } =>
  role === null
    ? { from: sql`_cdp.idempotency_keys`, lock: sql`FOR UPDATE` }
    : { from: sql`_cdp.keys_of_role(ARRAY[${text}::pg_catalog.text])`, lock: sql`` };

export const keyIsBusy = () =>
  new EngineError('request_in_flight', 'A request with this Idempotency-Key is still running');

export const keyIsSettled = () =>
  new EngineError(
    'key_settled',
    'This Idempotency-Key was settled as not stored; requests that use it are always rejected',
  );

/**
 * Begins the transaction and locks the key until its end.
 * @returns the response stored under it; null: the key is new
 * @throws EngineError request_in_flight, idempotency_key_reused, key_settled
 */
export async function claimKey<A>(
  session: Session,
  role: string | null,
  key: IdempotencyKey,
  responseSchema: Schema<A>,
): Promise<{ response: A } | null> {
  const { text, namespace, fingerprint } = key;
  const [path, anyPath] = [pathOf(role, namespace), pathOf(role, ANY_NAMESPACE)];
  const { from, lock } = keyTable(role, text);
  // A separate statement after the lock looks up the row, so that its snapshot sees the commit of the last holder. A
  // row lock makes the commit wait for synchronous standbys, which may still lack the response.
  const [, locked, storedKey] = await session.run([
    BEGIN,
    lockKey(role, key),
    sql`SELECT pg_catalog.encode(fingerprint, 'hex'), answer FROM ${from}
      WHERE key = ${text} AND ((path = ${path} AND (${isKept} OR answer IS NULL)) OR (path = ${anyPath} AND answer IS NULL))
      ORDER BY path DESC LIMIT 1 ${lock}`,
  ]);
  if (locked?.rows[0]?.[0] !== 't') throw keyIsBusy();
  const earlier = storedKey?.rows[0];
  if (earlier === undefined) return null;
  const [storedFingerprint, answer] = earlier;
  if (answer == null) throw keyIsSettled();
  const response = storedFingerprint === fingerprint ? readResponse(answer, responseSchema) : null;
  if (response === null) {
    throw new EngineError('idempotency_key_reused', 'This Idempotency-Key was used with another body or query');
  }
  return response;
}

/** null if this service has not written it: free SQL can put anything into the table. */
function readResponse<A>(text: string, responseSchema: Schema<A>): { response: A } | null {
  try {
    const response: unknown = JSON.parse(text);
    return describes(responseSchema)(response) ? { response } : null;
  } catch {
    return null;
  }
}

/**
 * Stores the response under the key, and deletes some expired keys. Run it at the end of the request's transaction.
 * @param rows the number that a batch stored or deleted
 */
export function storeResponse(
  role: string | null,
  { text, namespace, fingerprint, bodySha256, receiptDays }: IdempotencyKey,
  response: unknown,
  rows: number | null = null,
): Statement[] {
  const path = pathOf(role, namespace);
  const values = sql`${path}, ${text}, pg_catalog.decode(${fingerprint}, 'hex'), ${JSON.stringify(response)},
    pg_catalog.decode(${bodySha256}, 'hex'), ${rows}`;
  const kept = sql`${`${receiptDays} days`}::pg_catalog.interval`;
  if (role !== null) return [sql`SELECT _cdp.store_key_of_role(${values}::pg_catalog.int4, ${kept})`];
  return [
    sql`DELETE FROM _cdp.idempotency_keys WHERE ctid ${EQUALS} ANY (ARRAY(
      SELECT ctid FROM _cdp.idempotency_keys WHERE expires_at OPERATOR(pg_catalog.<=) pg_catalog.now()
      LIMIT ${PURGED_AT_ONCE} FOR UPDATE SKIP LOCKED))`,
    sql`INSERT INTO _cdp.idempotency_keys
        (path, key, fingerprint, answer, body_sha256, row_count, transaction_id, expires_at)
      VALUES (${values}, pg_catalog.pg_current_xact_id(), pg_catalog.now() OPERATOR(pg_catalog.+) ${kept})
      ON CONFLICT (path, key) DO UPDATE
      SET fingerprint = excluded.fingerprint, answer = excluded.answer, body_sha256 = excluded.body_sha256,
        row_count = excluded.row_count, transaction_id = excluded.transaction_id, created_at = pg_catalog.now(),
        expires_at = excluded.expires_at`,
  ];
}

/** The response is recent enough for a repeat to get it. */
export const isKept = sql`(created_at OPERATOR(pg_catalog.>)
  (pg_catalog.now() OPERATOR(pg_catalog.-) ${`${LIMITS.idempotencyHours} hours`}::pg_catalog.interval))`;
