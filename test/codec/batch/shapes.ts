/** Table shapes as the catalog returns them, for tests of the batch. */
import { COLUMN_TYPES, type ColumnType } from '../../../src/contract/column-types.js';
import { EngineError } from '../../../src/contract/errors.js';
import { allSteps, checkRecords, readRecords } from '../../../src/codec/index.js';
import type { Column, Table } from '../../../src/engine/catalog/catalog.js';
import { type BatchInsert, insertStatements, requireIds } from '../../../src/engine/insert/insert-statement.js';

const SQL_TYPE: Record<ColumnType, string> = {
  TEXT: 'text',
  INTEGER: 'bigint',
  FLOAT: 'double precision',
  BOOLEAN: 'boolean',
  TIMESTAMP: 'timestamp with time zone',
  JSONB: 'jsonb',
};

export function column(name: string, type: ColumnType | null, more: Partial<Column> = {}): Column {
  const sqlType = more.sqlType ?? (type === null ? 'text' : SQL_TYPE[type]);
  const flags = {
    isJson: false,
    isArray: false,
    hasDefault: false,
    isGeneratedAlways: false,
    isId: false,
  };
  const shown = { comment: null, notNull: false, isConstrained: false, defaultText: null };
  return { name, type, sqlType, displayType: type ?? sqlType, ...shown, ...flags, ...more };
}

export const ID = column('id', null, { sqlType: 'uuid', hasDefault: true, isId: true });

export function table(...columns: Column[]): Table {
  return {
    schema: 'app',
    name: 'customers',
    kind: 'table',
    comment: null,
    approximateRows: null,
    columns,
    needsInsert: false,
    runsProjectCode: false,
    updateRunsProjectCode: false,
    marksDefaults: false,
    version: '',
  };
}

/** `id` and one column of each of the six types, named as its type in small letters. */
export const SIX_TYPES = table(ID, ...COLUMN_TYPES.map((type) => column(type.toLowerCase(), type)));

export const bytes = (text: string) => new TextEncoder().encode(text);

export function encode(body: string, shape: Table, returnIds = false): BatchInsert[] {
  const batch = allSteps(readRecords(bytes(body)));
  if (returnIds) requireIds(shape);
  const inserts = insertStatements(shape, allSteps(checkRecords(batch, shape)), {
    returnIds,
    distributesTables: false,
  });
  return inserts.map(({ statement: { text, params }, records }) => ({ statement: { text, params }, records }));
}

/** The refusal that the action throws; an error of the test where it does not. */
export function refusalOf(action: () => unknown): EngineError {
  try {
    action();
  } catch (error) {
    if (error instanceof EngineError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}
