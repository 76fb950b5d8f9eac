/** A cell of a refused record, with its errors below. */
import type { ErrorDetail } from '../../../src/contract/errors.js';
import type { Corrections } from './corrections.js';
import type { RefusedRow } from './stored-journal.js';

interface RefusedCellProps {
  readonly id: string;
  readonly corrections: Corrections;
  readonly row: RefusedRow;
  readonly column: string;
  readonly colIndex: number;
  readonly width: number;
  /** An error in the typed text. */
  readonly found: string | undefined;
  /** Moves to the same cell of another record. */
  readonly onMove: (by: 1 | -1) => void;
}

export function RefusedCell({ id, corrections, row, column, colIndex, width, found, onMove }: RefusedCellProps) {
  const isChanged = corrections.isChanged(row, column);
  const refused = row.errors.filter((place) => place.column === column).map(messageInCell);
  const problem = found ?? (isChanged || refused.length === 0 ? undefined : refused.join('; '));
  const noteId = `${id}-note`;
  const isAbsent = corrections.jsonOf(row, column) === undefined;
  return (
    <div
      class={`refused-cell${problem === undefined ? '' : ' is-wrong'}${isChanged ? ' is-changed' : ''}`}
      role="cell"
      aria-colindex={colIndex}
      style={{ width: `${width}px` }}
    >
      <input
        id={id}
        class="mono"
        aria-label={`${column}, line ${row.record.line}`}
        aria-invalid={problem !== undefined}
        aria-describedby={problem === undefined && !isChanged ? undefined : noteId}
        value={corrections.textOf(row, column)}
        placeholder={isAbsent ? '' : 'NULL'}
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => corrections.type(row, column, event.currentTarget.value)}
        onKeyDown={(event) => {
          const by = { ArrowDown: 1, Enter: 1, ArrowUp: -1 }[event.key];
          if (by === undefined || event.altKey) return;
          event.preventDefault();
          onMove(by as 1 | -1);
        }}
      />
      {problem !== undefined && (
        <p id={noteId} class="refused-note" title={problem}>
          {problem}
        </p>
      )}
      {problem === undefined && isChanged && (
        <p id={noteId} class="refused-note">
          Not sent yet
        </p>
      )}
    </div>
  );
}

/** The message without the name of the column, which is shown above. */
const messageInCell = ({ message }: ErrorDetail): string => message.replace(/^column "[^"]*": /i, '');

/** Errors of a record as a whole, and the record if it has no cells to show. */
export function RefusedNote({ row: { record, errors }, left }: { row: RefusedRow; left: number }) {
  const messages = errors.filter(({ column }) => column === undefined).map(({ message }) => message);
  if (messages.length === 0) return null;
  const text = `${messages.join('; ')}${record.json.startsWith('{') ? '' : `: ${record.json}`}`;
  return (
    <p class="refused-note refused-record" title={text} style={{ left: `${left}px` }}>
      {text}
    </p>
  );
}
