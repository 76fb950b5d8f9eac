/** Cuts records into batches, the same ones each time: a batch that is sent again after a crash must be the same batch. */
import { LIMITS } from '../../contract/limits.js';
import type { Encoded } from './plan.js';

export interface Batch {
  /** From 0, over all files. */
  readonly number: number;
  readonly file: string;
  readonly records: readonly Encoded[];
}

/** Three bytes of UTF-8 a character is the most there can be, and a comma. */
const BATCH_CHARACTERS = Math.floor(LIMITS.bodyBytes / 3) - LIMITS.recordsPerBatch;

/** A batch holds records of one file. */
export async function* cutBatches(
  records: AsyncIterable<Encoded>,
  file: string,
  first: number,
): AsyncGenerator<Batch, void> {
  let number = first;
  let batch: Encoded[] = [];
  let characters = 0;
  for await (const record of records) {
    if (batch.length > 0 && characters + record.json.length > BATCH_CHARACTERS) {
      yield { number: number++, file, records: batch };
      [batch, characters] = [[], 0];
    }
    batch.push(record);
    characters += record.json.length;
    if (batch.length === LIMITS.recordsPerBatch) {
      yield { number: number++, file, records: batch };
      [batch, characters] = [[], 0];
    }
  }
  if (batch.length > 0) yield { number, file, records: batch };
}
