/** Copies the selection, or all rows that are held if it is a single cell. */
import { copyText } from '../parts/clipboard.js';
import { count, counted } from '../parts/formats.js';
import { Icon } from '../parts/icon.js';
import { Menu } from '../parts/menu.js';
import { type Rectangle, toJsonText, toMarkdown, toTsv } from './copy.js';
import type { HeldRows } from './result.js';
import { isOneCell, rangeOf, rectangleOf, type Selection } from './selection.js';

export function CopyMenu({ result, selection }: { result: HeldRows; selection: Selection }) {
  const copy = (format: (rectangle: Rectangle) => string) => {
    const rectangle = rectangleOf(result, selection, true);
    void copyText(format(rectangle), `${counted(rectangle.rows.length, 'row')} copied`);
  };
  const { top, bottom, left, right } = rangeOf(selection);
  const what = isOneCell(selection)
    ? counted(result.held, 'row')
    : `${count(bottom - top + 1)} × ${count(right - left + 1)} cells`;
  return (
    <Menu
      label="Copy"
      items={[
        { label: 'TSV, for a spreadsheet', run: () => copy((all) => toTsv(all, true)) },
        { label: 'JSON', run: () => copy(toJsonText) },
        { label: 'Markdown table', run: () => copy(toMarkdown) },
      ]}
    >
      <Icon name="copy" />
      Copy <span class="wide-only">{what}</span>
    </Menu>
  );
}
