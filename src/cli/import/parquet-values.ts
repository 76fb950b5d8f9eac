/** Converts Parquet values to JSON with all their digits, and Parquet types to column types. */
import type { FileMetaData, ParquetParsers, SchemaElement, SchemaTree } from 'hyparquet';
import type { ColumnType } from '../../contract/column-types.js';
import { epochTimestamp } from '../../import/timestamps.js';

/** The text of a JSON document. */
class Document {
  constructor(readonly text: string) {}
}

const timeOf = (value: bigint, below: number): string => epochTimestamp(String(value), below) ?? String(value);
const utf8 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('utf8');

/** These parsers replace `Date`, which has only milliseconds, and parsed JSON, which has doubles. They never get NULL. */
export const PARSERS: Partial<ParquetParsers> = {
  timestampFromMilliseconds: (value: bigint) => timeOf(value, 3),
  timestampFromMicroseconds: (value: bigint) => timeOf(value, 6),
  timestampFromNanoseconds: (value: bigint) => timeOf(value, 9),
  dateFromDays: (days: number) => timeOf(BigInt(days) * 86_400n, 0).slice(0, 'YYYY-MM-DD'.length),
  stringFromBytes: utf8,
  uuidFromBytes: (bytes: Uint8Array) =>
    Buffer.from(bytes)
      .toString('hex')
      .replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'),
  jsonFromBytes: (bytes: Uint8Array) => new Document(utf8(bytes)),
};

const isDecimal = ({ converted_type: type, logical_type: logical }: SchemaElement): boolean =>
  type === 'DECIMAL' || logical?.type === 'DECIMAL';
const isJson = ({ converted_type: type, logical_type: logical }: SchemaElement): boolean =>
  type === 'JSON' || logical?.type === 'JSON';

const DECIMALS = new WeakMap<SchemaElement, number>();

/** The reader converts decimals to doubles; without their type, it leaves them as stored. */
export function withRawDecimals(metadata: FileMetaData): FileMetaData {
  const schema = metadata.schema.map((element): SchemaElement => {
    if (!isDecimal(element)) return element;
    const { converted_type, logical_type, ...raw } = element;
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
  if (value instanceof Uint8Array) return JSON.stringify(`\\x${Buffer.from(value).toString('hex')}`);
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

/** @param raw an integer, or its big-endian bytes */
function decimalOf(raw: number | bigint | Uint8Array, scale: number): string {
  const value =
    raw instanceof Uint8Array
      ? BigInt.asIntN(raw.length * 8, BigInt(`0x0${Buffer.from(raw).toString('hex')}`))
      : BigInt(raw);
  const digits = String(value < 0n ? -value : value).padStart(scale + 1, '0');
  const point = digits.length - scale;
  return `${value < 0n ? '-' : ''}${digits.slice(0, point)}${scale === 0 ? '' : `.${digits.slice(point)}`}`;
}
