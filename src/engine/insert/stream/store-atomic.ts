/**
 * A stream that is stored completely or not at all (`?atomic=true`): its body is kept on disk until it has ended, then stored in
 * one transaction. As with a batch, the fast path only accepts; if it does not, the checked path names every wrong record.
 */
import type { BatchEncoder } from '../../../codec/index.js';
import { ErrorCollector } from '../../../contract/error-collector.js';
import { EngineError } from '../../../contract/errors.js';
import { BatchResponse } from '../../../contract/wire/batch.js';
import type { IdempotencyKey } from '../../../db/idempotency.js';
import type { Project } from '../../../db/project.js';
import type { QueryRunner } from '../../../db/query-runner.js';
import { planCommit } from '../../../db/transaction.js';
import type { Result, Step } from '../../../pg/index.js';
import type { Table } from '../../catalog/catalog.js';
import { lockToWrite } from '../../catalog/find-table.js';
import type { Inserted } from '../batch.js';
import { storePartially } from '../partial-insert.js';
import { fitsTable } from '../unknown-fields.js';
import { type NotStored, resetIfCodeRuns, whyNotStored } from '../store-rows.js';
import type { CachedTable } from '../table-cache.js';
import { countsOfLeft, fastUpsert, type UpsertRule } from '../upsert.js';
import type { Chunk } from './chunk.js';
import { BytesOfBody, ChunkReader, USUAL_MEMORY } from './chunk-reader.js';
import { added, type Counts, NOTHING, rowsOf, streamResponse } from './counts.js';
import { formatReader } from './formats.js';
import type { Spool, Spools } from './spool.js';
import { type StreamEnd, type StreamRequest, tableOf } from './store-stream.js';

export interface AtomicRequest extends Pick<
  StreamRequest,
  | 'bytes'
  | 'format'
  | 'reserve'
  | 'onReady'
  | 'project'
  | 'signal'
  | 'tableCache'
  | 'tableName'
  | 'throttle'
  | 'upsert'
  | 'unknown'
> {
  readonly spools: Spools;
  /** The Idempotency-Key of a body with this SHA-256, hex; null: the request has none. */
  readonly keyOf: ((sha256: string) => IdempotencyKey) | null;
}

/** @throws EngineError those of `insertRecords`, of the body, and of the disk; nothing is stored then */
export async function storeAtomically(request: AtomicRequest): Promise<StreamEnd> {
  const { project, spools, keyOf, bytes, onReady } = request;
  await tableOf(request);
  // With a key, this may be a repeat, which stores nothing.
  if (keyOf === null) await project.requireRoom('grows');
  onReady();
  const spool = spools.open(project);
  try {
    for (let piece = await bytes.next(); !piece.done; piece = await bytes.next()) await spool.add(piece.value);
    // Not in the transaction.
    await request.reserve(USUAL_MEMORY);
    const write = new AtomicWrite(request, spool, keyOf?.(spool.sha256.digest('hex')) ?? null);
    const { response, replayed } = await write.store();
    return { response, replayed, newRows: response.inserted_rows + (response.updated_rows ?? 0) };
  } finally {
    spool.close();
  }
}

class AtomicWrite {
  private readonly project: Project;

  constructor(
    private readonly request: AtomicRequest,
    private readonly spool: Spool,
    private readonly key: IdempotencyKey | null,
  ) {
    // The time in which the body arrived was no wait in a queue.
    this.project = request.project.forNextChunk();
  }

  async store(): Promise<Inserted> {
    let stored = await this.storeFast();
    // The table has changed since it was cached; the checked path would take several times as long.
    if (stored === 'outdated') stored = await this.storeFast();
    return typeof stored === 'string' ? this.storeChecked() : stored;
  }

  private async storeFast(): Promise<Inserted | NotStored> {
    const { request, project, key } = this;
    const { signal, tableCache, tableName, upsert, unknown } = request;
    await tableOf(request);
    const cached = tableCache.get(project.cacheKey, tableName);
    const encoder = upsert === null ? cached?.encoder : cached?.upsertEncoder;
    if (cached === undefined || encoder == null || !fitsTable(unknown, cached.table)) return 'refused';
    const outcome = await project.write<Inserted | NotStored, BatchResponse>(
      { signal, underKey: { key, responseSchema: BatchResponse } },
      async (db) => {
        resetIfCodeRuns(db, cached.table, upsert !== null);
        const counts = await this.copyAll(db, cached, encoder);
        if (typeof counts === 'string') return { rollback: counts };
        const response = this.response(counts);
        const resultOf = () => ({ response, replayed: false });
        return { response, rows: rowsOf(counts), resultOf, onRefused: whyNotStored };
      },
    );
    if (outcome === 'outdated') tableCache.forget(project.cacheKey, cached);
    return outcome;
  }

  /** Stores each chunk while the next one is read and encoded, in the current transaction. */
  private async copyAll(db: QueryRunner, cached: CachedTable, encoder: BatchEncoder): Promise<Counts | NotStored> {
    const { upsert } = this.request;
    let counts = NOTHING;
    for await (const chunk of readAhead(untilUnreadable(this.chunks(cached.table, encoder)))) {
      db.restartClock();
      const encoded = chunk?.encode(encoder) ?? null;
      if (chunk === null || encoded === null) return 'refused';
      const step: Step | null =
        upsert === null ? cached.queueFor(encoded).copyOf([encoded]) : fastUpsert(cached.table, encoded, upsert);
      if (step === null) return 'refused';
      const { results, error } = await db.pipeline([step, cached.check], { prepared: true });
      encoded.free();
      if (error !== null) return whyNotStored(db.refusal(error), results, db);
      const records = chunk.recordCount;
      counts = added(
        counts,
        upsert === null ? { inserted_rows: records } : upserted(upsert, results, records),
        records,
      );
    }
    return counts;
  }

  /** @throws EngineError that lists what is wrong in the whole body */
  private storeChecked(): Promise<Inserted> {
    const { request, project, key } = this;
    const { signal, tableName, throttle, upsert } = request;
    const underKey = { key, responseSchema: BatchResponse };
    return project.write<Inserted, BatchResponse>({ signal, underKey }, async (db) => {
      const table = await lockToWrite(db, project.schema, tableName);
      resetIfCodeRuns(db, table, upsert !== null);
      const errors = new ErrorCollector();
      let counts = NOTHING;
      try {
        for await (const chunk of this.chunks(table, null)) {
          db.restartClock();
          const batch = await throttle.runSteps(project.id, chunk.read({ apart: true }));
          const { stored, refused, errorCount } = await storePartially(db, project, table, batch, request);
          const details = [...refused.values()].flat().map((detail) => chunk.placedDetail(detail));
          for (const { error, ...detail } of details) errors.add(error, () => detail);
          errors.addUnlisted(errorCount - details.length);
          const { inserted, updated } = stored;
          const left = batch.records.length - refused.size - inserted - updated;
          const ofLeft = upsert === null ? {} : countsOfLeft(upsert, left);
          counts = added(counts, { inserted_rows: inserted, updated_rows: updated, ...ofLeft }, chunk.recordCount);
        }
      } catch (error) {
        if (!(error instanceof EngineError)) throw error;
        if (errors.total === 0) throw error;
        errors.addError(error);
      }
      errors.throwIfAny();
      return planCommit(this.response(counts), [], { rows: rowsOf(counts) });
    });
  }

  private async *chunks(table: Table, encoder: BatchEncoder | null): AsyncGenerator<Chunk, void> {
    const { format, throttle, project, reserve, unknown } = this.request;
    const reading = formatReader(format, table, { line: 1, header: null }, unknown);
    const chunks = new ChunkReader(new BytesOfBody(this.spool.read()), reading, 0, false, reserve);
    for (let isLast = false; !isLast;) {
      const chunk = await chunks.next((steps) => throttle.runSteps(project.id, steps));
      ({ isLast } = chunk);
      if (chunk.recordCount === 0) continue;
      if (encoder !== null) await throttle.run(project.id, () => chunk.prepare(encoder));
      yield chunk;
    }
  }

  /** One transaction, whatever the number of chunks. */
  private response(counts: Counts): BatchResponse {
    const { spool, request } = this;
    return streamResponse({ ...counts, chunks: Math.min(counts.chunks, 1) }, spool.bytes, {
      upsert: request.upsert,
      quarantine: false,
    });
  }
}

/** The counts of {@link fastUpsert}. */
function upserted(rule: UpsertRule, [result]: readonly Result[], records: number) {
  const [inserted = 0, stored = 0] = (result?.rows[0] ?? []).map(Number);
  return { inserted_rows: inserted, updated_rows: stored - inserted, ...countsOfLeft(rule, records - stored) };
}

/** Ends with null if the body cannot be divided into records: the checked path names what is wrong before that place, too. */
async function* untilUnreadable(chunks: AsyncGenerator<Chunk, void>): AsyncGenerator<Chunk | null, void> {
  try {
    yield* chunks;
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    yield null;
  }
}

/** Asks for each item while the one before it is used; at the end, nothing runs any more. */
async function* readAhead<T>(source: AsyncGenerator<T, void>): AsyncGenerator<T, void> {
  const ask = () => {
    const coming = source.next();
    // Whoever waits for it gets its error.
    coming.catch(() => {});
    return coming;
  };
  let coming = ask();
  try {
    for (let next = await coming; !next.done; next = await coming) {
      coming = ask();
      yield next.value;
    }
  } finally {
    // Nobody uses it any more.
    await coming.catch(() => {});
  }
}
