/**
 * A stream of records of any size (docs/api.md, "Streams"): cut into chunks, each stored as a batch is, in one transaction,
 * in order. While a chunk is stored, the next one is read and encoded. Between chunks it holds nothing of Postgres.
 */
import { type ErrorDetail, EngineError, type StoredPart } from '../../../contract/errors.js';
import { LIMITS } from '../../../contract/limits.js';
import { type Static, Type } from '../../../contract/schema.js';
import { describes } from '../../../contract/validator.js';
import { type AppendResponse, BatchResponse } from '../../../contract/wire/batch.js';
import type { IdempotencyKey } from '../../../db/idempotency.js';
import { readChunks, readStream } from '../../../db/stored-streams.js';
import type { StoredStream } from '../../../db/stream-keys.js';
import { planCommit } from '../../../db/transaction.js';
import { fromPostgres } from '../../../tenancy/postgres-errors.js';
import type { Table } from '../../catalog/catalog.js';
import { tableNotFound } from '../../catalog/find-table.js';
import { accepted, storeOrQuarantine } from '../append.js';
import { type Inserted, insertResponse } from '../batch.js';
import { cachedTable, type InsertRequest, insertRecords } from '../insert.js';
import type { Chunk } from './chunk.js';
import { BytesOfBody, ChunkReader } from './chunk-reader.js';
import { added, Counts, NOTHING, rowsOf, streamResponse } from './counts.js';
import { formatReader, type FormatState, type StreamFormat } from './formats.js';

export interface StreamRequest extends Omit<InsertRequest, 'body' | 'returnIds'> {
  /** The decoded body. */
  readonly bytes: Pick<AsyncIterator<Buffer>, 'next'>;
  readonly format: StreamFormat;
  /** The place in the decoded stream at which the body begins. */
  readonly offset: number;
  /**
   * For a caller who may only append, and learns nothing about what is stored: called with the number of records of each
   * chunk before it is stored. null: for any other.
   */
  readonly countAppended: ((records: number) => Promise<void>) | null;
  /** Called when the table exists and the key is free: the client may send. */
  readonly onReady: () => void;
  /** Called after each chunk, with the rows that this request has stored or accepted. */
  readonly onProgress: (progress: StoredPart, newRows: number) => void;
  /** Waits until it may use this many bytes of memory. @throws EngineError overloaded */
  readonly reserve: (bytes: number) => Promise<void>;
}

export interface StreamEnd {
  readonly response: BatchResponse | AppendResponse;
  readonly replayed: boolean;
  /** Rows that this request has stored, or accepted. */
  readonly newRows: number;
}

/** What is kept of a stream with a key. */
const State = Type.Object({
  counts: Counts,
  line: Type.Integer(),
  header: Type.Nullable(Type.Array(Type.String())),
});
type State = Static<typeof State>;

/**
 * Stores the stream. If a chunk cannot be stored, those before it are, and the error says how much they are.
 * @throws EngineError those of `insertRecords`, of the body, and of the key
 */
export async function storeStream(request: StreamRequest): Promise<StreamEnd> {
  const stream = new Stream(request);
  try {
    return await stream.store();
  } catch (thrown) {
    const error = fromPostgres(thrown);
    throw error instanceof EngineError ? error.with({ stored: stream.stored }) : error;
  }
}

class Stream {
  private counts = NOTHING;
  private bytes = 0;
  private rowsBefore = 0;
  private readonly errors: ErrorDetail[] = [];
  private errorCount = 0;

  constructor(private readonly request: StreamRequest) {}

  private get newRows(): number {
    return this.rowsTold(this.counts) - this.rowsBefore;
  }

  get stored(): StoredPart {
    return { rows: this.rowsTold(this.counts), bytes: this.bytes, isAccepted: this.appends };
  }

  private get appends(): boolean {
    return this.request.countAppended !== null;
  }

  private rowsTold(counts: Counts): number {
    return this.appends ? counts.records : rowsOf(counts);
  }

  async store(): Promise<StreamEnd> {
    const { request } = this;
    const { key, onReady, throttle, project, reserve } = request;
    const table = await tableOf(request);
    const earlier = key === null ? null : await readStream(project.forNextChunk(), key, request.signal);
    const state = earlier === null ? null : stateOf(earlier);
    if (earlier !== null && state !== null) this.goOnAfter(earlier, state);
    requireOffset(request, earlier);
    onReady();

    const body = new BytesOfBody(request.bytes);
    if (key !== null && earlier !== null) await skipStored(request, key, earlier, body);
    if (earlier?.isComplete) return { ...this.end(), replayed: true };
    const reading = formatReader(request.format, table, state ?? { line: 1, header: null }, request.unknown);
    const chunks = new ChunkReader(body, reading, this.bytes, key !== null, reserve);
    const next = async () => {
      const chunk = await chunks.next((steps) => throttle.runSteps(project.id, steps));
      await this.prepare(chunk);
      return { chunk, after: reading.state };
    };
    let storing = Promise.resolve();
    let isLast = false;
    for (;;) {
      const coming: ReturnType<typeof next> | null = isLast ? null : next();
      // Its error is thrown below, after that of the chunk that is being stored.
      coming?.catch(() => {});
      await storing;
      if (coming === null) return { ...this.end(), replayed: false };
      const { chunk, after }: Awaited<ReturnType<typeof next>> = await coming;
      isLast = chunk.isLast;
      storing = this.storeChunk(chunk, after);
      // Its error is thrown above.
      storing.catch(() => {});
    }
  }

  /** Encodes the chunk for the columns that the table had last. */
  private async prepare(chunk: Chunk): Promise<void> {
    const { tableCache, project, upsert, throttle, tableName } = this.request;
    const cached = tableCache.get(project.cacheKey, tableName);
    const encoder = upsert === null ? cached?.encoder : cached?.upsertEncoder;
    if (encoder != null) await throttle.run(project.id, () => chunk.prepare(encoder));
  }

  private async storeChunk(chunk: Chunk, after: FormatState): Promise<void> {
    const { request, counts, errors } = this;
    const { tableName, key, onProgress, countAppended } = request;
    let next = counts;
    const stateAfter = (response: unknown) => {
      const state: State = {
        counts: added(counts, response as BatchResponse, chunk.recordCount),
        line: after.line,
        header: after.header === null ? null : [...after.header],
      };
      return { state, rows: rowsOf(state.counts) };
    };
    const { start, end, sha256, isLast } = chunk;
    const chunkKey = key && { ...key, chunk: { start, end, sha256: sha256 ?? '', isLast, stateAfter } };
    try {
      await countAppended?.(chunk.recordCount);
      const project = request.project.forNextChunk();
      const options = { ...request, project, key: chunkKey, returnIds: false };
      const store = countAppended === null ? insertRecords : storeOrQuarantine;
      const { response } =
        chunk.recordCount > 0 ? await store(project, tableName, chunk, options) : await storeNoRecords(options);
      next = added(counts, response, chunk.recordCount);
      const { errors: some = [], error_count = 0 } = response;
      errors.push(...some.slice(0, LIMITS.errorsListed - errors.length).map((detail) => chunk.placedDetail(detail)));
      this.errorCount += error_count;
    } catch (thrown) {
      const error = fromPostgres(thrown);
      throw error instanceof EngineError ? chunk.placed(error) : error;
    }
    this.counts = next;
    this.bytes = end;
    onProgress(this.stored, this.newRows);
  }

  private goOnAfter({ bytes }: StoredStream, { counts }: State): void {
    this.counts = counts;
    this.bytes = bytes;
    this.rowsBefore = this.rowsTold(counts);
  }

  private end(): Omit<StreamEnd, 'replayed'> {
    const { counts, bytes, errors, errorCount, newRows, request } = this;
    if (this.appends) return { response: { ...accepted(counts.records), chunks: counts.chunks, bytes }, newRows };
    const response = streamResponse(counts, bytes, request);
    if (errors.length > 0) Object.assign(response, { errors, error_count: errorCount });
    return { response, newRows };
  }
}

type TableRequest = Pick<InsertRequest, 'project' | 'tableCache' | 'tableName' | 'signal'>;

/** @throws EngineError table_not_found */
export async function tableOf(request: TableRequest): Promise<Table> {
  const { project, tableName, signal } = request;
  const cached = await cachedTable(request);
  if (cached !== null) return cached.table;
  return project.read({ signal }, (db) => tableNotFound(db, project.schema, tableName));
}

/** Nothing but the end of the stream, or what is before its first record. */
async function storeNoRecords({ project, key, signal }: InsertRequestWithout<'body'>): Promise<Inserted> {
  const inserted = { response: insertResponse(0), replayed: false };
  if (key === null) return inserted;
  const underKey = { key, responseSchema: BatchResponse };
  return project.write({ signal, underKey }, () => planCommit(inserted.response));
}
type InsertRequestWithout<Name extends keyof InsertRequest> = Omit<InsertRequest, Name>;

// What a key has stored: a repeat skips it by its stored boundaries, so that another version may cut other chunks.

/** @throws EngineError idempotency_key_reused: this service has not written it */
function stateOf({ state }: StoredStream): State {
  if (describes(State)(state)) return state;
  throw new EngineError('idempotency_key_reused', 'What is stored under this Idempotency-Key is no stream');
}

/** @throws EngineError invalid_request, idempotency_key_reused */
function requireOffset({ offset, key }: StreamRequest, earlier: StoredStream | null): void {
  if (offset === 0) return;
  if (key === null) {
    throw new EngineError('invalid_request', '`offset` needs an Idempotency-Key', {
      hint: 'Only a stream with a key can be resumed.',
    });
  }
  const bytes = earlier?.bytes ?? 0;
  if (offset > bytes) {
    throw new EngineError('idempotency_key_reused', `Only ${bytes} bytes of this stream are stored`, {
      hint: `Send it with ?offset=${bytes}, or from its beginning.`,
    });
  }
}

/** Reads what is stored already, and compares it. @throws EngineError idempotency_key_reused */
async function skipStored(
  { project, offset, signal }: StreamRequest,
  key: IdempotencyKey,
  { bytes, isComplete }: StoredStream,
  body: BytesOfBody,
): Promise<void> {
  let at = offset;
  while (at < bytes) {
    const chunks = await readChunks(project.forNextChunk(), key, at, signal);
    if (chunks.length === 0) throw noBoundary(at, bytes);
    for (const { start, end, sha256 } of chunks) {
      if (start !== at) throw noBoundary(at, bytes);
      if ((await body.hashOf(end - start)) !== sha256) throw otherContent(start, bytes);
      at = end;
    }
  }
  if (isComplete && (await body.next()) !== null) throw otherContent(bytes, bytes);
}

const otherContent = (start: number, bytes: number) =>
  new EngineError(
    'idempotency_key_reused',
    `From byte ${start} on, this is not the stream that is stored under the Idempotency-Key, of which there are ${bytes} bytes`,
  );

const noBoundary = (at: number, bytes: number) =>
  new EngineError('idempotency_key_reused', `No chunk of this stream begins at byte ${at}`, {
    hint: `Send it with ?offset=${bytes}, or from its beginning.`,
  });
