/** The kinds of columns that the encoder distinguishes. TypeScript and AssemblyScript both read this file. */
export const TEXT = 0;
export const INTEGER = 1;
export const FLOAT = 2;
export const BOOLEAN = 3;
export const TIMESTAMP = 4;
export const JSONB = 5;
/** The service's own `id`. */
export const ID = 6;
/** A Postgres type from free SQL that accepts JSON unchanged. */
export const JSON_TEXT = 7;
/** An array type: also accepts a JSON array. */
export const ARRAY = 8;
/** Accepts what Postgres reads from a text. */
export const OTHER = 9;
