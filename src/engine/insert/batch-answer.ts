/** What an insert is answered with, on whichever way it went. */
import type { BatchAnswer } from '../../contract/wire/batch.js';

/** @param ids of the records, in their order, where they were asked for */
export function inserted(count: number, ids?: readonly string[]): BatchAnswer {
  const message = `${count} ${count === 1 ? 'record' : 'records'} inserted`;
  const answer: BatchAnswer = { success: true, inserted_rows: count, message };
  return ids === undefined ? answer : { ...answer, ids: [...ids] };
}
