/** Shows a whole value. */
import { copyText } from '../parts/clipboard.js';
import { Dialog } from '../parts/dialog.js';
import { Icon, IconButton } from '../parts/icon.js';
import { counted } from '../parts/formats.js';
import { type Cell, isNull, textOf } from './cells.js';
import { JsonTree } from './json-tree.js';
import type { ResultColumn } from './result.js';

/** The page shows at most this many characters of a text; the copy has all of them. */
const SHOWN = 500_000;

export interface ShownCell {
  readonly column: ResultColumn;
  readonly cell: Cell;
}

interface CellProps {
  readonly shown: ShownCell | null;
  readonly onClose: () => void;
}

export const CellDialog = ({ shown, onClose }: CellProps) =>
  shown !== null && (
    <Dialog title={shown.column.name} onClose={onClose}>
      <CellValue {...shown} />
    </Dialog>
  );

/** The same beside a grid, which keeps the focus. */
export const CellPanel = ({ shown, onClose }: CellProps) =>
  shown !== null && (
    <aside class="cell-panel" aria-label={`Value of ${shown.column.name}`}>
      <div class="dialog-head">
        <h2 class="mono">{shown.column.name}</h2>
        <IconButton icon="close" label="Close the value" title="Close" onClick={onClose} />
      </div>
      <CellValue {...shown} />
    </aside>
  );

function CellValue({ column, cell }: ShownCell) {
  const text = isNull(cell) ? '' : textOf(cell, column.type);
  const isTree = /^[[{]/.test(cell);
  return (
    <>
      <div class="cell-head">
        <span class="quiet">
          {column.type} · {isNull(cell) ? 'NULL' : counted(text.length, 'character')}
        </span>
        <button
          type="button"
          class="button"
          disabled={isNull(cell)}
          onClick={() => void copyText(text, 'Value copied')}
        >
          <Icon name="copy" />
          Copy
        </button>
      </div>
      <div class="cell-value" tabIndex={0} role="region" aria-label="Value">
        {isTree ? (
          <JsonTree text={cell} />
        ) : isNull(cell) ? (
          <span class="null">NULL</span>
        ) : text === '' ? (
          <span class="null">empty text</span>
        ) : (
          <pre>{text.slice(0, SHOWN)}</pre>
        )}
        {text.length > SHOWN && <p class="quiet">Only the first {counted(SHOWN, 'character')} are shown.</p>}
      </div>
    </>
  );
}
