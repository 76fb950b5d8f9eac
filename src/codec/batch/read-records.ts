/** The first stage of a batch: from the body's bytes to records, before the table is known or a connection is taken. */
import { isUtf8 } from 'node:buffer';
import { ErrorCollector } from '../../contract/error-collector.js';
import { EngineError } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import { cut, quoted } from '../../contract/message-text.js';
import { duplicateKeys, jsonText, type JsonNode, type JsonObject } from '../json/nodes.js';
import { readItems, readJsonLine, type Steps, type ValueLimit } from '../json/read-json.js';

/** Records of one request, or of one chunk of a stream. */
export interface RecordBatch {
  /** An element that is not an object becomes an object without keys. */
  readonly records: readonly JsonObject[];
  /** Errors that do not depend on the table: an element that is not an object, a duplicate key in a record. */
  readonly errors: ErrorCollector;
  /** Collects the errors of a record; usually {@link errors}. */
  readonly errorsOf: (record: number) => ErrorCollector;
  /** A record as sent. */
  readonly textOf: (record: number) => string;
  /** The members of a record, with their values as sent. */
  readonly membersOf: (record: number) => readonly (readonly [key: string, json: string])[];
}

/**
 * Leaves errors of single records to `check-records.ts`, which reports them together with bad cells.
 * @param options `apart` collects the errors of each record separately; not `isLimited`: the values were counted when they arrived
 * @throws EngineError `invalid_json`, `invalid_request`, `empty_batch`, `too_many_records` (contract C1.22, C8.1, C8.4).
 */
export function* readRecords(body: Uint8Array, { apart = false, isLimited = true } = {}): Steps<RecordBatch> {
  const root = yield* readItems(body, isLimited ? OF_CELL : undefined, CELLS, (index) => {
    if (index === LIMITS.recordsPerBatch) throw tooManyRecords();
  });
  if (root.kind !== 'array') {
    throw new EngineError('invalid_request', `The body is ${KIND[root.kind]}, not an array of records`);
  }
  if (root.items.length === 0) throw new EngineError('empty_batch', 'The batch contains no records');
  const { items } = root;
  const errors = new ErrorCollector();
  const own = items.map(() => (apart ? new ErrorCollector() : errors));
  const errorsOf = (record: number) => own[record] ?? errors;
  const records = items.map((item, record) => recordOf(item, record, errorsOf(record)));
  return { ...batchOf(items, records), errors, errorsOf };
}

const batchOf = (items: readonly JsonNode[], records: readonly JsonObject[]) => ({
  records,
  textOf: (record: number) => jsonText(items[record] ?? { kind: 'null' }),
  membersOf: (record: number) => records[record]?.members.map(([key, value]) => [key, jsonText(value)] as const) ?? [],
});

/** The depth of a record's values: JSON nested in a cell stays text. */
const CELLS = 2;

const OF_CELL: ValueLimit = {
  depth: CELLS,
  isOfField: true,
  tooManyKeys: (record) => inRecord(record, null, `Record ${record} has more than ${LIMITS.keysPerRecord} keys`),
  tooManyValues: (record, key) =>
    inRecord(
      record,
      key,
      `Record ${record}${key === null ? '' : `, column ${quoted(key)}`}: more than ${LIMITS.values} values in one cell`,
    ),
};

/** @param key null: the whole record */
function inRecord(record: number, key: string | null, message: string): EngineError {
  const place = { record, ...(key === null ? {} : { column: cut(key) }), error: 'invalid_request', message } as const;
  return new EngineError('invalid_request', message, { errors: [place], errorCount: 1 });
}

const tooManyRecords = () =>
  new EngineError(
    'too_many_records',
    `The batch contains more than ${LIMITS.recordsPerBatch} records, the most that one request allows`,
  );

/**
 * The same for records in lines.
 * @param lines those that are not blank
 * @throws nothing: each line has its own errors
 */
export function* readLines(lines: readonly Uint8Array[], { apart = false } = {}): Steps<RecordBatch> {
  const errors = new ErrorCollector();
  const own = lines.map(() => (apart ? new ErrorCollector() : errors));
  const errorsOf = (record: number) => own[record] ?? errors;
  const items: JsonNode[] = [];
  const records: JsonObject[] = [];
  for (const [record, line] of lines.entries()) {
    const item = readLine(line, record, errorsOf(record));
    items.push(item ?? { kind: 'string', value: Buffer.from(line).toString(isUtf8(line) ? 'utf8' : 'latin1') });
    records.push(item === null ? NO_RECORD : recordOf(item, record, errorsOf(record)));
    yield;
  }
  return { ...batchOf(items, records), errors, errorsOf };
}

/** @returns null: the line is not JSON, or holds too much */
function readLine(line: Uint8Array, record: number, errors: ErrorCollector): JsonNode | null {
  try {
    return readJsonLine(line, OF_CELL, CELLS, record);
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    const [place] = error.errors ?? [];
    const message = error.message.replace(/^The body is not valid JSON: line 1, column/, 'not valid JSON: column');
    const { error: code = error.code, ...detail } = place ?? { record, message: `Record ${record}: ${message}` };
    errors.add(code, () => detail);
    return null;
  }
}

const NO_RECORD: JsonObject = { kind: 'object', members: [], text: '{}' };

function recordOf(item: JsonNode, record: number, errors: ErrorCollector): JsonObject {
  if (item.kind !== 'object') {
    const message = `Record ${record} is ${KIND[item.kind]}, not an object`;
    errors.add('invalid_request', () => ({ record, message }));
    return NO_RECORD;
  }
  for (const key of duplicateKeys(item)) {
    const message = `Record ${record} has the key ${quoted(key)} twice`;
    errors.add('invalid_json', () => ({ record, column: cut(key), message }));
  }
  return item;
}

const KIND: Record<JsonNode['kind'], string> = {
  null: 'null',
  boolean: 'a boolean',
  number: 'a number',
  string: 'a string',
  array: 'an array',
  object: 'an object',
};
