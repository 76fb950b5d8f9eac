/** The answers to inserts. */
import { counted } from '../../contract/message-text.js';
import type { BatchAnswer } from '../../contract/wire/batch.js';
import type { Answered } from '../write/idempotency.js';
import type { StoredRows } from './upsert.js';

export type Inserted = Answered<BatchAnswer>;

/** The number of rows on a batch's receipt. */
export const rowsChanged = ({ inserted_rows, updated_rows = 0 }: BatchAnswer): number => inserted_rows + updated_rows;

/** @param ids of the records, in their order, if the caller asked for them */
export function insertAnswer(count: number, ids?: string[]): Inserted {
  const message = `${counted(count, 'record')} inserted`;
  const answer: BatchAnswer = { success: true, inserted_rows: count, message };
  return { answer: ids === undefined ? answer : { ...answer, ids }, replayed: false };
}

/** @param records of the batch; those that neither inserted nor updated a row were ignored */
export function upsertAnswer(records: number, { inserted, updated }: StoredRows, ids?: string[]): Inserted {
  const ignored = records - inserted - updated;
  const message = `${counted(inserted, 'record')} inserted, ${updated} updated, ${ignored} ignored`;
  const counts = { inserted_rows: inserted, updated_rows: updated, ignored_rows: ignored };
  const answer: BatchAnswer = { success: true, ...counts, message };
  return { answer: ids === undefined ? answer : { ...answer, ids }, replayed: false };
}
