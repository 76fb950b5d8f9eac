/** What a column takes, as the encoder knows it. TypeScript and AssemblyScript both read this file. */
export const TEXT = 0;
export const INTEGER = 1;
export const FLOAT = 2;
export const BOOLEAN = 3;
export const TIMESTAMP = 4;
export const JSONB = 5;
/** The service's own `id`. */
export const ID = 6;
/** A Postgres type, made by free SQL, that takes JSON as it is. */
export const JSON_TEXT = 7;
/** An array type: takes a JSON array too. */
export const ARRAY = 8;
/** Takes what Postgres reads from a text. */
export const OTHER = 9;
