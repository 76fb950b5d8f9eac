/** A rectangle of cells as text for other programs. */
import { type Cell, isNull, textOf } from './cells.js';
import type { ResultColumn } from './result.js';

export interface Rectangle {
  readonly columns: readonly ResultColumn[];
  readonly rows: readonly (readonly Cell[])[];
}

/** The format of spreadsheets: a value with a tab, a line break or a quote is quoted. NULL is empty. */
export function toTsv({ columns, rows }: Rectangle, withHeader: boolean): string {
  const lines = rows.map((row) => row.map((cell, i) => tsvField(plain(cell, columns[i]))).join('\t'));
  const header = columns.map(({ name }) => tsvField(name)).join('\t');
  return [...(withHeader ? [header] : []), ...lines].join('\n');
}

const tsvField = (text: string): string => (/[\t\n\r"]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

const plain = (cell: Cell, column: ResultColumn | undefined): string =>
  isNull(cell) ? '' : textOf(cell, column?.type ?? '');

/** An array of objects, with all digits of the numbers. */
export function toJsonText({ columns, rows }: Rectangle): string {
  const objects = rows.map(
    (row) => `  {${row.map((cell, i) => `${JSON.stringify(columns[i]?.name ?? '')}: ${cell}`).join(', ')}}`,
  );
  return `[\n${objects.join(',\n')}\n]`;
}

export function toMarkdown({ columns, rows }: Rectangle): string {
  const line = (fields: readonly string[]): string => `| ${fields.join(' | ')} |`;
  return [
    line(columns.map(({ name }) => markdownField(name))),
    line(columns.map(() => '---')),
    ...rows.map((row) => line(row.map((cell, i) => markdownField(plain(cell, columns[i]))))),
  ].join('\n');
}

const markdownField = (text: string): string => text.replace(/[\\|`*_<>[\]]/g, '\\$&').replace(/\r\n|[\r\n]/g, '<br>');
