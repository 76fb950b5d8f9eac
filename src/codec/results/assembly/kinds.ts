/** What a column holds, and what rows become, as the encoder knows it: the one file that both dialects read. */

/** Everything that the writer of its type writes, outside. */
export const OTHER = 0;
/** UTF-8. */
export const TEXT = 1;
/** Decimal digits of at most ten places. */
export const SMALL_NUMBER = 2;
/** The text of a bigint or numeric. */
export const NUMBER = 3;
/** Text without a character to escape or to quote. */
export const PLAIN = 4;
/** JSON text on one line; on several. */
export const JSON_LINE = 5;
export const JSON_LINES = 6;
export const BOOLEAN = 7;
/** Binary, as all below. */
export const FLOAT8 = 8;
export const TIMESTAMPTZ = 9;
export const TIMESTAMP = 10;
export const DATE = 11;
export const BYTEA = 12;
export const FLOAT4 = 13;
/** The text of a bigint or numeric that is a number in JSON however large it is. */
export const RAW_NUMBER = 14;

/** What rows become. */
export const AS_JSON = 0;
export const AS_CSV = 1;
/** CSV of one column. */
export const AS_CSV_ALONE = 2;
