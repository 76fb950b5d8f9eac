/** The rows of a result in a grid, and the whole value of a cell: in a dialog, or beside the grid. */
import './result-view.css';
import { type Signal, useSignal } from '@preact/signals';
import { CellDialog, CellPanel } from './cell-dialog.js';
import { Grid, type GridProps } from './grid.js';
import type { HeldRows } from './result.js';
import { toTsv } from './copy.js';
import { isOneCell, type Position, rectangleOf, type Selection } from './selection.js';

interface ResultRowsProps extends Omit<GridProps, 'onOpen' | 'onCopy'> {
  readonly selection: Signal<Selection>;
  /** Whether a value is shown beside the grid, and follows the cursor, where there is room. */
  readonly isBeside?: boolean;
}

/** Pixels, below which a panel leaves the grid too little. */
const ROOM = 1_000;

export function ResultRows({ isBeside = false, ...grid }: ResultRowsProps) {
  const { result, selection } = grid;
  const opened = useSignal<Position | null>(null);
  const close = () => (opened.value = null);
  const hasPanel = isBeside && innerWidth >= ROOM;
  const at = hasPanel && opened.value !== null ? selection.value.head : opened.value;
  const shown = at === null ? null : shownCell(result, at);
  return (
    <div
      class={hasPanel && shown !== null ? 'result-rows has-panel' : 'result-rows'}
      onKeyDown={(event) => {
        if (event.key !== 'Escape' || opened.value === null || !hasPanel) return;
        close();
        event.currentTarget.querySelector<HTMLElement>('.grid')?.focus();
      }}
    >
      <Grid
        {...grid}
        onOpen={(position) => (opened.value = position)}
        onCopy={() => toTsv(rectangleOf(result, selection.value, false), !isOneCell(selection.value))}
      />
      {result.held === 0 && result.isComplete.value && <p class="result-none quiet">No row matches.</p>}
      {hasPanel ? <CellPanel shown={shown} onClose={close} /> : <CellDialog shown={shown} onClose={close} />}
    </div>
  );
}

function shownCell(result: HeldRows, { row, column }: Position) {
  const described = result.columns[column];
  const cell = row < result.held ? result.cells(row)[column] : undefined;
  return described === undefined || cell === undefined ? null : { column: described, cell };
}
