/**
 * Idempotency-Keys of streams. A stream is one row of the keys, and a row for each chunk, both written in the transaction
 * of the chunk, which begins only where the last one has ended: so each byte is stored once, whoever sends it.
 */
import { createHash } from 'node:crypto';
import { EngineError } from '../contract/errors.js';
import { BEGIN, type Session, sql, type Statement } from '../pg/index.js';
import {
  ANY_NAMESPACE,
  type ChunkOfStream,
  checkKey,
  EQUALS,
  type IdempotencyKey,
  keyIsBusy,
  keyIsSettled,
  keyTable,
  lockKey,
  pathOf,
} from './idempotency.js';

export interface ChunkKey extends IdempotencyKey {
  readonly chunk: ChunkOfStream;
}

/** A stream as far as it is stored. */
export interface StoredStream {
  readonly bytes: number;
  readonly isComplete: boolean;
  /** What `stateAfter` has returned for its last chunk. */
  readonly state: unknown;
}

/** Maximum number of expired chunks that one request deletes. */
const PURGED_AT_ONCE = 100;

/**
 * The key of a stream, for one chunk after the other.
 * @param namespace `streamsInto` or `appendStreamsInto` the table
 * @param kind of the stream: the query, and everything else that must be the same in a repeat
 * @throws EngineError as `checkKey`
 */
export function streamKey(text: string, namespace: string, kind: string, receiptDays: number): IdempotencyKey {
  checkKey(text);
  const fingerprint = createHash('sha256').update(kind).digest('hex');
  return { text, namespace, fingerprint, bodySha256: '', receiptDays };
}

/**
 * Begins the transaction of a chunk, and locks the key until its end.
 * @throws EngineError request_in_flight if another request has stored the chunk; those of `readStream`
 */
export async function claimChunk(session: Session, role: string | null, key: ChunkKey): Promise<null> {
  const [, ...results] = await session.run([BEGIN, lockKey(role, key), storedRow(role, key)]);
  const { bytes, isComplete } = readRow(key, results) ?? { bytes: 0, isComplete: false };
  if (bytes === key.chunk.start && !isComplete) return null;
  throw new EngineError(
    'request_in_flight',
    `Another request has continued this stream: ${bytes} bytes of it are stored`,
    { hint: 'Only one request at a time may send a stream. Repeat this one, or send what follows with ?offset=.' },
  );
}

/** Stores the chunk, and the stream as it is after it. Run it at the end of the chunk's transaction. */
export function storeChunk(role: string | null, key: ChunkKey, response: unknown): Statement[] {
  const { text, namespace, fingerprint, receiptDays, chunk } = key;
  const { start, end, sha256, isLast } = chunk;
  const { state, rows } = chunk.stateAfter(response);
  const path = pathOf(role, namespace);
  const kept = sql`${`${receiptDays} days`}::pg_catalog.interval`;
  const answer = JSON.stringify(state);
  const bytes = sql`pg_catalog.decode(${sha256}, 'hex')`;
  if (role !== null) {
    return [
      sql`SELECT _cdp.store_chunk_of_role(${path}, ${text}, pg_catalog.decode(${fingerprint}, 'hex'), ${answer},
        ${rows}::pg_catalog.int8, ${start}::pg_catalog.int8, ${end}::pg_catalog.int8, ${isLast}::pg_catalog.bool, ${bytes}, ${kept})`,
    ];
  }
  const isOfStream = sql`key ${EQUALS} ${text} AND path ${EQUALS} ${path}`;
  return [
    sql`DELETE FROM _cdp.stream_chunks WHERE ctid ${EQUALS} ANY (ARRAY(
      SELECT ctid FROM _cdp.stream_chunks WHERE expires_at OPERATOR(pg_catalog.<=) pg_catalog.now()
      LIMIT ${PURGED_AT_ONCE} FOR UPDATE SKIP LOCKED))`,
    // Those of an earlier stream, which has expired.
    ...(start === 0 ? [sql`DELETE FROM _cdp.stream_chunks WHERE ${isOfStream}`] : []),
    sql`INSERT INTO _cdp.idempotency_keys
        (path, key, fingerprint, answer, transaction_id, expires_at, stream_rows, stream_bytes, is_complete)
      VALUES (${path}, ${text}, pg_catalog.decode(${fingerprint}, 'hex'), ${answer}, pg_catalog.pg_current_xact_id(),
        pg_catalog.now() OPERATOR(pg_catalog.+) ${kept}, ${rows}::pg_catalog.int8, ${end}::pg_catalog.int8, ${isLast}::pg_catalog.bool)
      ON CONFLICT (path, key) DO UPDATE
      SET fingerprint = excluded.fingerprint, answer = excluded.answer, transaction_id = excluded.transaction_id,
        created_at = pg_catalog.now(), expires_at = excluded.expires_at, stream_rows = excluded.stream_rows,
        stream_bytes = excluded.stream_bytes, is_complete = excluded.is_complete`,
    ...(end === start
      ? []
      : [
          sql`INSERT INTO _cdp.stream_chunks (path, key, start_byte, end_byte, sha256, expires_at)
            VALUES (${path}, ${text}, ${start}::pg_catalog.int8, ${end}::pg_catalog.int8, ${bytes},
              pg_catalog.now() OPERATOR(pg_catalog.+) ${kept})`,
        ]),
  ];
}

/** The row of the stream, after the lock of its key; as long as it has not expired: then its chunks may be gone. */
export function storedRow(role: string | null, { text, namespace }: IdempotencyKey): Statement {
  const [path, anyPath] = [pathOf(role, namespace), pathOf(role, ANY_NAMESPACE)];
  const { from, lock } = keyTable(role, text);
  return sql`SELECT pg_catalog.encode(fingerprint, 'hex'), answer, stream_bytes, is_complete FROM ${from}
    WHERE key = ${text} AND ((path = ${path} AND (answer IS NULL OR expires_at > pg_catalog.now()))
      OR (path = ${anyPath} AND answer IS NULL))
    ORDER BY path DESC LIMIT 1 ${lock}`;
}

type Rows = readonly { readonly rows: readonly (readonly (string | null)[])[] }[];

/** Reads the results of {@link lockKey} and {@link storedRow}. */
export function readRow({ fingerprint: own }: IdempotencyKey, [locked, stored]: Rows): StoredStream | null {
  if (locked?.rows[0]?.[0] !== 't') throw keyIsBusy();
  const row = stored?.rows[0];
  if (row === undefined) return null;
  const [fingerprint, answer, bytes, isComplete] = row;
  if (answer == null) throw keyIsSettled();
  const stream = fingerprint === own && bytes != null ? stateIn(answer) : null;
  if (stream === null) {
    throw new EngineError(
      'idempotency_key_reused',
      'This Idempotency-Key was used for a stream with another format or query',
    );
  }
  return { bytes: Number(bytes), isComplete: isComplete === 't', state: stream.state };
}

/** null if this service has not written it: free SQL can put anything into the table. */
function stateIn(text: string): { state: unknown } | null {
  try {
    return { state: JSON.parse(text) as unknown };
  } catch {
    return null;
  }
}
