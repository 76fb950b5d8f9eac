/** The six column types (contract C5.1), and what they can hold. */

export const COLUMN_TYPES = ['TEXT', 'INTEGER', 'FLOAT', 'BOOLEAN', 'TIMESTAMP', 'JSONB'] as const;

export type ColumnType = (typeof COLUMN_TYPES)[number];

/** The oids of the Postgres types that store them (pg_type.dat in the sources of Postgres). */
export const TYPE_OIDS: Readonly<Record<ColumnType, number>> = {
  TEXT: 25,
  INTEGER: 20,
  FLOAT: 701,
  BOOLEAN: 16,
  TIMESTAMP: 1184,
  JSONB: 3802,
};

/** @returns undefined: none of the six */
export const columnTypeOf = (oid: number): ColumnType | undefined =>
  COLUMN_TYPES.find((type) => TYPE_OIDS[type] === oid);

/** The range of INTEGER. */
export const INT64_MIN = -(2n ** 63n);
export const INT64_MAX = 2n ** 63n - 1n;

const UNSTORABLE = /[\u0000\p{Surrogate}]/u;

/** Why Postgres cannot store a text (contract C5.11): it contains U+0000 or a lone surrogate, which JSON can send as `\u` escapes. */
export function unstorable(text: string): string | undefined {
  const match = UNSTORABLE.exec(text);
  if (match === null) return undefined;
  return `the text contains ${match[0] === '\u0000' ? 'U+0000' : 'a lone surrogate'}, which cannot be stored`;
}
