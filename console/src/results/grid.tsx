/**
 * Rows as a grid of real cells, of which only visible ones are rendered. The arrow keys move the cursor; screen readers
 * know its position.
 */
import './grid.css';
import { type Signal, useSignal } from '@preact/signals';
import { useEffect, useId, useMemo, useRef } from 'preact/hooks';
import { HEADER, useVirtualGrid } from '../parts/virtual-grid.js';
import { isNull, isNumeric, preview } from './cells.js';
import { columnWidths, keyedWidth, type OwnWidths, withWidth } from './column-widths.js';
import { canSort, type Sort } from './conditions.js';
import type { HeldRows, ResultColumn } from './result.js';
import { isInside, moved, type Position, rangeOf, type Selection } from './selection.js';
import { WidthHandle } from './width-handle.js';

const ROW = 28;

export interface GridProps {
  readonly result: HeldRows;
  /** The number of the first row; default: 1. */
  readonly first?: number;
  readonly selection: Signal<Selection>;
  readonly own: OwnWidths;
  readonly onResize: (own: OwnWidths) => void;
  readonly onOpen: (position: Position) => void;
  readonly onCopy: () => string;
  readonly sort: Sort | null;
  /** undefined: rows cannot be sorted now. */
  readonly onSort: ((column: ResultColumn) => void) | undefined;
}

export function Grid(props: GridProps) {
  const { result, first = 1, selection, own, onResize, onOpen, onCopy, sort, onSort } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const id = useId();
  const isDragging = useSignal(false);
  // It grows as rows arrive.
  const isMeasured = result.rowCount.value > 0;
  const rows = result.held;
  const suggested = useMemo(() => columnWidths(result), [result.columns, isMeasured]);
  const widths = useMemo(
    () => suggested.map((width, i) => own.get(result.columns[i]?.name ?? '') ?? width),
    [suggested, own],
  );
  const resize = (column: number, width: number | undefined) =>
    onResize(withWidth(own, result.columns[column]?.name ?? '', width));
  const isFirst = useRef(true);
  useEffect(() => {
    if (!isFirst.current) scroller.current?.scrollTo({ top: 0 });
    isFirst.current = false;
  }, [result]);
  const gutter = 24 + 8 * String(first - 1 + rows).length;

  const size = { rows, rowHeight: ROW, widths, gutter };
  const { vertical, horizontal, columns, before, whole } = useVirtualGrid(scroller, size);
  const { head } = selection.value;
  const range = rangeOf(selection.value);
  const cellId = (row: number, column: number) => `${id}-${row}-${column}`;

  const select = (next: Selection) => {
    selection.value = next;
    vertical.scrollToIndex(next.head.row);
    horizontal.scrollToIndex(next.head.column);
  };

  const takeKey = (event: KeyboardEvent) => {
    if (rows === 0 || event.altKey) return;
    const page = Math.max(1, Math.floor(((scroller.current?.clientHeight ?? 0) - HEADER) / ROW) - 1);
    const next = moved(selection.value, event, { rows, columns: widths.length, page });
    const isPlain = !event.ctrlKey && !event.metaKey;
    const under = result.columns[head.column];
    const width = isPlain ? keyedWidth(event.key, widths[head.column] ?? 0) : null;
    if (width !== null) resize(head.column, width);
    else if (next !== undefined) {
      const isAll = event.key.toLowerCase() === 'a';
      if (isAll) selection.value = next;
      else select(next);
    } else if (event.key === 'Enter') onOpen(head);
    else if (event.key === 'o' && isPlain && under !== undefined && canSort(under.type)) onSort?.(under);
    else return;
    event.preventDefault();
  };

  const point = (event: MouseEvent): Position | undefined => {
    const cell = (event.target as HTMLElement).closest<HTMLElement>('[data-row]');
    return cell === null ? undefined : { row: Number(cell.dataset.row), column: Number(cell.dataset.column) };
  };

  return (
    <div
      ref={scroller}
      class="grid"
      role="grid"
      tabIndex={0}
      aria-label="Rows"
      aria-multiselectable="true"
      aria-rowcount={result.isComplete.value ? rows + 1 : -1}
      aria-colcount={widths.length + 1}
      aria-activedescendant={rows === 0 ? undefined : cellId(head.row, head.column)}
      onKeyDown={takeKey}
      onCopy={(event) => {
        event.clipboardData?.setData('text/plain', onCopy());
        event.preventDefault();
      }}
      onMouseDown={(event) => {
        const at = point(event);
        if (at === undefined || event.button !== 0) return;
        isDragging.value = true;
        selection.value = { anchor: event.shiftKey ? selection.value.anchor : at, head: at };
      }}
      onMouseOver={(event) => {
        const at = point(event);
        if (at === undefined || !isDragging.value || event.buttons !== 1) return;
        selection.value = { anchor: selection.value.anchor, head: at };
      }}
      onMouseUp={() => (isDragging.value = false)}
      onDblClick={(event) => {
        const at = point(event);
        if (at !== undefined) onOpen(at);
      }}
    >
      <div class="grid-all" role="presentation" style={whole}>
        <div class="grid-row grid-head" role="row" aria-rowindex={1} style={{ height: `${HEADER}px` }}>
          <div class="grid-number" role="columnheader" aria-colindex={1} style={{ width: `${gutter}px` }}>
            <span class="sr-only">Row</span>
          </div>
          <div class="grid-gap" role="presentation" style={{ width: `${before}px` }} />
          {columns.map(({ index, size }) => {
            const column = result.columns[index] ?? { name: '', type: '' };
            const { name, type } = column;
            const isSortable = onSort !== undefined && canSort(type);
            const order = sort?.column !== name ? 'none' : sort.isDescending ? 'descending' : 'ascending';
            return (
              <div
                key={index}
                class={isNumeric(type) ? 'grid-title is-number' : 'grid-title'}
                role="columnheader"
                aria-colindex={index + 2}
                aria-sort={isSortable ? order : undefined}
                style={{ width: `${size}px` }}
                title={`${name} ${type}`}
              >
                {!isSortable ? (
                  <span class="grid-name">{name}</span>
                ) : (
                  <button
                    type="button"
                    class={`grid-name grid-sort is-${order}`}
                    tabIndex={-1}
                    title={`Sort by ${name}`}
                    onClick={() => onSort(column)}
                  >
                    {name}
                  </button>
                )}
                <span class="grid-type">{type || 'text'}</span>
                <WidthHandle width={size} onResize={(width) => resize(index, width)} />
              </div>
            );
          })}
        </div>
        {vertical.getVirtualItems().map(({ index: row, start }) => {
          const cells = result.cells(row);
          return (
            <div
              key={row}
              class="grid-row"
              role="row"
              aria-rowindex={row + 2}
              style={{ transform: `translateY(${start}px)`, height: `${ROW}px` }}
            >
              <div class="grid-number" role="rowheader" aria-colindex={1} style={{ width: `${gutter}px` }}>
                {first + row}
              </div>
              <div class="grid-gap" role="presentation" style={{ width: `${before}px` }} />
              {columns.map(({ index: column, size }) => {
                const cell = cells[column] ?? 'null';
                const type = result.columns[column]?.type ?? '';
                const isHead = head.row === row && head.column === column;
                return (
                  <div
                    key={column}
                    id={cellId(row, column)}
                    class={`grid-cell${isNumeric(type) ? ' is-number' : ''}${isHead ? ' is-head' : ''}`}
                    role="gridcell"
                    aria-colindex={column + 2}
                    aria-selected={isInside(range, row, column)}
                    data-row={row}
                    data-column={column}
                    style={{ width: `${size}px` }}
                  >
                    {isNull(cell) ? <span class="null">NULL</span> : preview(cell, type)}
                  </div>
                );
              })}
            </div>
          );
        })}
      </div>
    </div>
  );
}
