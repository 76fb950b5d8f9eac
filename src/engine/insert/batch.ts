/** A batch of records: the request, the responses, and what they count. */
import { type BatchEncoder, type EncodedBatch, type RecordBatch, readRecords, type Steps } from '../../codec/index.js';
import { counted } from '../../contract/message-text.js';
import type { BatchResponse } from '../../contract/wire/batch.js';
import type { IdempotencyKey, Replayable } from '../../db/idempotency.js';
import type { Project } from '../../db/project.js';
import type { EventLoopThrottle } from '../limits/event-loop-throttle.js';
import type { UnknownRule } from './unknown-fields.js';
import { countsOfLeft, type StoredCounts, type UpsertRule } from './upsert.js';

/** The records of a request, read in one of two ways. */
export interface RecordsBody {
  /** @returns null: {@link read} must read them */
  encode(encoder: BatchEncoder): EncodedBatch | null;
  /** @param options `apart` collects the errors of each record separately */
  read(options?: { apart: boolean }): Steps<RecordBatch>;
}

/** @param body decoded: a JSON array of records */
export const arrayOfRecords = (body: Buffer): RecordsBody => ({
  encode: (encoder) => encoder.encode(body),
  read: (options) => readRecords(body, options),
});

/** A batch, and how to store it. */
export interface BatchRequest {
  readonly project: Project;
  readonly tableName: string;
  readonly body: RecordsBody;
  readonly key: IdempotencyKey | null;
  /** What to do with a row that has the key of a record; null: refuse the record. */
  readonly upsert: UpsertRule | null;
  /** What becomes of fields that are no columns; undefined: their record is refused. */
  readonly unknown?: UnknownRule | undefined;
  /** How long refused records are kept. */
  readonly quarantineDays: number;
  readonly throttle: EventLoopThrottle;
  /** Aborted when the client disconnects, or with the EngineError that ends the request. */
  readonly signal: AbortSignal;
}

export type Inserted = Replayable<BatchResponse>;

/** The number of rows on a batch's receipt. */
export const rowsChanged = ({ inserted_rows, updated_rows = 0 }: BatchResponse): number => inserted_rows + updated_rows;

/** @param ids of the records, in their order, if the caller asked for them */
export function insertResponse(count: number, ids?: string[]): BatchResponse {
  const message = `${counted(count, 'record')} inserted`;
  return { success: true, inserted_rows: count, message, ...(ids !== undefined && { ids }) };
}

/** @param records of the batch; those that neither inserted nor updated a row were ignored, or unchanged */
export function upsertResponse(
  rule: UpsertRule,
  records: number,
  { inserted, updated }: StoredCounts,
  ids?: string[],
): BatchResponse {
  const left = countsOfLeft(rule, records - inserted - updated);
  const counts = { inserted_rows: inserted, updated_rows: updated, ...left };
  return { success: true, ...counts, message: upsertMessage(counts), ...(ids !== undefined && { ids }) };
}

type UpsertCounts = Pick<BatchResponse, 'inserted_rows' | 'updated_rows' | 'ignored_rows' | 'unchanged_rows'>;

export const upsertMessage = ({ inserted_rows, updated_rows = 0, ignored_rows = 0, unchanged_rows }: UpsertCounts) =>
  `${counted(inserted_rows, 'record')} inserted, ${updated_rows} updated, ${ignored_rows} ignored` +
  (unchanged_rows === undefined ? '' : `, ${unchanged_rows} unchanged`);
