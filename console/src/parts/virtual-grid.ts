/** A grid that renders only visible cells. A row of titles and a column of numbers stay in view. */
import './virtual-grid.css';
import type { RefObject } from 'preact';
import { useEffect } from 'preact/hooks';
import { useVirtual } from './virtual.js';

/** The height of the row of titles, in pixels. */
export const HEADER = 44;

interface GridSize {
  readonly rows: number;
  /** In pixels, like the others. */
  readonly rowHeight: number;
  /** Remains the same array until a width changes. */
  readonly widths: readonly number[];
  /** The width of the column of numbers. */
  readonly gutter: number;
}

export function useVirtualGrid(scroller: RefObject<HTMLElement | null>, size: GridSize) {
  const { rows, rowHeight, widths, gutter } = size;
  const vertical = useVirtual(scroller, {
    count: rows,
    estimateSize: () => rowHeight,
    paddingStart: HEADER,
    scrollPaddingStart: HEADER,
  });
  const horizontal = useVirtual(scroller, {
    count: widths.length,
    estimateSize: (i) => widths[i] ?? 0,
    horizontal: true,
    paddingStart: gutter,
    scrollPaddingStart: gutter,
  });
  useEffect(() => horizontal.measure(), [widths, gutter]);
  const columns = horizontal.getVirtualItems();
  /** The width of the columns to the left of the visible ones. */
  const before = (columns[0]?.start ?? gutter) - gutter;
  const whole = { height: `${vertical.getTotalSize()}px`, width: `${horizontal.getTotalSize()}px` };
  return { vertical, horizontal, columns, before, whole };
}
