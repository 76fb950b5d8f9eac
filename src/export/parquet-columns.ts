/** Maps columns of a result to columns of a Parquet file: their types, and their values from the service's JSON. */
import type { SchemaElement } from 'hyparquet';
import { DAY_MS } from '../contract/calendar.js';
import { FileError } from '../import/file-error.js';

export interface ParquetColumn {
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

function unscaled(text: string, scale: number): bigint | undefined {
  const [, sign = '', whole = '', fraction = ''] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(text) ?? [];
  return whole === '' ? undefined : BigInt(sign + whole + fraction.padEnd(scale, '0'));
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
export function parquetColumns(columns: readonly { name: string; type: string }[]): ParquetColumn[] {
  if (columns.length === 0) throw new FileError('The statement returns no columns');
  const names = columns.map(({ name }) => name);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw new FileError(`Two columns are named "${twice}"`, 'Name them differently with AS');
  return columns.map(({ name, type }) => parquetColumn(name, type));
}
