/** Reads records of a Parquet file as JSON text, part of a row group at a time. */
import {
  type DecodedArray,
  type FileMetaData,
  parquetMetadataAsync,
  type ParquetParsers,
  type ParquetRowRange,
  parquetScan,
  parquetSchema,
  type SchemaElement,
  type SchemaTree,
} from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { hexOf } from '../client/json.js';
import { type ColumnType, INT64_MAX } from '../contract/column-types.js';
import { FileError } from './file-error.js';
import { flattened } from './flatten.js';
import type { RandomAccess } from './input.js';
import type { JsonRecord } from './json-records.js';
import type { FileReadOptions, Source } from './source.js';
import { epochTimestamp } from './timestamps.js';

/** The number of values read at a time, over all columns. */
const VALUES = 100_000;
/**
 * The limit for a column of a row group, whose encoded bytes are kept in memory, and for nested values also the decoded
 * ones.
 */
const CHUNK_MIB = 256;

/** @throws FileError if it cannot be read as Parquet */
export async function openParquet(
  { path, label, size, slice }: RandomAccess,
  { flatten, skip = [] }: FileReadOptions,
): Promise<Source> {
  if (size === null) throw new FileError(`${label}: Parquet must be a regular file, not a pipe`);
  const file = { byteLength: size, slice };
  const metadata = await explained(label, parquetMetadataAsync(file, { geoparquet: false }).then(withRawValues));
  requireSmallGroups(label, metadata);
  const columns = parquetSchema(metadata).children;
  let [rowsRead, isClosed] = [0, false];
  const read = async function* (): AsyncGenerator<JsonRecord, void> {
    const options = { file, metadata, compressors, parsers: PARSERS, utf8: false, geoparquet: false };
    const scan = await explained(label, parquetScan(options));
    for (const group of scan.ranges) {
      for (const part of partsOf(group, columns.length)) {
        const values: DecodedArray[] = [];
        for (const { element, children } of columns) {
          const column = element.name;
          if (skip.includes(column)) {
            values.push([]);
            continue;
          }
          const named = <T>(work: Promise<T>) => explained(label, work, column);
          // Nested values can be decoded only from the beginning of the group; parts of them then come from memory.
          if (children.length > 0 || element.repetition_type === 'REPEATED')
            await named(scan.readColumn({ column, ...group }));
          values.push(await named(scan.readColumn({ column, ...part })));
        }
        for (let i = 0; i < part.rowEnd - part.rowStart; i++) {
          if (isClosed) return;
          const members = columns.map(
            (column, at) => `${JSON.stringify(column.element.name)}:${jsonOf(values[at]?.[i], column)}`,
          );
          yield { line: ++rowsRead, text: `{${members.join(',')}}` };
        }
      }
    }
  };
  const total = Number(metadata.num_rows);
  return {
    input: {
      label,
      name: path,
      size,
      bytesRead: () => (total === 0 ? size : (rowsRead / total) * size),
      close: () => (isClosed = true),
    },
    format: { kind: 'parquet', delimiter: '' },
    header: undefined,
    types: new Map(columns.map((column) => [column.element.name, columnType(column)])),
    records: flatten ? flattened(read(), label) : read(),
  };
}

/** @param group rows of one row group @returns parts small enough to fit in memory as JavaScript values */
function* partsOf({ rowStart: start, rowEnd: end }: ParquetRowRange, columns: number): Generator<ParquetRowRange> {
  const rows = Math.ceil(VALUES / Math.max(1, columns));
  for (let rowStart = start; rowStart < end; rowStart += rows)
    yield { rowStart, rowEnd: Math.min(end, rowStart + rows) };
}

function requireSmallGroups(label: string, { row_groups: groups }: FileMetaData): void {
  const chunks = groups.flatMap(({ columns }) => columns.map(({ meta_data: data }) => data));
  const bytes = chunks.reduce((most, data) => Math.max(most, Number(data?.total_uncompressed_size ?? 0n)), 0);
  if (bytes <= CHUNK_MIB * 1024 * 1024) return;
  throw new FileError(
    `${label} has a row group with ${Math.ceil(bytes / 1024 / 1024)} MiB in one column; up to ${CHUNK_MIB} MiB can be read`,
    'Write it with smaller row groups, such as of 100,000 rows',
  );
}

/** Adds the file and the column to errors of the reader, which does not name them. */
async function explained<T>(label: string, work: Promise<T>, column?: string): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    if (column === undefined) throw new FileError(`${label} cannot be read as Parquet: ${message}`);
    throw new FileError(
      `${label}: the column "${column}" cannot be read: ${message}`,
      `Leave it out with --skip ${/^[\w./-]+$/.test(column) ? column : `'${column}'`}`,
    );
  }
}

// Converts Parquet values to JSON with all their digits, and Parquet types to column types.

/** The text of a JSON document. */
class Document {
  constructor(readonly text: string) {}
}

const timeOf = (value: bigint, below: number): string => epochTimestamp(String(value), below) ?? farTime(value, below);

/** After 400 years, the calendar repeats. */
const CYCLE = { years: 400, seconds: 146_097n * 86_400n };

const floor = (value: bigint, by: bigint): bigint => (value - (((value % by) + by) % by)) / by;

/** A time that no column takes, for the user to correct: in ISO 8601, or what DuckDB and Postgres call infinity. */
function farTime(value: bigint, below: number): string {
  if (value >= INT64_MAX) return 'infinity';
  if (value <= -INT64_MAX) return '-infinity';
  const unit = 10n ** BigInt(below);
  const seconds = floor(value, unit);
  const cycles = floor(seconds, CYCLE.seconds);
  const near = new Date(Number(seconds - cycles * CYCLE.seconds) * 1_000);
  const year = near.getUTCFullYear() + Number(cycles) * CYCLE.years;
  const fraction = String(value - seconds * unit)
    .padStart(below, '0')
    .replace(/0+$/, '');
  const sixDigits = String(Math.abs(year)).padStart(6, '0');
  return `${year < 0 ? '-' : '+'}${sixDigits}${near.toISOString().slice(4, 19)}${fraction === '' || below === 0 ? '' : `.${fraction}`}Z`;
}

const INT32_MAX = 2_147_483_647;

function dateOf(days: number): string {
  if (days >= INT32_MAX) return 'infinity';
  if (days <= -INT32_MAX) return '-infinity';
  return timeOf(BigInt(days) * 86_400n, 0).replace(/T.*/, '');
}

const DECODER = new TextDecoder('utf-8', { ignoreBOM: true });
const utf8 = (bytes: Uint8Array): string => DECODER.decode(bytes);

/** These parsers replace `Date`, which has only milliseconds, and parsed JSON, which has doubles. They never get NULL. */
const PARSERS: Partial<ParquetParsers> = {
  timestampFromMilliseconds: (value: bigint) => timeOf(value, 3),
  timestampFromMicroseconds: (value: bigint) => timeOf(value, 6),
  timestampFromNanoseconds: (value: bigint) => timeOf(value, 9),
  dateFromDays: dateOf,
  stringFromBytes: utf8,
  uuidFromBytes: (bytes: Uint8Array) => hexOf(bytes).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'),
  jsonFromBytes: (bytes: Uint8Array) => new Document(utf8(bytes)),
};

const isDecimal = ({ converted_type: type, logical_type: logical }: SchemaElement): boolean =>
  type === 'DECIMAL' || logical?.type === 'DECIMAL';
const isJson = ({ converted_type: type, logical_type: logical }: SchemaElement): boolean =>
  type === 'JSON' || logical?.type === 'JSON';

const DECIMALS = new WeakMap<SchemaElement, number>();
const INTERVALS = new WeakSet<SchemaElement>();

/**
 * The reader converts decimals to doubles, and knows no intervals and no BSON; without their type, it leaves values as
 * stored.
 */
function withRawValues(metadata: FileMetaData): FileMetaData {
  const schema = metadata.schema.map((element): SchemaElement => {
    const isInterval = element.converted_type === 'INTERVAL';
    if (!isDecimal(element) && !isInterval && element.converted_type !== 'BSON') return element;
    const { converted_type, logical_type, ...raw } = element;
    if (isInterval) INTERVALS.add(raw);
    if (isDecimal(element))
      DECIMALS.set(raw, logical_type?.type === 'DECIMAL' ? logical_type.scale : (element.scale ?? 0));
    return raw;
  });
  return { ...metadata, schema };
}

/** @returns undefined if the values decide: for decimals, and for integers that may exceed 64 bits */
export function columnType({ element, children }: SchemaTree): ColumnType | undefined {
  const { type, converted_type: converted, logical_type: logical, repetition_type: repetition } = element;
  if (children.length > 0 || repetition === 'REPEATED' || isJson(element)) return 'JSONB';
  if (DECIMALS.has(element) || converted === 'UINT_64' || logical?.type === 'NULL') return undefined;
  if (logical?.type === 'INTEGER' && logical.bitWidth === 64 && !logical.isSigned) return undefined;
  if (type === 'INT96' || logical?.type === 'TIMESTAMP' || /^(?:DATE|TIMESTAMP_\w+)$/.test(converted ?? ''))
    return 'TIMESTAMP';
  if (logical?.type === 'TIME' || converted?.startsWith('TIME_')) return 'TEXT';
  if (type === 'INT32' || type === 'INT64') return 'INTEGER';
  if (type === 'FLOAT' || type === 'DOUBLE' || logical?.type === 'FLOAT16') return 'FLOAT';
  return type === 'BOOLEAN' ? 'BOOLEAN' : 'TEXT';
}

/** @param node the schema of the value; undefined within values that describe themselves (VARIANT) */
export function jsonOf(value: unknown, node: SchemaTree | undefined): string {
  if (value === null || value === undefined) return 'null';
  if (value instanceof Document) return value.text;
  if (node !== undefined && node.children.length === 0 && !Array.isArray(value)) {
    const scale = DECIMALS.get(node.element);
    if (scale !== undefined) return decimalOf(value as number | bigint | Uint8Array, scale);
    const below = digitsOfTime(node.element);
    if (below !== undefined) return JSON.stringify(timeOf(BigInt(value as number | bigint), below).slice(11, -1));
    if (value instanceof Uint8Array && isJson(node.element)) return utf8(value);
    if (value instanceof Uint8Array && INTERVALS.has(node.element)) return JSON.stringify(intervalOf(value));
  }
  switch (typeof value) {
    case 'number':
      if (!Number.isFinite(value)) return `"${value}"`;
      return Object.is(value, -0) ? '-0' : String(value);
    case 'bigint':
      return String(value);
    case 'object':
      break;
    default:
      return JSON.stringify(value);
  }
  // In Postgres's hex format for bytea.
  if (value instanceof Uint8Array) return JSON.stringify(`\\x${hexOf(value)}`);
  if (value instanceof Date) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map((item) => jsonOf(item, itemOf(node))).join(',')}]`;
  const members = Object.entries(value).map(
    ([name, member]) => `${JSON.stringify(name)}:${jsonOf(member, memberOf(node, name))}`,
  );
  return `{${members.join(',')}}`;
}

/** A list has a repeated group, usually with a single member, the item. A repeated value is its own item. */
function itemOf(node: SchemaTree | undefined): SchemaTree | undefined {
  const [group] = node?.children ?? [];
  return group === undefined ? node : group.children.length === 1 ? group.children[0] : group;
}

function memberOf(node: SchemaTree | undefined, name: string): SchemaTree | undefined {
  const member = node?.children.find(({ element }) => element.name === name);
  // Each entry of a map has a key and a value.
  return member ?? node?.children[0]?.children[1];
}

function digitsOfTime({ converted_type: converted, logical_type: logical }: SchemaElement): number | undefined {
  const unit = logical?.type === 'TIME' ? logical.unit : /^TIME_(\w+)$/.exec(converted ?? '')?.[1];
  return unit === undefined ? undefined : { MILLIS: 3, MICROS: 6, NANOS: 9 }[unit];
}

/** @param bytes three unsigned 32-bit numbers: months, days, milliseconds @returns what Postgres reads as an interval */
function intervalOf(bytes: Uint8Array): string {
  const parts = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const [months, days, milliseconds] = [0, 4, 8].map((at) => parts.getUint32(at, true));
  return `${months} months ${days} days ${Number(milliseconds) / 1_000} seconds`;
}

/** @param raw an integer, or its big-endian bytes */
function decimalOf(raw: number | bigint | Uint8Array, scale: number): string {
  const value = raw instanceof Uint8Array ? BigInt.asIntN(raw.length * 8, BigInt(`0x0${hexOf(raw)}`)) : BigInt(raw);
  const digits = String(value < 0n ? -value : value).padStart(scale + 1, '0');
  const point = digits.length - scale;
  return `${value < 0n ? '-' : ''}${digits.slice(0, point)}${scale === 0 ? '' : `.${digits.slice(point)}`}`;
}
