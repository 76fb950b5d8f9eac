/** Rows on a terminal: in columns as wide as their widest cell, or each value on a line of its own. */
import { printable, printableLines, widthOf } from './text.js';

export interface GridColumn {
  name: string;
  /** Numbers are aligned right. */
  isNumber?: boolean;
}

type Rows = readonly (readonly string[])[];

/** A table with a rule below its header. */
export function grid(columns: readonly GridColumn[], rows: Rows): string[] {
  const [header = [], ...body] = padded([columns.map(({ name }) => name), ...rows], columns);
  const lines = body.map((cells) => cells.join(' | ').trimEnd());
  return [header.join(' | ').trimEnd(), header.map((cell) => '-'.repeat(widthOf(cell))).join('-+-'), ...lines];
}

/** Columns without rules; the first row is the header. */
export const aligned = (rows: Rows): string[] => padded(rows).map((cells) => cells.join('  ').trimEnd());

function padded(rows: Rows, columns: readonly GridColumn[] = []): string[][] {
  const shown = rows.map((row) => row.map(printable));
  const widths = (shown[0] ?? []).map((_, i) =>
    shown.reduce((widest, row) => Math.max(widest, widthOf(row[i] ?? '')), 0),
  );
  return shown.map((row) =>
    row.map((cell, i) => {
      const space = padding(cell, widths[i] ?? 0);
      return columns[i]?.isNumber ? space + cell : cell + space;
    }),
  );
}

/** One record after the other, each below its number, with a value per line; lines within a value stay lines. */
export function records(columns: readonly GridColumn[], rows: Rows): string[] {
  const names = columns.map(({ name }) => printable(name));
  const width = Math.max(0, ...names.map(widthOf));
  const valueLines = (name: string, value: string): string[] =>
    printableLines(value)
      .split('\n')
      .map((line, i) => `${i === 0 ? name : ''}${padding(i === 0 ? name : '', width)} | ${line}`.trimEnd());
  return rows.flatMap((row, i) => [
    `-[ ${i + 1} ]`.padEnd(width + 1, '-'),
    ...names.flatMap((name, column) => valueLines(name, row[column] ?? '')),
  ]);
}

const padding = (text: string, width: number): string => ' '.repeat(Math.max(0, width - widthOf(text)));
