/** The six column types of the specification (section 2). */
export const COLUMN_TYPES = ['TEXT', 'INTEGER', 'FLOAT', 'BOOLEAN', 'TIMESTAMP', 'JSONB'] as const;

export type ColumnType = (typeof COLUMN_TYPES)[number];
