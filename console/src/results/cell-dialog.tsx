/** Shows a whole value. */
import { copyText } from '../parts/clipboard.js';
import { Dialog } from '../parts/dialog.js';
import { Icon } from '../parts/icon.js';
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

export function CellDialog({ shown, onClose }: { shown: ShownCell | null; onClose: () => void }) {
  if (shown === null) return null;
  const { column, cell } = shown;
  const text = isNull(cell) ? '' : textOf(cell, column.type);
  const isTree = /^[[{]/.test(cell);
  return (
    <Dialog title={column.name} onClose={onClose}>
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
    </Dialog>
  );
}
