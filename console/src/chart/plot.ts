/** Converts the rows of a result to series of marks. Numbers are rounded here, for drawing only. */
import { type Cell, isNull, textOf } from '../results/cells.js';
import { count, counted } from '../parts/formats.js';
import type { Result } from '../results/result.js';
import { type ChartChoice, labelOf, type Scale, scaleOf, SERIES_AT_MOST } from './choice.js';

export interface Mark {
  /** Milliseconds, a number, or the index of a category. */
  readonly x: number;
  /** NaN: a gap. */
  readonly y: number;
  /** The rows of the result that the mark represents. */
  readonly rows: readonly number[];
}

export interface Series {
  readonly name: string;
  /** The column of its values. */
  readonly y: string;
  readonly marks: readonly Mark[];
}

export interface Plot {
  readonly scale: Scale;
  readonly categories: readonly string[];
  readonly series: readonly Series[];
  /** Messages about what was left out or added up. */
  readonly notes: readonly string[];
}

/** Maximum number of rows read for a chart, and of categories. */
export const DRAWN = { rows: 10_000, categories: 200 } as const;

export function plotOf(result: Result, choice: ChartChoice): Plot {
  const columnOf = (name: string) => result.columns.findIndex((column) => column.name === name);
  const typeAt = (column: number) => result.columns[column]?.type ?? '';
  const x = choice.x === null ? -1 : columnOf(choice.x);
  const by = choice.series === null ? -1 : columnOf(choice.series);
  const ys = choice.y.map((name) => ({ name, column: columnOf(name) }));
  const scale = x < 0 ? 'number' : scaleOf(typeAt(x));

  const rows = Math.min(result.held, DRAWN.rows);
  const categories = new Map<string, number>();
  const series = new Map<string, { y: string; marks: Mark[] }>();
  const left = { series: new Set<string>(), categories: new Set<string>(), places: 0 };

  const placeOf = (cell: Cell, row: number): number => {
    if (x < 0) return row + 1;
    if (scale !== 'category')
      return isNull(cell) ? NaN : scale === 'time' ? timeOf(textOf(cell, typeAt(x))) : numberOf(cell);
    const label = labelOf(cell, typeAt(x));
    if (!categories.has(label) && categories.size < DRAWN.categories) categories.set(label, categories.size);
    if (!categories.has(label)) left.categories.add(label);
    return categories.get(label) ?? NaN;
  };

  for (let row = 0; row < rows; row++) {
    const cells = result.cells(row);
    const place = placeOf(cells[x] ?? 'null', row);
    if (!Number.isFinite(place)) {
      if (scale !== 'category') left.places++;
      continue;
    }
    for (const { name, column } of ys) {
      const parts = [
        by < 0 ? undefined : labelOf(cells[by] ?? 'null', typeAt(by)),
        ys.length > 1 || by < 0 ? name : undefined,
      ];
      const title = parts.filter((part) => part !== undefined).join(' · ');
      const taker = series.get(title) ?? (series.size < SERIES_AT_MOST ? { y: name, marks: [] } : undefined);
      if (taker === undefined) {
        left.series.add(title);
        continue;
      }
      series.set(title, taker);
      taker.marks.push({ x: place, y: numberOf(cells[column] ?? 'null'), rows: [row] });
    }
  }

  const inOrder = (marks: Mark[]) => (scale === 'category' ? marks : marks.sort((a, b) => a.x - b.x));
  const drawn = [...series].map(([name, { y, marks }]) => ({
    name,
    y,
    marks: choice.kind === 'bar' ? addedUp(inOrder(marks)) : inOrder(marks),
  }));
  const isAddedUp = drawn.some(({ marks }) => marks.some((mark) => mark.rows.length > 1));
  return {
    scale,
    categories: [...categories.keys()],
    series: drawn,
    notes: [
      rows < result.rowCount.value
        ? `The first ${count(rows)} of ${counted(result.rowCount.value, 'row')} are drawn. Group them in the query to draw them all.`
        : '',
      left.categories.size > 0
        ? `The first ${count(DRAWN.categories)} values of ${choice.x} are drawn; ${count(left.categories.size)} are not.`
        : '',
      left.series.size > 0 ? `The first ${SERIES_AT_MOST} series are drawn; ${count(left.series.size)} are not.` : '',
      left.places > 0
        ? `${counted(left.places, 'row')} without a position on the axis ${left.places === 1 ? 'is' : 'are'} not drawn.`
        : '',
      isAddedUp ? `Rows of the same ${choice.x} are added up.` : '',
    ].filter(Boolean),
  };
}

/** NULL and everything that is not a finite number become NaN. */
function numberOf(cell: Cell): number {
  const number = isNull(cell) ? NaN : Number(cell.startsWith('"') ? textOf(cell, '') : cell);
  return Number.isFinite(number) ? number : NaN;
}

/**
 * Returns milliseconds. A timestamp without time zone is placed as if it were UTC. Infinite and BC timestamps are NaN.
 */
function timeOf(text: string): number {
  const [day = '', time] = text.split(/[ T]/);
  return Date.parse(time === undefined ? day : `${day}T${time.replace(/Z?$/, 'Z')}`);
}

/**
 * Combines marks with the same position into one, because a bar shows the sum of its rows. These marks need not be
 * consecutive.
 */
function addedUp(marks: readonly Mark[]): Mark[] {
  const places = new Map<number, { x: number; y: number; rows: number[] }>();
  for (const { x, y, rows } of marks) {
    if (Number.isNaN(y)) continue;
    const at = places.get(x);
    if (at === undefined) places.set(x, { x, y, rows: [...rows] });
    else {
      at.y += y;
      at.rows.push(...rows);
    }
  }
  return [...places.values()];
}
