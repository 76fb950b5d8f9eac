/** Splits records into batches that the service accepts. Each record is in the JSON form in which it is sent. */
import type { ErrorDetail } from '../contract/errors.js';
import { LIMITS } from '../contract/limits.js';
import { NotJsonError, toJson } from './json.js';

export type RecordSource<Item> = Iterable<Item> | AsyncIterable<Item>;

/** A record with its position in the input. */
export interface IndexedRecord<Item> {
  index: number;
  record: Item;
  json: string;
}

const BRACKETS = 2;
const utf8 = new TextEncoder();

/** The bytes of a record in the body: its UTF-8 and a comma. */
const bytesOf = (json: string): number => utf8.encode(json).length + 1;

/** Limits the number of records and the bytes of the body. The same records always give the same batches. */
export async function* cutBatches<Item extends { readonly json: string }>(
  items: RecordSource<Item>,
): AsyncGenerator<Item[], void> {
  let batch: Item[] = [];
  let bytes = BRACKETS;
  for await (const item of items) {
    const more = bytesOf(item.json);
    if (batch.length > 0 && bytes + more > LIMITS.bodyBytes) {
      yield batch;
      [batch, bytes] = [[], BRACKETS];
    }
    batch.push(item);
    bytes += more;
    if (batch.length === LIMITS.recordsPerBatch) {
      yield batch;
      [batch, bytes] = [[], BRACKETS];
    }
  }
  if (batch.length > 0) yield batch;
}

/** Converts the records to JSON; those that cannot be sent go to `refuse`. */
export async function* toRecords<Item extends object>(
  source: RecordSource<Item>,
  refuse: (refused: { index: number; record: Item; errors: readonly ErrorDetail[] }) => Promise<void>,
): AsyncGenerator<IndexedRecord<Item>, void> {
  let index = 0;
  for await (const record of source) {
    const json = jsonOrError(record, index);
    if (typeof json === 'string') yield { index, record, json };
    else await refuse({ index, record, errors: [json] });
    index++;
  }
}

export function jsonOrError(item: object, record: number): string | ErrorDetail {
  try {
    const json = toJson(item);
    if (BRACKETS + bytesOf(json) <= LIMITS.bodyBytes) return json;
  } catch (error) {
    const { message } = error as Error;
    const column = error instanceof NotJsonError ? error.member : undefined;
    if (column === undefined) return { record, error: 'invalid_value', message: `Record ${record}: ${message}` };
    return { record, column, error: 'invalid_value', message: `Record ${record}, column ${message}` };
  }
  const message = `Record ${record} alone is larger than the ${LIMITS.bodyBytes} bytes of a batch`;
  return { record, error: 'payload_too_large', message };
}
