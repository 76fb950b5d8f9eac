/** Turns a JSON value into the default of a column. */
import { type BatchColumn, type JsonNode, readCell } from '../../codec/index.js';
import type { ColumnType } from '../../contract/column-types.js';
import { EngineError } from '../../contract/errors.js';
import { type Fragment, literal, sql, trusted } from '../../pg/index.js';
import { type Column, POSTGRES_TYPES } from '../catalog/catalog.js';

/**
 * The expression of a default, in the column's type.
 * @param column as it will be when the statement runs
 * @returns null for JSON's null, which means no default
 * @throws EngineError invalid_value
 */
export function defaultExpression(column: BatchColumn & Pick<Column, 'sqlType'>, value: JsonNode): Fragment | null {
  const cell = readCell(column, value);
  if (cell === null) return null;
  if (typeof cell === 'object') {
    throw new EngineError('invalid_value', `Default of column "${column.name}": ${cell.reason}`, {
      hint: [cell.hint, 'Only SQL can set an expression: ALTER TABLE … ALTER COLUMN … SET DEFAULT now().']
        .filter(Boolean)
        .join(' '),
    });
  }
  const type = column.type === null ? column.sqlType : POSTGRES_TYPES[column.type];
  return sql`CAST(${literal(cell)} AS ${trusted(type)})`;
}

/** The same for a column that does not exist yet. */
export function newDefault(name: string, type: ColumnType, value: JsonNode): Fragment | null {
  const column = { name, type, displayType: type, sqlType: POSTGRES_TYPES[type], isJson: false, isArray: false };
  return defaultExpression({ ...column, hasDefault: true, isGeneratedAlways: false, isId: false }, value);
}
