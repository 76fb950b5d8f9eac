/** Reads rows of a sheet of an Excel workbook as records of cells, like those of delimited text. */
import { type CellValue, streamXlsxRows } from 'hucre/xlsx';
import { DAY_MS } from '../contract/calendar.js';
import { counted } from '../contract/message-text.js';
import type { Cell, CsvRecord } from './csv-reader.js';
import { FileError } from './file-error.js';
import type { RandomAccess } from './input.js';
import { type FileReadOptions, type Source, sourceOfCells } from './source.js';
import { cellKey, partsOf, type Sheet, type WorkbookParts } from './workbook-cells.js';

/** Limited, because the file and its rows are in memory. */
const LIMIT_MIB = 64;

/** @throws FileError if it is not a workbook, or has no such sheet */
export async function openWorkbook(workbook: RandomAccess, options: FileReadOptions): Promise<Source> {
  const { path, label, size } = workbook;
  if (size === null) throw new FileError(`${label}: a workbook must be a regular file, not a pipe`);
  if (size > LIMIT_MIB * 1024 * 1024)
    throw new FileError(`${label} is larger than ${LIMIT_MIB} MiB`, 'Save the sheet as CSV, which may have any size');
  let [isClosed, hasEnded] = [false, false];
  const { sheet: name, skipLines, columns } = options;
  const warnings: string[] = [];
  const rows = async function* (): AsyncGenerator<CsvRecord, void> {
    let width = columns?.length;
    let hasRows = false;
    const file = new Uint8Array(await workbook.slice(0, size));
    const { parts, sheet, cells: marked } = await explained(label, sheetOf(file, name));
    if (sheet?.path === undefined || marked === undefined)
      throw new FileError(...whyNoCells(label, name, parts, sheet));
    if (marked.formulasWithoutValue > 0) warnings.push(uncalculated(label, marked.formulasWithoutValue));
    try {
      for await (const { index, values } of streamXlsxRows(file, { sheet: sheet.name })) {
        if (isClosed) return;
        hasRows = true;
        const cells = values.map((value, column) => {
          const days = value instanceof Date ? marked.durations.get(cellKey(index, column)) : undefined;
          return days === undefined ? cellOf(value, options, parts.is1904) : durationOf(days);
        });
        if (index < skipLines || cells.every((cell) => cell === null)) continue;
        width ??= cells.length;
        while (cells.length < width) cells.push(null);
        yield { line: index + 1, cells };
      }
    } catch (error) {
      throw unreadable(label, error);
    }
    if (width === undefined || !hasRows) throw new FileError(...whyNoCells(label, name, parts, sheet));
    hasEnded = true;
  };
  // The file is read at once, so progress is unknown until its rows end.
  const input = { label, name: path, size, bytesRead: () => (hasEnded ? size : 0), close: () => (isClosed = true) };
  const source = await sourceOfCells(input, { kind: 'xlsx', delimiter: '' }, rows(), options);
  return { ...source, warnings };
}

async function sheetOf(file: Uint8Array, name: string | undefined) {
  const parts = await partsOf(file);
  const sheet = name === undefined ? parts.sheets[0] : parts.sheets.find((each) => each.name === name);
  return { parts, sheet, cells: sheet?.path === undefined ? undefined : await parts.cellsOf(sheet) };
}

/** The message, and a hint that names the sheets. */
function whyNoCells(
  label: string,
  requested: string | undefined,
  { sheets }: WorkbookParts,
  sheet: Sheet | undefined,
): [string, string?] {
  const names = sheets.map(({ name }) => `"${name}"`).join(', ');
  if (sheet === undefined) return [`${label} has no sheet "${requested ?? ''}"`, `Its sheets are ${names}`];
  const what = sheet.path === undefined ? 'has no cells, as a chart does' : 'is empty';
  if (sheets.length === 1) return [`${label}: the sheet "${sheet.name}" ${what}`];
  return [`${label}: the sheet "${sheet.name}" ${what}`, `Its sheets are ${names}: choose one with --sheet NAME`];
}

const uncalculated = (label: string, count: number): string =>
  `${label}: ${counted(count, 'formula')} without a stored value ${count === 1 ? 'is' : 'are'} read as NULL. To calculate them, open the workbook in a spreadsheet program and save it`;

async function explained<T>(label: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw unreadable(label, error);
  }
}

const unreadable = (label: string, error: unknown): FileError =>
  new FileError(`${label} cannot be read as a workbook: ${error instanceof Error ? error.message : String(error)}`);

const DAY_ZERO = Date.UTC(1899, 11, 31);
const DAY_ZERO_OF_1904 = Date.UTC(1904, 0, 1);

/** As in delimited text: numbers with the decimal separator of the options, dates and times in ISO 8601. */
function cellOf(value: CellValue, { decimal }: FileReadOptions, is1904: boolean): Cell {
  if (value === null || value === '') return null;
  if (value instanceof Date) {
    const time = value.getTime();
    if (Number.isNaN(time)) return '#NUM!';
    const since = time - (is1904 ? DAY_ZERO_OF_1904 : DAY_ZERO);
    // Day 0 shows a time of day; of 1904, it is a day as well.
    if (since >= 0 && since < DAY_MS && !(is1904 && since === 0))
      return withoutZeros(value.toISOString().slice(11, -1));
    // Excel has no dates before its day 0; others count back from 30 December, because Excel's 1900 is a leap year.
    const moment = since < 0 && !is1904 ? new Date(time - DAY_MS) : value;
    return moment
      .toISOString()
      .replace(/T00:00:00\.000Z$/, '')
      .replace('.000Z', 'Z');
  }
  if (typeof value !== 'number') return String(value);
  // A workbook contains doubles: larger integers have already lost digits.
  const text = Number.isInteger(value) && !Number.isSafeInteger(value) ? value.toExponential() : String(value);
  return text.replace('.', decimal);
}

/** In the form that intervals have in Postgres: 36:00:00. */
function durationOf(days: number): string {
  const all = Math.abs(Math.round(days * DAY_MS));
  const [hours, minutes] = [Math.floor(all / 3_600_000), Math.floor(all / 60_000) % 60];
  const seconds = ((all % 60_000) / 1_000).toFixed(3);
  const two = (part: number | string, width = 2): string => String(part).padStart(width, '0');
  return `${days < 0 && all > 0 ? '-' : ''}${two(hours)}:${two(minutes)}:${withoutZeros(two(seconds, 6))}`;
}

const withoutZeros = (time: string): string => time.replace(/\.000$/, '');
