/** The first stage of a batch: from the body's bytes to records, before the table is known or a connection is taken. */
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { duplicateKeys, type JsonNode, type JsonObject } from '../json/nodes.js';
import { readJson } from '../json/read-json.js';
import { cut, quoted } from '../message-text.js';
import { Places } from './places.js';

/** 1 to 250 records (specification 4.4); within a record no key stands twice. */
export interface ParsedBatch {
  readonly records: readonly JsonObject[];
}

/** @throws EngineError `invalid_json`, `invalid_request`, `empty_batch`, `too_many_records` (contract section 6). */
export function parseBatch(body: Uint8Array): ParsedBatch {
  const { root } = readJson(body, { depth: 1, items: LIMITS.recordsPerBatch, exceeded: tooManyRecords }, CELLS);
  if (root.kind !== 'array') {
    throw new EngineError('invalid_request', `The body is ${KIND[root.kind]}, not an array of records`);
  }
  if (root.items.length === 0) throw new EngineError('empty_batch', 'The batch holds no record');
  return { records: records(root.items) };
}

/** Depth of the records: what is nested in a cell stays text. */
const CELLS = 2;

const tooManyRecords = () =>
  new EngineError(
    'too_many_records',
    `The batch holds more than ${LIMITS.recordsPerBatch} records, which is the most one request takes`,
  );

function records(items: readonly JsonNode[]): JsonObject[] {
  const strangers = new Places();
  const duplicates = new Places();
  const objects: JsonObject[] = [];
  for (const [record, item] of items.entries()) {
    if (item.kind === 'object') {
      objects.push(item);
      for (const key of duplicateKeys(item)) {
        const message = `Record ${record} gives the key ${quoted(key)} twice`;
        duplicates.add('invalid_json', () => ({ record, column: cut(key), message }));
      }
    } else {
      const message = `Record ${record} is ${KIND[item.kind]}, not an object`;
      strangers.add('invalid_request', () => ({ record, message }));
    }
  }
  strangers.refuse();
  duplicates.refuse();
  return objects;
}

const KIND: Record<JsonNode['kind'], string> = {
  null: 'null',
  boolean: 'a boolean',
  number: 'a number',
  string: 'a string',
  array: 'an array',
  object: 'an object',
};
