/** What a chart draws of a result. The types of the columns suggest it; the user may change it. */
import { type Cell, isJsonType, isNull, isNumeric, textOf } from '../results/cells.js';
import type { Result, ResultColumn } from '../results/result.js';

export const KINDS = ['line', 'bar', 'point'] as const;
export type ChartKind = (typeof KINDS)[number];

/** Refers to columns by name, so that a choice can be saved with a query. */
export interface ChartChoice {
  readonly kind: ChartKind;
  /** null: the row number. */
  readonly x: string | null;
  readonly y: readonly string[];
  /** Each value of this column becomes a series. */
  readonly series: string | null;
}

/** A tab's settings for its chart. */
export interface ChartState {
  readonly isShown: boolean;
  /** null: the suggested choice. */
  readonly choice: ChartChoice | null;
}

/** The kind of positions on an axis. */
export type Scale = 'time' | 'number' | 'category';

export function scaleOf(type: string): Scale {
  if (type.endsWith('[]')) return 'category';
  if (/^(timestamp|date)\b/i.test(type)) return 'time';
  // Postgres writes money with its currency, so the text is not a number.
  return isNumeric(type) && !/^money/i.test(type) ? 'number' : 'category';
}

/** The columns that a choice can name. Of several columns with the same name, it is the first. */
export const namedColumns = ({ columns }: Pick<Result, 'columns'>): ResultColumn[] =>
  [...new Map(columns.toReversed().map((column) => [column.name, column])).values()].toReversed();

export const valueColumns = (result: Pick<Result, 'columns'>): ResultColumn[] =>
  namedColumns(result).filter(({ type }) => scaleOf(type) === 'number');

const KEY = /(^|_)id$/i;
const SAMPLE = 1_000;
export const SERIES_AT_MOST = 8;

/** The saved choice, if the result has all of its columns; otherwise the suggestion. */
export function choiceFor(result: Result, kept: ChartChoice | null): ChartChoice {
  const names = new Set(result.columns.map(({ name }) => name));
  const values = new Set(valueColumns(result).map(({ name }) => name));
  const isThere = (name: string | null) => name === null || names.has(name);
  const fits =
    kept !== null && isThere(kept.x) && isThere(kept.series) && kept.y.length > 0 && kept.y.every((y) => values.has(y));
  return fits ? kept : suggested(result);
}

/** A line over time, bars over categories, points for two numbers. A single number is a line over its rows. */
function suggested(result: Result): ChartChoice {
  const columns = namedColumns(result);
  const of = (scale: Scale) => columns.filter(({ type }) => scaleOf(type) === scale);
  const isKey = (column: ResultColumn | undefined) => KEY.test(column?.name ?? '');
  const numbers = preferred(of('number'), (column) => !isKey(column));
  const categories = preferred(of('category'), (column) => !isKey(column) && isReadable(column.type));
  const [time] = of('time');
  // A key is not a quantity, but can be a position.
  const byNumber = numbers.length < 2 ? undefined : isKey(numbers[1]) ? numbers[1] : numbers[0];
  const x = time ?? categories[0] ?? byNumber;
  const y = numbers.find((column) => column !== x);
  const kind = x === undefined || x === time ? 'line' : scaleOf(x.type) === 'category' ? 'bar' : 'point';
  const series = categories.find((column) => column !== x && isReadable(column.type) && divides(result, column, x));
  return { kind, x: x?.name ?? null, y: y === undefined ? [] : [y.name], series: series?.name ?? null };
}

/** Preferred columns first. */
const preferred = (columns: ResultColumn[], isLiked: (column: ResultColumn) => boolean): ResultColumn[] => [
  ...columns.filter(isLiked),
  ...columns.filter((column) => !isLiked(column)),
];

const isReadable = (type: string): boolean => !isJsonType(type) && !/^(uuid|bytea)\b|\[\]$/i.test(type);

/** Whether a column has few values, and distinguishes the rows with the same x. */
function divides(result: Result, column: ResultColumn, x: ResultColumn | undefined): boolean {
  if (x === undefined) return false;
  const [at, atX] = [result.columns.indexOf(column), result.columns.indexOf(x)];
  const values = new Set<Cell>();
  const places = new Set<Cell>();
  const rows = Math.min(result.held, SAMPLE);
  for (let row = 0; row < rows; row++) {
    const cells = result.cells(row);
    values.add(cells[at] ?? 'null');
    places.add(cells[atX] ?? 'null');
  }
  return values.size > 1 && values.size <= SERIES_AT_MOST && places.size < rows;
}

/** A value as the label of a category or series. */
export const labelOf = (cell: Cell, type: string): string =>
  isNull(cell) ? 'NULL' : textOf(cell, type) === '' ? '(empty)' : textOf(cell, type);
