/** The six column types of the specification (section 2). */
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
