/** The cursor of a grid, and the selected rectangle from the cell where the selection began. */
import type { Rectangle } from './copy.js';
import type { HeldRows } from './result.js';

export interface Position {
  readonly row: number;
  readonly column: number;
}

export interface Selection {
  readonly anchor: Position;
  readonly head: Position;
}

export interface Range {
  readonly top: number;
  readonly bottom: number;
  readonly left: number;
  readonly right: number;
}

export const START: Selection = { anchor: { row: 0, column: 0 }, head: { row: 0, column: 0 } };

/** The first row, in the column of the cursor: sorting by it again is one more key. */
export const topOf = ({ head: { column } }: Selection): Selection => ({
  anchor: { row: 0, column },
  head: { row: 0, column },
});

export function rangeOf({ anchor, head }: Selection): Range {
  return {
    top: Math.min(anchor.row, head.row),
    bottom: Math.max(anchor.row, head.row),
    left: Math.min(anchor.column, head.column),
    right: Math.max(anchor.column, head.column),
  };
}

export function isOneCell(selection: Selection): boolean {
  const { top, bottom, left, right } = rangeOf(selection);
  return top === bottom && left === right;
}

export const isInside = ({ top, bottom, left, right }: Range, row: number, column: number): boolean =>
  top <= row && row <= bottom && left <= column && column <= right;

/** @param orAll selects all held rows if the selection is a single cell */
export function rectangleOf(result: HeldRows, selection: Selection, orAll: boolean): Rectangle {
  const { top, bottom, left, right } =
    orAll && isOneCell(selection)
      ? { top: 0, bottom: result.held - 1, left: 0, right: result.columns.length - 1 }
      : rangeOf(selection);
  const rows = [];
  for (let row = top; row <= Math.min(bottom, result.held - 1); row++) {
    rows.push(result.cells(row).slice(left, right + 1));
  }
  return { columns: result.columns.slice(left, right + 1), rows };
}

export interface Extent {
  readonly rows: number;
  readonly columns: number;
  /** The number of rows on a screen. */
  readonly page: number;
}

/** The selection after a key (the ARIA guide's keys for grids); undefined if the key moves nothing. */
export function moved(selection: Selection, event: KeyboardEvent, extent: Extent): Selection | undefined {
  const isFar = event.ctrlKey || event.metaKey;
  const last = { row: extent.rows - 1, column: extent.columns - 1 };
  if (isFar && event.key.toLowerCase() === 'a') return { anchor: last, head: { row: 0, column: 0 } };
  const head = target(selection.head, event.key, isFar, extent, last);
  if (head === undefined) return undefined;
  const within = { row: clamp(head.row, last.row), column: clamp(head.column, last.column) };
  return { anchor: event.shiftKey ? selection.anchor : within, head: within };
}

function target(
  { row, column }: Position,
  key: string,
  isFar: boolean,
  { page }: Extent,
  last: Position,
): Position | undefined {
  switch (key) {
    case 'ArrowUp':
      return { row: isFar ? 0 : row - 1, column };
    case 'ArrowDown':
      return { row: isFar ? last.row : row + 1, column };
    case 'ArrowLeft':
      return { row, column: isFar ? 0 : column - 1 };
    case 'ArrowRight':
      return { row, column: isFar ? last.column : column + 1 };
    case 'Home':
      return { row: isFar ? 0 : row, column: 0 };
    case 'End':
      return { row: isFar ? last.row : row, column: last.column };
    case 'PageUp':
      return { row: row - page, column };
    case 'PageDown':
      return { row: row + page, column };
    default:
      return undefined;
  }
}

const clamp = (n: number, last: number): number => Math.max(0, Math.min(n, last));
