/** Rows on a terminal: side by side in columns as wide as their widest cell, or each value on a line of its own. */
import { printable, printableLines, widthOf } from './terminal-text.js';

export interface GridColumn {
  name: string;
  /** Numbers stand at the right. */
  isNumber?: boolean;
}

/** The lines of the table: head, rule, rows. */
export function grid(columns: readonly GridColumn[], rows: readonly (readonly string[])[]): string[] {
  const names = columns.map(({ name }) => printable(name));
  const cells = rows.map((row) => row.map(printable));
  const widths = names.map((name, i) =>
    cells.reduce((widest, row) => Math.max(widest, widthOf(row[i] ?? '')), widthOf(name)),
  );
  const line = (row: readonly string[]): string =>
    row
      .map((cell, i) => {
        const space = padding(cell, widths[i] ?? 0);
        return columns[i]?.isNumber ? space + cell : cell + space;
      })
      .join(' | ')
      .trimEnd();
  return [line(names), widths.map((width) => '-'.repeat(width)).join('-+-'), ...cells.map(line)];
}

/** A record after the other, a value a line, below its number; lines of a value stay lines. */
export function records(columns: readonly GridColumn[], rows: readonly (readonly string[])[]): string[] {
  const names = columns.map(({ name }) => printable(name));
  const width = Math.max(0, ...names.map(widthOf));
  return rows.flatMap((row, i) => [
    `-[ ${i + 1} ]`.padEnd(width + 1, '-'),
    ...names.flatMap((name, column) =>
      printableLines(row[column] ?? '')
        .split('\n')
        .map((line, part) => {
          const head = part === 0 ? name : '';
          return `${head}${padding(head, width)} | ${line}`.trimEnd();
        }),
    ),
  ]);
}

const padding = (text: string, width: number): string => ' '.repeat(Math.max(0, width - widthOf(text)));
