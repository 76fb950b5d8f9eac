/** Formats rows for a terminal, as columns or with one value per line. Control characters are escaped. */
import { colored, printable, printableLines, widthOf } from './text.js';

interface GridColumn {
  name: string;
  /** Numbers are aligned right. */
  isNumber?: boolean;
}

/** null is NULL. */
type Rows = readonly (readonly (string | null)[])[];

/** The width of the terminal in columns; unlimited for files and if the terminal does not report it. */
export const terminalWidth = ({ columns }: NodeJS.WriteStream = process.stdout): number => columns || Infinity;

/** A table, or if that is wider than the terminal, one value per line. */
export function fitting(columns: readonly GridColumn[], rows: Rows, width = terminalWidth()): string[] {
  const table = grid(columns, rows);
  return isWider(table, width) ? records(columns, rows) : table;
}

const isWider = (lines: readonly string[], width: number): boolean => lines.some((line) => widthOf(line) > width);

/** A table with a rule below its header. */
export function grid(columns: readonly GridColumn[], rows: Rows): string[] {
  const [header = [], ...body] = padded([columns.map(({ name }) => name), ...rows], columns);
  const lines = body.map((cells) => cells.join(' | ').trimEnd());
  return [header.join(' | ').trimEnd(), header.map((cell) => '-'.repeat(widthOf(cell))).join('-+-'), ...lines];
}

/** Columns without rules; the first row is the header. If that is wider than the terminal, one value per line. */
export function tableLines(header: readonly string[], rows: Rows, width = terminalWidth()): string[] {
  const lines = aligned([header, ...rows]);
  const isFolded = rows.length > 0 && isWider(lines, width);
  return isFolded
    ? records(
        header.map((name) => ({ name })),
        rows,
      )
    : lines;
}

export const aligned = (rows: Rows): string[] => padded(rows).map((cells) => cells.join('  ').trimEnd());

const cellText = (cell: string | null): string =>
  cell === null ? colored(process.stdout, 'dim', 'NULL') : printable(cell);

function padded(rows: Rows, columns: readonly GridColumn[] = []): string[][] {
  const cells = rows.map((row) => row.map(cellText));
  const widths = (cells[0] ?? []).map((_, i) =>
    cells.reduce((widest, row) => Math.max(widest, widthOf(row[i] ?? '')), 0),
  );
  return cells.map((row) =>
    row.map((cell, i) => {
      const space = padding(cell, widths[i] ?? 0);
      return columns[i]?.isNumber ? space + cell : cell + space;
    }),
  );
}

/** One record after another, each below its number, with one value per line; line breaks within a value are kept. */
export function records(columns: readonly GridColumn[], rows: Rows): string[] {
  const names = columns.map(({ name }) => printable(name));
  const width = Math.max(0, ...names.map(widthOf));
  const valueLines = (name: string, value: string | null): string[] =>
    (value === null ? cellText(null) : printableLines(value))
      .split('\n')
      .map((line, i) => `${i === 0 ? name : ''}${padding(i === 0 ? name : '', width)} | ${line}`.trimEnd());
  return rows.flatMap((row, i) => [
    `-[ ${i + 1} ]`.padEnd(width + 1, '-'),
    ...names.flatMap((name, column) => valueLines(name, row[column] === undefined ? '' : row[column])),
  ]);
}

const padding = (text: string, width: number): string => ' '.repeat(Math.max(0, width - widthOf(text)));
