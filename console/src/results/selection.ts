/** The cursor of a grid, and the selected rectangle from the cell where the selection began. */

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

export function rangeOf({ anchor, head }: Selection): Range {
  return {
    top: Math.min(anchor.row, head.row),
    bottom: Math.max(anchor.row, head.row),
    left: Math.min(anchor.column, head.column),
    right: Math.max(anchor.column, head.column),
  };
}

export const isInside = ({ top, bottom, left, right }: Range, row: number, column: number): boolean =>
  top <= row && row <= bottom && left <= column && column <= right;

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
