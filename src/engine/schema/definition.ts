/** Checks of names and definitions of tables and columns (contract C4 to C6) that need no connection. */
import { type BatchColumn, type JsonNode, readCell } from '../../codec/index.js';
import { COLUMN_TYPES, type ColumnType, unstorable } from '../../contract/column-types.js';
import { checkAll, ErrorCollector, errorOf } from '../../contract/error-collector.js';
import { EngineError } from '../../contract/errors.js';
import { cut, quoted } from '../../contract/message-text.js';
import { NAME_IN_WORDS, NAME_PATTERN } from '../../contract/names.js';
import type { AddColumnBody, CreateTableBody } from '../../contract/wire/tables.js';
import { type Fragment, join, ident, literal, sql, trusted } from '../../pg/index.js';
import { type Column, POSTGRES_TYPES } from '../catalog/catalog.js';

const PATTERN = new RegExp(NAME_PATTERN);

/** System columns, which every Postgres table has (Postgres manual, System Columns). */
const SYSTEM_COLUMNS = new Set(['tableoid', 'xmin', 'cmin', 'xmax', 'cmax', 'ctid']);

export const isSystemColumn = (name: string): boolean => SYSTEM_COLUMNS.has(name);

type Kind = 'table' | 'column' | 'index';

/** Checks the name of a new object. @throws EngineError invalid_name or reserved_name */
export function checkName(kind: Kind, name: string): void {
  if (!PATTERN.test(name)) {
    const message = `${quoted(name)} is not a valid ${kind} name: it must be ${NAME_IN_WORDS}`;
    throw new EngineError('invalid_name', message);
  }
  const why = whyReserved(kind, name.toLowerCase());
  if (why === undefined) return;
  throw new EngineError(
    'reserved_name',
    `${JSON.stringify(name)} is reserved and cannot name ${kind === 'index' ? 'an' : 'a'} ${kind}: ${why}`,
  );
}

/** Names are reserved in upper and lower case. */
function whyReserved(kind: Kind, folded: string): string | undefined {
  if (folded.startsWith('_cdp_')) return 'names starting with _cdp_ belong to the service';
  if (kind !== 'column') return undefined;
  if (folded === 'id') return 'the service adds an id column to every table';
  return SYSTEM_COLUMNS.has(folded) ? 'Postgres has a system column of that name' : undefined;
}

/**
 * Rejects a table name in a path that the API's rules do not allow, even if free SQL has created such a table.
 * @throws EngineError table_not_found
 */
export function checkTableInPath(tableName: string): void {
  if (!PATTERN.test(tableName)) throw new EngineError('table_not_found', `There is no table ${quoted(tableName)}`);
}

/** Postgres text holds no U+0000, and a lone surrogate has no UTF-8. @throws EngineError invalid_request */
export function checkComment(comment: string | null | undefined): void {
  const reason = comment == null ? undefined : unstorable(comment);
  if (reason !== undefined) throw new EngineError('invalid_request', `comment: ${reason}`);
}

const OTHER_TYPES =
  'SQL can make a column of any type of Postgres (ALTER TABLE … ADD COLUMN …), such as numeric(12,2) or date; records then accept it.';

/**
 * The column type of this name, in any case.
 * @throws EngineError unknown_type
 */
export function columnType(type: string): ColumnType {
  // Not toUpperCase, which turns some other letters, such as the dotless i, into ASCII ones.
  const columnType = COLUMN_TYPES.find((candidate) => candidate.toLowerCase() === type.toLowerCase());
  if (columnType !== undefined) return columnType;
  throw new EngineError(
    'unknown_type',
    `${quoted(type)} is not a column type; the types are ${COLUMN_TYPES.join(', ')}`,
    { hint: OTHER_TYPES },
  );
}

/** A column as a request declares it; the default keeps every digit that was sent. */
export interface ColumnDefinition extends Omit<AddColumnBody, 'default'> {
  default?: JsonNode;
}

export interface TableDefinition extends Omit<CreateTableBody, 'columns'> {
  columns: readonly ColumnDefinition[];
}

/** A valid declaration. */
export interface NewColumn {
  name: string;
  type: ColumnType;
  comment: string | null;
  unique: boolean;
  notNull: boolean;
  /** null: no default. */
  defaultValue: Fragment | null;
}

/** Checks everything but the name and the comment. @throws EngineError unknown_type, invalid_value */
export function checkColumn({ name, comment, unique, ...definition }: ColumnDefinition): NewColumn {
  const { default: value, not_null: notNull = false } = definition;
  const type = columnType(definition.type);
  const defaultValue = value === undefined ? null : newDefault(name, type, value);
  return { name, type, comment: comment || null, unique: unique ?? false, notNull, defaultValue };
}

/**
 * @throws EngineError invalid_name, reserved_name, unknown_type, invalid_request, invalid_value, naming everything that
 * is wrong at once
 */
export function checkDefinition(body: TableDefinition): NewColumn[] {
  const [, , columns] = checkAll(
    () => checkName('table', body.table_name),
    () => checkComment(body.comment),
    () => checkColumns(body.columns),
  );
  return columns;
}

function checkColumns(definitions: readonly ColumnDefinition[]): NewColumn[] {
  const errors = new ErrorCollector();
  const firstNames = new Map<string, string>();
  const columns: NewColumn[] = [];
  for (const column of definitions) {
    const { name, comment } = column;
    const duplicate = firstNames.get(name.toLowerCase());
    firstNames.set(name.toLowerCase(), name);
    const checks = [
      () => checkName('column', name),
      () => checkCaseInsensitiveDuplicate(name, duplicate),
      () => checkComment(comment),
      () => columns.push(checkColumn(column)),
    ];
    for (const check of checks) {
      const error = errorOf(check);
      if (error !== undefined) errors.addError(error, { column: cut(name) });
    }
  }
  errors.throwIfAny();
  return columns;
}

function checkCaseInsensitiveDuplicate(name: string, duplicate: string | undefined): void {
  if (duplicate === undefined) return;
  const message =
    duplicate === name
      ? `Column "${name}" is declared twice`
      : `Columns "${duplicate}" and "${name}" differ only by case`;
  throw new EngineError('invalid_request', message);
}

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

/** The definition of a new column for CREATE TABLE or ALTER TABLE. */
export function columnDefinitionSql({ name, type, unique, notNull, defaultValue }: NewColumn): Fragment {
  const rules = [
    ...(defaultValue === null ? [] : [sql` DEFAULT ${defaultValue}`]),
    ...(notNull ? [sql` NOT NULL`] : []),
    ...(unique ? [sql` UNIQUE`] : []),
  ];
  return sql`${ident(name)} ${trusted(POSTGRES_TYPES[type])}${join(rules, '')}`;
}
