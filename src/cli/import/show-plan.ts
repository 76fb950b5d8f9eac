/** Shows how each file will be read, with warnings. */
import { fitting, terminalWidth } from '../terminal/grid.js';
import { warn } from '../terminal/output.js';
import { firstCells, printable, widthOf } from '../terminal/text.js';
import { formatName } from '../../import/format.js';
import { labelOf } from './open-input.js';
import type { ImportPlan } from '../../import/plan.js';

/** Some field names are whole sentences, which would leave no room for the rest. */
const FIELD_WIDTH = 40;

function shortened(field: string): string {
  const shown = printable(field);
  return widthOf(shown) <= FIELD_WIDTH ? shown : `${firstCells(shown, FIELD_WIDTH - 1)}…`;
}

export function showPlan({ files }: ImportPlan, warnings: readonly string[]): void {
  for (const { path, format, mappings } of files) {
    const hasReasons = mappings.some(({ reason }) => reason !== undefined);
    const rows = mappings.map(({ field, column, type, reason }) => {
      return [shortened(field), column ?? '(left out)', type ?? '', ...(hasReasons ? [reason ?? ''] : [])];
    });
    const names = ['field', 'column', 'type', ...(hasReasons ? ['why'] : [])];
    const table = fitting(
      names.map((name) => ({ name })),
      rows,
      terminalWidth(process.stderr),
    );
    warn(printable(`${labelOf(path)}: ${formatName(format)}`));
    warn(rows.length === 0 ? 'no records' : table.join('\n'));
  }
  warnings.forEach(warn);
}
