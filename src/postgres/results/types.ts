/**
 * The built-in types of Postgres: what an answer calls them and how their values are written. A type that is not in
 * this table (an enum, a composite, a type of an extension, and arrays of those) is answered as Postgres's text.
 */
import type { ColumnType } from '../../contract/column-types.js';
import { arrayOf } from './array.js';
import * as kinds from './assembly/kinds.js';
import { writeBytea, writeChar, writeJsonBytea } from './bytes.js';
import { writeDate, writeInterval, writePostgresTimestampTz, writeTimestamp, writeTimestampTz } from './datetime.js';
import { writeJsonFloat4, writeJsonFloat8, writePlainFloat4, writePlainFloat8 } from './float.js';
import { writeBox, writeCircle, writeLine, writeLineSegment, writePath, writePoint, writePolygon } from './geometry.js';
import { multirangeOf, rangeOf } from './range.js';
import {
  writeBoolean,
  writeJsonNumber,
  writeJsonOnOneLine,
  writeJsonString,
  writeQuoted,
  writeVerbatim,
} from './text.js';
import { BINARY_FORMAT, escaped, quoted, TEXT_FORMAT, type ValueEncoder, type ValueWriter } from './value.js';

/** Postgres's text on the way in, and as it is outside of JSON. */
const textual = (kind: number, json: ValueWriter, plain: ValueWriter = writeVerbatim): ValueEncoder => ({
  kind,
  format: TEXT_FORMAT,
  json,
  plain,
});

const text = textual(kinds.TEXT, writeJsonString);
const boolean = textual(kinds.BOOLEAN, writeBoolean, writeBoolean);
const smallNumber = textual(kinds.SMALL_NUMBER, writeVerbatim);
const number = textual(kinds.NUMBER, writeJsonNumber);
const uuid = textual(kinds.PLAIN, writeQuoted);
const json = textual(kinds.JSON_LINES, writeJsonOnOneLine, writeJsonOnOneLine);
const jsonb = textual(kinds.JSON_LINE, writeVerbatim);
const bytea: ValueEncoder = { kind: kinds.BYTEA, format: BINARY_FORMAT, json: writeJsonBytea, plain: writeBytea };
const char: ValueEncoder = { kind: kinds.OTHER, format: BINARY_FORMAT, json: escaped(writeChar), plain: writeChar };

/** Binary on the way in, and Postgres's text, free of quotes and backslashes, on the way out. */
const binary = (plain: ValueWriter, kind: number = kinds.OTHER): ValueEncoder => ({
  kind,
  format: BINARY_FORMAT,
  json: quoted(plain),
  plain,
});

const float4: ValueEncoder = {
  kind: kinds.FLOAT4,
  format: BINARY_FORMAT,
  json: writeJsonFloat4,
  plain: writePlainFloat4,
};
const float8: ValueEncoder = {
  kind: kinds.FLOAT8,
  format: BINARY_FORMAT,
  json: writeJsonFloat8,
  plain: writePlainFloat8,
};
const timestampTz = binary(writeTimestampTz, kinds.TIMESTAMPTZ);

const range = (writeBound: ValueWriter): ValueEncoder => {
  const plain = rangeOf(writeBound);
  return { kind: kinds.OTHER, format: BINARY_FORMAT, json: escaped(plain), plain };
};

const multirange = (writeBound: ValueWriter): ValueEncoder => {
  const plain = multirangeOf(rangeOf(writeBound));
  return { kind: kinds.OTHER, format: BINARY_FORMAT, json: escaped(plain), plain };
};

/** oid, oid of its array type (0: none), name as format_type writes it, encoder where it is not plain text. */
type TypeRow = readonly [oid: number, arrayOid: number, name: string, encoder?: ValueEncoder];

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
  [600, 1017, 'point', binary(writePoint)],
  [601, 1018, 'lseg', binary(writeLineSegment)],
  [602, 1019, 'path', binary(writePath)],
  [603, 1020, 'box', binary(writeBox)],
  [604, 1027, 'polygon', binary(writePolygon)],
  [628, 629, 'line', binary(writeLine)],
  [650, 651, 'cidr'],
  [700, 1021, 'real', float4],
  [701, 1022, 'double precision', float8],
  [718, 719, 'circle', binary(writeCircle)],
  [774, 775, 'macaddr8'],
  [790, 791, 'money'],
  [829, 1040, 'macaddr'],
  [869, 1041, 'inet'],
  [1033, 1034, 'aclitem'],
  [1042, 1014, 'bpchar'],
  [1043, 1015, 'character varying'],
  [1082, 1182, 'date', binary(writeDate, kinds.DATE)],
  [1083, 1183, 'time without time zone'],
  [1114, 1115, 'timestamp without time zone', binary(writeTimestamp, kinds.TIMESTAMP)],
  [1184, 1185, 'timestamp with time zone', timestampTz],
  [1186, 1187, 'interval', binary(writeInterval)],
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
  [3908, 3909, 'tsrange', range(writeTimestamp)],
  [3910, 3911, 'tstzrange', range(writePostgresTimestampTz)],
  [3912, 3913, 'daterange', range(writeDate)],
  [3926, 3927, 'int8range'],
  [4072, 4073, 'jsonpath'],
  [4089, 4090, 'regnamespace'],
  [4096, 4097, 'regrole'],
  [4191, 4192, 'regcollation'],
  [4451, 6150, 'int4multirange'],
  [4532, 6151, 'nummultirange'],
  [4533, 6152, 'tsmultirange', multirange(writeTimestamp)],
  [4534, 6153, 'tstzmultirange', multirange(writePostgresTimestampTz)],
  [4535, 6155, 'datemultirange', multirange(writeDate)],
  [4536, 6157, 'int8multirange'],
  [5038, 5039, 'pg_snapshot'],
  [5069, 271, 'xid8'],
];

const BY_OID = new Map(TYPE_ROWS.map((row) => [row[0], row]));
const BY_ARRAY_OID = new Map(TYPE_ROWS.filter((row) => row[1] !== 0).map((row) => [row[1], row]));

/** How values of this type are written. */
export function encoderOf(typeOid: number): ValueEncoder {
  const element = BY_ARRAY_OID.get(typeOid);
  if (element !== undefined) return arrayOf(element[3] ?? text);
  return BY_OID.get(typeOid)?.[3] ?? text;
}

/** The code for Bind: 1 (binary) where the text of a type depends on settings that a statement can change, else 0. */
export function resultFormat(typeOid: number): 0 | 1 {
  return (BY_ARRAY_OID.get(typeOid) ?? BY_OID.get(typeOid))?.[3]?.format ?? TEXT_FORMAT;
}

const API_TYPES: ReadonlyMap<number, ColumnType> = new Map([
  [25, 'TEXT'],
  [20, 'INTEGER'],
  [701, 'FLOAT'],
  [16, 'BOOLEAN'],
  [1184, 'TIMESTAMP'],
  [3802, 'JSONB'],
]);

/** The API's own name for a type, where it is one of the six. */
export function columnTypeOf(typeOid: number): ColumnType | undefined {
  return API_TYPES.get(typeOid);
}

/** What format_type(oid, -1) answers for a built-in type, so that nobody has to ask; undefined for all others. */
export function builtInTypeName(typeOid: number): string | undefined {
  const element = BY_ARRAY_OID.get(typeOid);
  return element === undefined ? BY_OID.get(typeOid)?.[2] : `${element[2]}[]`;
}
