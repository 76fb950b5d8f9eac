/**
 * Writes the rows of a query as a Parquet file, one row group at a time, so that memory does not grow with the number
 * of rows.
 */
import type { SchemaElement } from 'hyparquet';
import { ByteWriter, type ColumnSource, ParquetWriter } from 'hyparquet-writer';
import type { CdpClient } from '../client/client.js';
import { CdpError } from '../client/error.js';
import type { StreamOptions } from '../client/sql.js';
import { DAY_MS } from '../contract/calendar.js';
import { FileError } from '../import/file-error.js';
import { membersOf } from '../import/json-records.js';

/** Either limit ends a row group. */
const GROUP = { rows: 100_000, characters: 16 * 1024 * 1024 };

/**
 * Runs the query twice: a stream names types without modifiers, and DECIMAL needs those of `numeric(10,2)`. If there are
 * columns of `numeric` without a precision, a third run determines their digits.
 * @param onRow called for each row
 * @throws FileError if the type of its column cannot hold a value, such as `infinity`
 */
export async function* parquetRows(
  client: CdpClient,
  sql: string,
  params: readonly unknown[],
  options: Omit<StreamOptions, 'numbers'>,
  onRow: () => void,
): AsyncGenerator<Uint8Array, void> {
  const response = await client.query(sql, params, { ...options, max_rows: 1 });
  const described = (response.results?.at(-1) ?? response).columns;
  const columns = parquetColumns(await withDecimals(described, client, sql, params, options));
  const bytes = new ByteWriter();
  const schema = [{ name: 'root', num_children: columns.length }, ...columns.map(({ element }) => element)];
  const writer = new ParquetWriter({ writer: bytes, schema, createdBy: 'cdp-data-engine' });
  const takeBytes = (): Uint8Array => {
    const chunk = bytes.getBytes().slice();
    bytes.index = 0;
    return chunk;
  };
  let group = emptyGroup(columns);
  let [rows, characters] = [0, 0];
  const writeGroup = (): Uint8Array => {
    const size = group[0]?.data.length ?? 0;
    void writer.write({ columnData: group, rowGroupSize: size });
    group = emptyGroup(columns);
    characters = 0;
    return takeBytes();
  };
  for await (const line of client.sqlLines(sql, params, { ...options, numbers: 'raw' })) {
    addRow(group, columns, line, ++rows);
    onRow();
    characters += line.length;
    if (rows % GROUP.rows === 0 || characters >= GROUP.characters) yield writeGroup();
  }
  if (characters > 0) yield writeGroup();
  // Readers that know only the older form need this annotation for columns of JSON bytes.
  writer.schema = schema.map((element) =>
    'logical_type' in element && element.logical_type?.type === 'JSON'
      ? { ...element, converted_type: 'JSON' }
      : element,
  );
  void writer.finish();
  yield takeBytes();
}

interface ResultColumn {
  name: string;
  type: string;
}

/** The fractional digits of a `numeric` whose values need no more. */
const SCALE = 9;

/** Gives a precision to columns of `numeric` that have none, if their values fit. */
async function withDecimals(
  columns: readonly ResultColumn[],
  client: CdpClient,
  sql: string,
  params: readonly unknown[],
  options: Omit<StreamOptions, 'numbers'>,
): Promise<readonly ResultColumn[]> {
  const names = columns.flatMap(({ name, type }) => (type === 'numeric' ? name : []));
  if (names.length === 0) return columns;
  const digits = names.map((name) => {
    const column = `"${name.replaceAll('"', '""')}"`;
    // NaN and the infinities have no scale.
    return `max(scale(${column})), max(length(trunc(abs(${column}))::text)), bool_or(${column} IS NOT NULL AND scale(${column}) IS NULL)`;
  });
  const text = `SELECT ${digits.join(', ')} FROM (${sql.replace(/[\s;]+$/, '')}\n) AS rows`;
  let found: unknown[];
  try {
    const { rows } = await client.query<unknown[]>(text, params, { ...options, row_mode: 'array' });
    found = rows[0] ?? [];
  } catch (error) {
    // Not every statement that returns rows may be part of another one.
    if (error instanceof CdpError && error.code === 'sql_error') return columns;
    throw error;
  }
  return columns.map(({ name, type }) => {
    const at = names.indexOf(name) * 3;
    if (at < 0 || found[at + 2] === true) return { name, type };
    const [scale, whole] = [Number(found[at] ?? 0), Number(found[at + 1] ?? 0)];
    const wide = Math.max(SCALE, scale);
    if (whole + scale > DECIMAL_DIGITS) return { name, type };
    return { name, type: `numeric(${DECIMAL_DIGITS},${whole + wide > DECIMAL_DIGITS ? scale : wide})` };
  });
}

type Group = (Omit<ColumnSource, 'data'> & { data: unknown[] })[];

const emptyGroup = (columns: readonly ParquetColumn[]): Group =>
  // No statistics for JSON: the smallest and the largest document are useless to readers.
  columns.map(({ element: { name }, isJson = false }) => ({ name, data: [], statistics: !isJson }));

function addRow(group: Group, columns: readonly ParquetColumn[], line: string, row: number): void {
  const members = membersOf(line) ?? [];
  columns.forEach(({ element: { name }, toValue }, i) => {
    const json = members[i]?.[1] ?? 'null';
    const value = json === 'null' ? null : toValue(json);
    if (value === undefined) {
      throw new FileError(
        `Row ${row}: Parquet cannot represent ${json} in the column "${name}"`,
        `Write the column as text: "${name}"::text`,
      );
    }
    group[i]?.data.push(value);
  });
}

// Maps columns of a result to columns of a Parquet file: their types, and their values from the service's JSON.

interface ParquetColumn {
  readonly element: SchemaElement;
  /**
   * @param json the JSON text of a value that is not null
   * @returns undefined if the type cannot hold the value
   */
  readonly toValue: (json: string) => unknown;
  /** The values are bytes of JSON, which the writer must not encode again. */
  readonly isJson?: boolean;
}

type Kind = Omit<SchemaElement, 'name' | 'repetition_type'>;

const STRING: Kind = { type: 'BYTE_ARRAY', converted_type: 'UTF8', logical_type: { type: 'STRING' } };
const JSON_TEXT: Kind = { type: 'BYTE_ARRAY', logical_type: { type: 'JSON' } };
const timestamp = (isAdjustedToUTC: boolean): Kind => ({
  type: 'INT64',
  logical_type: { type: 'TIMESTAMP', isAdjustedToUTC, unit: 'MICROS' },
});

/** The text of a string or number, without quotes. */
const textOf = (json: string): string => (json.startsWith('"') ? (JSON.parse(json) as string) : json);
const encoder = new TextEncoder();
const bytesOf = (json: string): Uint8Array => encoder.encode(json);
const toBigInt = (json: string): bigint => BigInt(textOf(json));
const toNumber = (json: string): number => Number(textOf(json));

function hexBytes(hex: string): Uint8Array {
  const bytes = new Uint8Array(hex.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = Number.parseInt(hex.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}

/** Keyed by the API's name of the type. */
const KINDS: Readonly<Record<string, readonly [Kind, (json: string) => unknown]>> = {
  INTEGER: [{ type: 'INT64' }, toBigInt],
  integer: [{ type: 'INT32' }, toNumber],
  smallint: [{ type: 'INT32' }, toNumber],
  FLOAT: [{ type: 'DOUBLE' }, toNumber],
  real: [{ type: 'FLOAT' }, toNumber],
  BOOLEAN: [{ type: 'BOOLEAN' }, (json) => json === 'true'],
  TIMESTAMP: [timestamp(true), (json) => microseconds(textOf(json))],
  'timestamp without time zone': [timestamp(false), (json) => microseconds(`${textOf(json).replace(' ', 'T')}Z`)],
  date: [{ type: 'INT32', converted_type: 'DATE', logical_type: { type: 'DATE' } }, (json) => daysOf(textOf(json))],
  uuid: [{ type: 'FIXED_LEN_BYTE_ARRAY', type_length: 16, logical_type: { type: 'UUID' } }, textOf],
  bytea: [{ type: 'BYTE_ARRAY' }, (json) => hexBytes(textOf(json).slice(2))],
  JSONB: [JSON_TEXT, bytesOf],
  json: [JSON_TEXT, bytesOf],
};

/** Types outside the table become text, as in the service's JSON; arrays become JSON. */
function parquetColumn(name: string, type: string): ParquetColumn {
  const [kind, toValue] =
    KINDS[type] ?? decimal(type) ?? (type.endsWith('[]') ? [JSON_TEXT, bytesOf] : [STRING, textOf]);
  return {
    element: { ...kind, name, repetition_type: 'OPTIONAL' },
    toValue,
    isJson: kind === JSON_TEXT,
  };
}

/** Maximum number of decimal digits that fit in 16 bytes. */
const DECIMAL_DIGITS = 38;

/** For types such as `numeric(10,2)`. Without a precision, each value may have its own scale. */
function decimal(type: string): readonly [Kind, (json: string) => unknown] | undefined {
  const [, precision, scale] = (/^numeric\((\d+),(\d+)\)$/.exec(type) ?? []).map(Number);
  if (precision === undefined || scale === undefined || precision > DECIMAL_DIGITS || scale > precision)
    return undefined;
  const kind: Kind = {
    ...(precision <= 18 ? { type: 'INT64' } : { type: 'FIXED_LEN_BYTE_ARRAY', type_length: 16 }),
    converted_type: 'DECIMAL',
    precision,
    scale,
    logical_type: { type: 'DECIMAL', precision, scale },
  };
  return [kind, (json) => unscaled(textOf(json), scale)];
}

/** @returns undefined if the text is not a number with at most that many fractional digits */
function unscaled(text: string, scale: number): bigint | undefined {
  const [, sign = '', whole = '', fraction = ''] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(text) ?? [];
  return whole === '' || fraction.length > scale ? undefined : BigInt(sign + whole + fraction.padEnd(scale, '0'));
}

/** @param text in UTC, in ECMAScript's format with up to six fractional digits */
function microseconds(text: string): bigint | undefined {
  const [fraction = ''] = /\.\d+/.exec(text) ?? [];
  const milliseconds = Date.parse(text.replace(fraction, ''));
  if (Number.isNaN(milliseconds)) return undefined;
  return BigInt(milliseconds) * 1_000n + BigInt(fraction.slice(1).padEnd(6, '0'));
}

function daysOf(text: string): number | undefined {
  const milliseconds = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(text) : NaN;
  return Number.isNaN(milliseconds) ? undefined : milliseconds / DAY_MS;
}

/** @throws FileError if there are no columns, or two with the same name */
function parquetColumns(columns: readonly ResultColumn[]): ParquetColumn[] {
  if (columns.length === 0) throw new FileError('The statement returns no columns');
  const names = columns.map(({ name }) => name);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw new FileError(`Two columns are named "${twice}"`, 'Name them differently with AS');
  return columns.map(({ name, type }) => parquetColumn(name, type));
}
