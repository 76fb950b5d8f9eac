/** What an insert is answered with, on whichever way it went. */
import type { BatchAnswer } from '../../contract/wire/batch.js';

/** @param ids of the records, in their order, where they were asked for */
export function inserted(count: number, ids?: readonly string[]): BatchAnswer {
  const message = `${count} ${count === 1 ? 'record' : 'records'} inserted`;
  return { success: true, inserted_rows: count, message, ...(ids === undefined ? {} : { ids: [...ids] }) };
}
