/** What an insert answers. */
import type { BatchAnswer } from '../../contract/wire/batch.js';
import type { Answered } from '../idempotency.js';

export type Inserted = Answered<BatchAnswer>;

/** @param ids of the records, in their order, if the caller asked for them */
export function inserted(count: number, ids?: string[]): Inserted {
  const message = `${count} ${count === 1 ? 'record' : 'records'} inserted`;
  const answer: BatchAnswer = { success: true, inserted_rows: count, message };
  return { answer: ids === undefined ? answer : { ...answer, ids }, replayed: false };
}
