/** What columns hold, and what rows become. TypeScript and AssemblyScript both read this file. */

/** Written outside, by the encoder of its type. */
export const OTHER = 0;
/** UTF-8. */
export const TEXT = 1;
/** The text of an integer of at most ten digits. */
export const SMALL_NUMBER = 2;
/** The text of a bigint or numeric. */
export const NUMBER = 3;
/** Text without a character to escape or to quote. */
export const PLAIN = 4;
/** JSON text: on one line; on several. */
export const JSON_LINE = 5;
export const JSON_LINES = 6;
export const BOOLEAN = 7;
/** This and the next ones are in binary. */
export const FLOAT8 = 8;
export const TIMESTAMPTZ = 9;
export const TIMESTAMP = 10;
export const DATE = 11;
export const BYTEA = 12;
export const FLOAT4 = 13;
/** The text of a bigint or numeric that is a number in JSON, however large. */
export const RAW_NUMBER = 14;

/** What rows become. */
export const AS_JSON = 0;
export const AS_CSV = 1;
/** CSV of one column. */
export const AS_CSV_ALONE = 2;
