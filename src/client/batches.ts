/** Cuts a source of records into batches that the service takes, each record as the JSON that is sent. */
import type { ErrorPlace } from '../contract/errors.js';
import { LIMITS } from '../contract/limits.js';
import { toJson } from './json.js';

export type RecordSource<Item> = Iterable<Item> | AsyncIterable<Item>;

/** A record on its way, with its place in the input. */
export interface Parcel<Item> {
  index: number;
  record: Item;
  json: string;
  /** In UTF-8, with the comma behind it. */
  bytes: number;
}

/** Cuts by number of records and by bytes of the body. What cannot be sent at all is refused here. */
export async function* cut<Item extends object>(
  source: RecordSource<Item>,
  refuse: (refused: { index: number; record: Item; errors: readonly ErrorPlace[] }) => Promise<void>,
): AsyncGenerator<Parcel<Item>[], void> {
  let batch: Parcel<Item>[] = [];
  let bytes = BRACKETS;
  let index = 0;
  for await (const record of source) {
    const parcel = pack(index++, record);
    if ('error' in parcel) {
      await refuse({ index: index - 1, record, errors: [parcel] });
      continue;
    }
    if (bytes + parcel.bytes > LIMITS.bodyBytes) {
      yield batch;
      [batch, bytes] = [[], BRACKETS];
    }
    batch.push(parcel);
    bytes += parcel.bytes;
    if (batch.length === LIMITS.recordsPerBatch) {
      yield batch;
      [batch, bytes] = [[], BRACKETS];
    }
  }
  if (batch.length > 0) yield batch;
}

const BRACKETS = 2;
const utf8 = new TextEncoder();

function pack<Item extends object>(record: number, item: Item): Parcel<Item> | ErrorPlace {
  let json: string;
  try {
    json = toJson(item);
  } catch (error) {
    return { record, error: 'invalid_value', message: `Record ${record}: ${(error as Error).message}` };
  }
  const bytes = utf8.encode(json).length + 1;
  if (BRACKETS + bytes > LIMITS.bodyBytes) {
    const message = `Record ${record} alone is larger than the ${LIMITS.bodyBytes} bytes of a batch`;
    return { record, error: 'payload_too_large', message };
  }
  return { index: record, record: item, json, bytes };
}
