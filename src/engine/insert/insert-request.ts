/** A request to insert a batch, and the responses to it. */
import { counted } from '../../contract/message-text.js';
import type { BatchResponse } from '../../contract/wire/batch.js';
import type { Project } from '../project.js';
import type { IdempotencyKey, Replayable } from '../write/idempotency.js';
import type { StoredRows, UpsertRule } from './upsert.js';

export interface InsertRequest {
  readonly project: Project;
  readonly tableName: string;
  /** Decoded: a JSON array of records. */
  readonly body: Buffer;
  /** Return the ids as well. */
  readonly returnIds: boolean;
  readonly idempotency: IdempotencyKey | null;
  /** What to do with a row that has the key of a record; null: refuse the record. */
  readonly upsert: UpsertRule | null;
  /** Store the valid records, and quarantine the others. */
  readonly quarantine: boolean;
  /** Aborted when the client disconnects, or with the EngineError that ends the request. */
  readonly signal: AbortSignal;
}

export type Inserted = Replayable<BatchResponse>;

/** The number of rows on a batch's receipt. */
export const rowsChanged = ({ inserted_rows, updated_rows = 0 }: BatchResponse): number => inserted_rows + updated_rows;

/** @param ids of the records, in their order, if the caller asked for them */
export function insertResponse(count: number, ids?: string[]): Inserted {
  const message = `${counted(count, 'record')} inserted`;
  const response: BatchResponse = { success: true, inserted_rows: count, message };
  return { response: ids === undefined ? response : { ...response, ids }, replayed: false };
}

/** @param records of the batch; those that neither inserted nor updated a row were ignored */
export function upsertResponse(records: number, { inserted, updated }: StoredRows, ids?: string[]): Inserted {
  const ignored = records - inserted - updated;
  const message = `${counted(inserted, 'record')} inserted, ${updated} updated, ${ignored} ignored`;
  const counts = { inserted_rows: inserted, updated_rows: updated, ignored_rows: ignored };
  const response: BatchResponse = { success: true, ...counts, message };
  return { response: ids === undefined ? response : { ...response, ids }, replayed: false };
}
