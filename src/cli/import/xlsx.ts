/** Reads rows of a sheet of an Excel workbook as records of cells, like those of delimited text. */
import { readFile } from 'node:fs/promises';
import { type CellValue, readXlsx, streamXlsxRows } from 'hucre/xlsx';
import { UsageError } from '../exit.js';
import type { Cell, CsvRecord } from '../../import/csv-reader.js';
import { labelOf } from './open-input.js';
import { type ReadOptions, type Source, sourceOfCells } from '../../import/source.js';

/** Limited, because the file and its rows are in memory. */
const LIMIT_MIB = 64;

/**
 * @param size null if the file can be read only once @throws UsageError if it is not a workbook, or has no such sheet
 */
export async function openWorkbook(path: string, size: number | null, options: ReadOptions): Promise<Source> {
  const label = labelOf(path);
  if (size === null) throw new UsageError(`${label}: a workbook must be a regular file, not a pipe`);
  if (size > LIMIT_MIB * 1024 * 1024)
    throw new UsageError(`${label} is larger than ${LIMIT_MIB} MiB`, 'Save the sheet as CSV, which may have any size');
  let [isClosed, hasEnded, hasRows] = [false, false, false];
  const { sheet, skipLines, columns } = options;
  const rows = async function* (): AsyncGenerator<CsvRecord, void> {
    let width = columns?.length;
    try {
      for await (const { index, values } of streamXlsxRows(
        await readFile(path),
        sheet === undefined ? {} : { sheet },
      )) {
        if (isClosed) return;
        hasRows = true;
        const cells = values.map((value) => cellOf(value, options));
        if (index < skipLines || cells.every((cell) => cell === null)) continue;
        width ??= cells.length;
        while (cells.length < width) cells.push(null);
        yield { line: index + 1, cells };
      }
    } catch (error) {
      throw new UsageError(
        `${label} cannot be read as a workbook: ${error instanceof Error ? error.message : String(error)}`,
      );
    }
    if (width === undefined || !hasRows) {
      const names = sheet === undefined ? [] : await sheetNames(path);
      if (sheet === undefined || names.includes(sheet))
        throw new UsageError(sheet === undefined ? `${label} is empty` : `${label}: the sheet "${sheet}" is empty`);
      throw new UsageError(
        `${label} has no sheet "${sheet}"`,
        `Its sheets are ${names.map((name) => `"${name}"`).join(', ')}`,
      );
    }
    hasEnded = true;
  };
  // The file is read at once, so progress is unknown until its rows end.
  const input = { label, name: path, size, bytesRead: () => (hasEnded ? size : 0), close: () => (isClosed = true) };
  return sourceOfCells(input, { kind: 'xlsx', delimiter: '' }, rows(), options);
}

async function sheetNames(path: string): Promise<string[]> {
  const names: string[] = [];
  const skip = ({ name }: { name: string }): boolean => {
    names.push(name);
    return false;
  };
  await readXlsx(await readFile(path), { sheets: skip });
  return names;
}

const FIRST_DAY = Date.UTC(1900, 0, 1);

/** As in delimited text: numbers with the decimal separator of the options, dates and times in ISO 8601. */
function cellOf(value: CellValue, { decimal }: ReadOptions): Cell {
  if (value === null || value === '') return null;
  if (value instanceof Date) {
    const time = value.toISOString();
    if (value.getTime() < FIRST_DAY) return time.slice(11, -1).replace(/\.000$/, '');
    return time.replace(/T00:00:00\.000Z$/, '').replace('.000Z', 'Z');
  }
  if (typeof value !== 'number') return String(value);
  // A workbook contains doubles: larger integers have already lost digits.
  const text = Number.isInteger(value) && !Number.isSafeInteger(value) ? value.toExponential() : String(value);
  return text.replace('.', decimal);
}
