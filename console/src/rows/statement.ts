/**
 * The statements that read one page of a table: in an order that ends with a unique key, from a row on, and never by
 * OFFSET, whose time grows with each page.
 */
import type { Column } from '../../../src/client/index.js';
import { type Condition, kindOf, type Sort } from '../results/conditions.js';
import { quoted, quotedTable } from '../sql/sql-names.js';

export interface RowsQuery {
  readonly table: string;
  /** Those that the token may read; `*` if it is all of them. */
  readonly columns: readonly Column[];
  readonly isAll: boolean;
  /** The columns of a unique index without NULL; null: the table has none. */
  readonly key: readonly string[] | null;
  readonly conditions: readonly Condition[];
  readonly sort: Sort | null;
}

export interface Statement {
  readonly text: string;
  readonly params: readonly string[];
}

/** The values of {@link orderOf} in the last row of a page, as Postgres's text. Only the first one can be NULL. */
export type Cursor = readonly (string | null)[];

/** The columns of the order: that of the sort, then those of the key. */
export function orderOf({ sort, key }: RowsQuery): readonly string[] {
  const rest = (key ?? []).filter((column) => column !== sort?.column);
  return sort === null ? rest : [sort.column, ...rest];
}

/**
 * The rows after a cursor are those of one statement after the other, until there are enough: rows with NULL in the
 * sorted column have a statement of their own, so that an index finds each kind.
 * @param after null: the first page
 */
export function pageStatements(query: RowsQuery, after: Cursor | null, limit: number): Statement[] {
  if (after === null) return [statementOf(query, () => [], limit)];
  const [first, ...rest] = orderOf(query);
  if (first === undefined) throw new Error('A page without an order has no next one');
  const sorted = quoted(first);
  const isDescending = query.sort?.isDescending ?? false;
  const beyond = (columns: readonly string[], values: Cursor) => (add: Add) =>
    `${tuple(columns.map(quoted))} ${isDescending ? '<' : '>'} ${tuple(values.map((value) => add(value ?? '')))}`;
  const isNullable = query.sort !== null && !isNotNull(query, first);
  if (after[0] === null) {
    const others = (add: Add) => [`${sorted} IS NULL`, beyond(rest, after.slice(1))(add)];
    const values = isDescending ? [statementOf(query, () => [`${sorted} IS NOT NULL`], limit)] : [];
    return [statementOf(query, others, limit), ...values];
  }
  const nulls = isNullable && !isDescending ? [statementOf(query, () => [`${sorted} IS NULL`], limit)] : [];
  return [statementOf(query, (add) => [beyond([first, ...rest], after)(add)], limit), ...nulls];
}

/** All rows that meet the conditions, in their order. */
export const wholeStatement = (query: RowsQuery): Statement => statementOf(query, () => [], null);

const isNotNull = ({ columns, key }: RowsQuery, name: string): boolean =>
  key?.includes(name) === true || columns.find((column) => column.name === name)?.not_null === true;

/** Adds a parameter and returns its place, such as `$1`. */
type Add = (value: string) => string;

function statementOf(query: RowsQuery, more: (add: Add) => readonly string[], limit: number | null): Statement {
  const params: string[] = [];
  const add: Add = (value) => `$${params.push(value)}`;
  const where = [...query.conditions.map((condition) => conditionSql(query, condition, add)), ...more(add)];
  const direction = query.sort?.isDescending === true ? ' DESC' : '';
  const order = orderOf(query).map((column) => quoted(column) + direction);
  const columns = query.isAll ? '*' : query.columns.map(({ name }) => quoted(name)).join(', ');
  const lines = [
    `SELECT ${columns} FROM ${quotedTable(query.table)}`,
    ...(where.length === 0 ? [] : [`WHERE ${where.join('\n  AND ')}`]),
    ...(order.length === 0 ? [] : [`ORDER BY ${order.join(', ')}`]),
    ...(limit === null ? [] : [`LIMIT ${limit}`]),
  ];
  return { text: lines.join('\n'), params };
}

const tuple = (parts: readonly string[]): string => (parts.length === 1 ? parts.join() : `(${parts.join(', ')})`);

function conditionSql({ columns }: RowsQuery, { column, operator, value }: Condition, add: Add): string {
  const name = quoted(column);
  const type = columns.find((each) => each.name === column)?.type ?? '';
  const text = kindOf(type) === 'text' ? name : `${name}::text`;
  switch (operator) {
    case 'null':
      return `${name} IS NULL`;
    case 'not null':
      return `${name} IS NOT NULL`;
    case 'true':
    case 'false':
      return `${name} = ${operator}`;
    case 'contains':
      return `${text} ILIKE ${add(`%${escaped(value)}%`)}`;
    case 'starts':
      return `${text} LIKE ${add(`${escaped(value)}%`)}`;
    case '<>':
      return `${name} IS DISTINCT FROM ${add(value)}`;
    default:
      return `${name} ${operator} ${add(value)}`;
  }
}

/** In a pattern of LIKE, nothing of the text means anything else. */
const escaped = (text: string): string => text.replace(/[\\%_]/g, '\\$&');
