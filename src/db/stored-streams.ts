/** Reads what is stored of a stream under its Idempotency-Key. */
import { sql } from '../pg/index.js';
import { type ChunkOfStream, type IdempotencyKey, lockKey, pathOf } from './idempotency.js';
import type { Project } from './project.js';
import { readRow, storedRow, type StoredStream } from './stream-keys.js';

type StoredChunk = Pick<ChunkOfStream, 'start' | 'end' | 'sha256'>;

/** The largest number of chunks read at once. */
const CHUNKS_AT_ONCE = 1_000;

/**
 * Returns what is stored of the stream; null: nothing.
 * @throws EngineError request_in_flight, idempotency_key_reused, key_settled
 */
export function readStream(project: Project, key: IdempotencyKey, signal: AbortSignal): Promise<StoredStream | null> {
  const { role } = project;
  return project.write<StoredStream | null>({ signal, growth: 'none', isIdempotent: true }, async (db) => {
    // Its own statement after the lock, so that it sees the commit of the last holder.
    const results = await db.run([lockKey(role, key), storedRow(role, key)]);
    const stream = readRow(key, results);
    return { response: null, resultOf: () => stream };
  });
}

/** Returns some chunks from this byte on, in order. */
export function readChunks(
  project: Project,
  { text, namespace }: IdempotencyKey,
  from: number,
  signal: AbortSignal,
): Promise<StoredChunk[]> {
  const { role } = project;
  const path = pathOf(role, namespace);
  const source =
    role === null
      ? sql`_cdp.stream_chunks WHERE key = ${text} AND path = ${path} AND start_byte >= ${from}::pg_catalog.int8
          ORDER BY start_byte LIMIT ${CHUNKS_AT_ONCE}`
      : sql`_cdp.chunks_of_role(${path}, ${text}, ${from}::pg_catalog.int8, ${CHUNKS_AT_ONCE}::pg_catalog.int4)`;
  const chunks = sql`SELECT start_byte, end_byte, pg_catalog.encode(sha256, 'hex') FROM ${source}`;
  return project.read({ signal }, async (db) =>
    (await db.query(chunks)).map(([start, end, sha256]) => ({
      start: Number(start),
      end: Number(end),
      sha256: sha256 ?? '',
    })),
  );
}
