/** The kinds of columns, and the formats of rows. TypeScript and AssemblyScript both read this file. */

/** Written by the host, with the encoder of its type. */
export const OTHER = 0;
/** UTF-8. */
export const TEXT = 1;
/** The text of an integer of at most ten digits. */
export const SMALL_NUMBER = 2;
/** The text of a bigint or numeric. */
export const NUMBER = 3;
/** Text without characters to escape or quote. */
export const PLAIN = 4;
/** JSON text on one line, or on several. */
export const JSON_LINE = 5;
export const JSON_LINES = 6;
export const BOOLEAN = 7;
/** The text of a bigint or numeric that is a number in JSON, however large. */
export const RAW_NUMBER = 8;
/** This kind and the next ones are in binary format. */
export const FLOAT8 = 9;
export const TIMESTAMPTZ = 10;
export const TIMESTAMP = 11;
export const DATE = 12;
export const BYTEA = 13;
export const FLOAT4 = 14;

/** An array has the kind of its elements, and one of these bits: its format. */
export const ELEMENT = 15;
export const TEXT_ARRAY = 16;
export const BINARY_ARRAY = 32;

/** The formats of rows. */
export const AS_JSON = 0;
export const AS_CSV = 1;
/** CSV with one column. */
export const AS_CSV_ALONE = 2;
