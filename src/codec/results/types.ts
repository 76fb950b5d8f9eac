/** The built-in types of Postgres: their names in responses, and how their values are written (contract C5.14 to C5.16). */
import * as kinds from './assembly/kinds.js';
import {
  dateText,
  intervalText,
  multirangeText,
  postgresTimestampTz,
  rangeText,
  timestampText,
  timestampTzText,
} from './datetime.js';
import {
  boxText,
  circleText,
  float4Text,
  float8Text,
  jsonFloat,
  lineSegmentText,
  lineText,
  pathText,
  pointText,
  polygonText,
} from './float.js';
import { asIs, BINARY_FORMAT, inQuotes, TEXT_FORMAT, type TypeEncoder } from './type-encoder.js';

/** An integer or numeric: a JSON number with all its digits, or a string if it is beyond ±(2^53-1) or not a number. */
const jsonNumber = (text: string): string => (isSafe(text) ? text : `"${text}"`);

const NUMBER = /^-?(\d+)(?:\.0*([1-9])?)?/;
const MAX_SAFE = String(Number.MAX_SAFE_INTEGER);

/** A number of any size: a JSON number, or a string for NaN or an infinity. */
const rawNumber = (text: string): string => (NUMBER.test(text) ? text : `"${text}"`);

/**
 * Compares digits, because a double cannot distinguish 2^53 - 1 + 0.1 from 2^53 - 1. Postgres writes no leading zeros.
 */
function isSafe(text: string): boolean {
  const match = NUMBER.exec(text);
  if (match === null) return false;
  const [, whole = '', fraction] = match;
  if (whole.length !== MAX_SAFE.length) return whole.length < MAX_SAFE.length;
  return whole < MAX_SAFE || (whole === MAX_SAFE && fraction === undefined);
}

/** Postgres's `t` and `f`. */
const booleanText = (text: string): string => (text === 't' ? 'true' : 'false');

/**
 * JSON text on one line, as NDJSON requires. In a JSON string a line break is always escaped, so an unescaped one is
 * white space between tokens and can be a space. (`jsonb` never has one; `json` is as sent.)
 */
const onOneLine = (text: string): string => text.replace(/[\r\n]/g, ' ');

/** Hex format (Postgres manual, bytea Hex Format): `\x00ff`. Postgres's text depends on bytea_output. */
const byteaText = (bytes: Buffer): string => `\\x${bytes.toString('hex')}`;

/** A "char" as Postgres 16 and later write it: empty for 0, `\ooo` above ASCII, so that it is always UTF-8. */
function charText(bytes: Buffer): string {
  const byte = bytes.readUInt8();
  if (byte >= 0x80) return `\\${byte.toString(8)}`;
  return byte === 0 ? '' : String.fromCharCode(byte);
}

// The built-in types of Postgres: their names in responses, and how their values are written. Values of other types
// (an enum, a composite, a type of an extension, and arrays of those) are returned as Postgres's text.

const textual = (
  kind: number,
  json: (plain: string) => string,
  plain: (text: string) => string = asIs,
): TypeEncoder => ({
  kind,
  format: TEXT_FORMAT,
  json,
  plain,
});

const binary = (
  plain: (bytes: Buffer) => string,
  json: (plain: string) => string = inQuotes,
  kind: number = kinds.OTHER,
): TypeEncoder => ({ kind, format: BINARY_FORMAT, json, plain });

const text = textual(kinds.TEXT, JSON.stringify);
const boolean = textual(kinds.BOOLEAN, asIs, booleanText);
const smallNumber = textual(kinds.SMALL_NUMBER, asIs);
const number = textual(kinds.NUMBER, jsonNumber);
const uuid = textual(kinds.PLAIN, inQuotes);
const json = textual(kinds.JSON_LINES, asIs, onOneLine);
const jsonb = textual(kinds.JSON_LINE, asIs);
const bytea = binary(byteaText, JSON.stringify, kinds.BYTEA);
const char = binary(charText, JSON.stringify);
const float4 = binary(float4Text, jsonFloat, kinds.FLOAT4);
const float8 = binary(float8Text, jsonFloat, kinds.FLOAT8);
const date = binary(dateText, inQuotes, kinds.DATE);
const timestamp = binary(timestampText, inQuotes, kinds.TIMESTAMP);
const timestampTz = binary(timestampTzText, inQuotes, kinds.TIMESTAMPTZ);

const range = (bound: (bytes: Buffer) => string) => binary(rangeText(bound), JSON.stringify);
const multirange = (bound: (bytes: Buffer) => string) => binary(multirangeText(bound), JSON.stringify);

/** oid, oid of the array type (0: none), name as written by format_type, encoder if the value is not plain text. */
type TypeRow = readonly [oid: number, arrayOid: number, name: string, encoder?: TypeEncoder];

// From pg_type.dat of Postgres; the oids are fixed for good.
// prettier-ignore
const TYPE_ROWS: readonly TypeRow[] = [
  [16, 1000, 'boolean', boolean],
  [17, 1001, 'bytea', bytea],
  [18, 1002, '"char"', char],
  [19, 1003, 'name'],
  [20, 1016, 'bigint', number],
  [21, 1005, 'smallint', smallNumber],
  [22, 1006, 'int2vector'],
  [23, 1007, 'integer', smallNumber],
  [24, 1008, 'regproc'],
  [25, 1009, 'text'],
  [26, 1028, 'oid', smallNumber],
  [27, 1010, 'tid'],
  [28, 1011, 'xid'],
  [29, 1012, 'cid'],
  [30, 1013, 'oidvector'],
  [114, 199, 'json', json],
  [142, 143, 'xml'],
  [600, 1017, 'point', binary(pointText)],
  [601, 1018, 'lseg', binary(lineSegmentText)],
  [602, 1019, 'path', binary(pathText)],
  [603, 1020, 'box', binary(boxText)],
  [604, 1027, 'polygon', binary(polygonText)],
  [628, 629, 'line', binary(lineText)],
  [650, 651, 'cidr'],
  [700, 1021, 'real', float4],
  [701, 1022, 'double precision', float8],
  [718, 719, 'circle', binary(circleText)],
  [774, 775, 'macaddr8'],
  [790, 791, 'money'],
  [829, 1040, 'macaddr'],
  [869, 1041, 'inet'],
  [1033, 1034, 'aclitem'],
  [1042, 1014, 'bpchar'],
  [1043, 1015, 'character varying'],
  [1082, 1182, 'date', date],
  [1083, 1183, 'time without time zone'],
  [1114, 1115, 'timestamp without time zone', timestamp],
  [1184, 1185, 'timestamp with time zone', timestampTz],
  [1186, 1187, 'interval', binary(intervalText)],
  [1266, 1270, 'time with time zone'],
  [1560, 1561, '"bit"'],
  [1562, 1563, 'bit varying'],
  [1700, 1231, 'numeric', number],
  [1790, 2201, 'refcursor'],
  [2202, 2207, 'regprocedure'],
  [2203, 2208, 'regoper'],
  [2204, 2209, 'regoperator'],
  [2205, 2210, 'regclass'],
  [2206, 2211, 'regtype'],
  [2249, 2287, 'record'],
  [2275, 1263, 'cstring'],
  [2278, 0, 'void'],
  [2950, 2951, 'uuid', uuid],
  [2970, 2949, 'txid_snapshot'],
  [3220, 3221, 'pg_lsn'],
  [3614, 3643, 'tsvector'],
  [3615, 3645, 'tsquery'],
  [3642, 3644, 'gtsvector'],
  [3734, 3735, 'regconfig'],
  [3769, 3770, 'regdictionary'],
  [3802, 3807, 'jsonb', jsonb],
  [3904, 3905, 'int4range'],
  [3906, 3907, 'numrange'],
  [3908, 3909, 'tsrange', range(timestampText)],
  [3910, 3911, 'tstzrange', range(postgresTimestampTz)],
  [3912, 3913, 'daterange', range(dateText)],
  [3926, 3927, 'int8range'],
  [4072, 4073, 'jsonpath'],
  [4089, 4090, 'regnamespace'],
  [4096, 4097, 'regrole'],
  [4191, 4192, 'regcollation'],
  [4451, 6150, 'int4multirange'],
  [4532, 6151, 'nummultirange'],
  [4533, 6152, 'tsmultirange', multirange(timestampText)],
  [4534, 6153, 'tstzmultirange', multirange(postgresTimestampTz)],
  [4535, 6155, 'datemultirange', multirange(dateText)],
  [4536, 6157, 'int8multirange'],
  [5038, 5039, 'pg_snapshot'],
  [5069, 271, 'xid8'],
];

const BY_OID = new Map(TYPE_ROWS.map((row) => [row[0], row]));
const BY_ARRAY_OID = new Map(TYPE_ROWS.filter((row) => row[1] !== 0).map((row) => [row[1], row]));

/** bigint and numeric in JSON: all as numbers, or all as strings. */
export type Numbers = 'raw' | 'string';

/** The same, or all types as strings with Postgres's own text. */
export type Values = Numbers | 'text';

const NUMBERS: Readonly<Record<Numbers, TypeEncoder>> = {
  raw: textual(kinds.RAW_NUMBER, rawNumber),
  string: textual(kinds.PLAIN, inQuotes),
};

/**
 * The encoder of a type's values.
 * @param values undefined: numbers beyond ±(2^53-1) as strings, others as numbers
 */
export function encoderOf(typeOid: number, values?: Values): TypeEncoder {
  if (values === 'text') return text;
  const element = BY_ARRAY_OID.get(typeOid);
  const encoder = (element ?? BY_OID.get(typeOid))?.[3] ?? text;
  const chosen = encoder === number && values !== undefined ? NUMBERS[values] : encoder;
  return element === undefined ? chosen : arrayOf(chosen);
}

/** The type of the elements of an array; undefined for other types. */
export const arrayElementOid = (typeOid: number): number | undefined => BY_ARRAY_OID.get(typeOid)?.[0];

/** An array has the format of its elements, and its encoder their functions. It is written as JSON, in CSV, too. */
const arrayOf = (element: TypeEncoder): TypeEncoder => ({
  ...element,
  kind: element.kind | (element.format === TEXT_FORMAT ? kinds.TEXT_ARRAY : kinds.BINARY_ARRAY),
});

/** The name of a built-in type that is not an array; undefined for others. */
export const scalarTypeName = (typeOid: number): string | undefined => BY_OID.get(typeOid)?.[2];

/** What format_type(oid, -1) returns for a built-in type; undefined for all others. */
export function builtInTypeName(typeOid: number): string | undefined {
  const element = BY_ARRAY_OID.get(typeOid);
  return element === undefined ? BY_OID.get(typeOid)?.[2] : `${element[2]}[]`;
}
