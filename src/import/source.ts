/** Reads a file as a sequence of records. */
import { COLUMN_TYPES, type ColumnType } from '../contract/column-types.js';
import { type Cell, csvRecords } from './csv-reader.js';
import { FileError } from './file-error.js';
import { flattened } from './flatten.js';
import {
  detectFormat,
  type Format,
  formatName,
  type FormatOptions,
  isJsonByName,
  LINE_END,
  otherDelimiter,
} from './format.js';
import type { Input, TextInput } from './input.js';
import { isJson, jsonItems, jsonLines } from './json-records.js';
import { correctedRecords, REFUSED_FILE } from './refused-lines.js';
import type { Notation } from './values.js';

/** Either cells in the order of the header, or the text of a JSON object. */
export interface FileRecord {
  readonly line: number;
  readonly cells?: readonly Cell[];
  readonly text?: string;
}

/** How to read the files of an import. */
export interface FileReadOptions extends FormatOptions, Notation {
  encoding?: string;
  /** Names of the fields, if the file has no header. */
  columns?: readonly string[];
  /** The number of lines before the header or the first record. */
  skipLines: number;
  /** The sheet of a workbook; default: the first. */
  sheet?: string;
  /** Names of fields or columns to leave out, whose values need not be readable. */
  skip?: readonly string[];
  /** Turns the members of nested objects into fields. */
  flatten?: boolean;
  /** Values that also mean NULL. */
  null?: readonly string[];
}

export interface Source {
  readonly input: Input;
  readonly format: Format;
  /** Another delimiter that may be the right one. */
  readonly otherDelimiter?: string | undefined;
  /** A name for each cell; undefined if the records are JSON. */
  readonly header: readonly string[] | undefined;
  /** The type of each field, if the file declares it; undefined if the values determine it. */
  readonly types?: ReadonlyMap<string, ColumnType | undefined> | undefined;
  readonly records: AsyncGenerator<FileRecord, void>;
  /** What the user should know, once the records are read. */
  readonly warnings?: readonly string[];
}

const HEAD_CHARACTERS = 64 * 1024;

/** A file to import, from any place. */
export interface ImportFile {
  /** Path, or name if it has none. */
  readonly path: string;
  /** Changes if the file does, and begins with its size in bytes. null if the file can be read only once. */
  identity(): Promise<string | null>;
  /** @throws FileError if it cannot be read in its format */
  open(options: FileReadOptions): Promise<Source>;
}

/**
 * Reads text as records. Closes the input if this fails.
 * @throws FileError if it cannot be read in its format
 */
export async function openText(input: TextInput, options: FileReadOptions): Promise<Source> {
  try {
    return await sourceOf(input, options);
  } catch (error) {
    input.close();
    throw error;
  }
}

async function sourceOf(input: TextInput, options: FileReadOptions): Promise<Source> {
  const { label } = input;
  const { skipLines, quotes: hasQuotes, escape } = options;
  const { head, isAll, text } = await peek(withoutLines(input.text, skipLines));
  if (head.trim() === '') {
    // Empty JSON is a file without records; delimited text would have a header.
    if (!isJsonByName(input.name, options)) throw new FileError(`${label} is empty`);
    return { input, format: { kind: 'ndjson', delimiter: '' }, header: undefined, records: jsonLines(text, label) };
  }
  // Spreadsheet programs declare their delimiter in a first line.
  const declared = /^sep=(.)(?:\r\n?|\n)/i.exec(head);
  const delimiter = options.delimiter ?? declared?.[1];
  const format = await detectFormat(input.name, head, isAll, {
    ...options,
    delimiter,
  });
  if (format.kind !== 'delimited') {
    const items = format.kind === 'json' ? jsonItems(text, label) : jsonLines(text, label);
    const types = format.kind === 'ndjson' ? typesInFirstLine(head) : undefined;
    if (types !== undefined) await items.next();
    const records = REFUSED_FILE.test(head) ? correctedRecords(items) : items;
    return {
      input,
      format,
      header: undefined,
      types,
      records: options.flatten ? flattened(records, label) : records,
    };
  }
  const declaredLines = declared === null ? 0 : 1;
  const rows = csvRecords(
    withoutLines(text, declaredLines),
    {
      delimiter: format.delimiter,
      hasQuotes,
      firstLine: skipLines + declaredLines + 1,
      escape,
    },
    label,
  );
  return {
    ...(await sourceOfCells(input, format, rows, options)),
    otherDelimiter: declared ? undefined : await otherDelimiter(head, isAll, options, format.delimiter),
  };
}

/**
 * @param rows the first one contains the names of the fields, unless the options do
 * @throws FileError if no field has a name
 */
export async function sourceOfCells(
  input: Input,
  format: Format,
  rows: AsyncGenerator<FileRecord, void>,
  { columns, flatten, null: nulls = [] }: FileReadOptions,
): Promise<Source> {
  if (flatten) throw new FileError(`${input.label} is ${formatName(format)}; --flatten is for JSON and Parquet`);
  const header = columns ?? (await headerOf(rows, input.label));
  return { input, format, header, records: nulls.length === 0 ? rows : withNulls(rows, new Set(nulls)) };
}

/** @throws FileError if no field has a name */
async function headerOf(rows: AsyncGenerator<FileRecord, void>, label: string): Promise<string[]> {
  const { value } = await rows.next();
  const header = value?.cells?.map((cell) => (cell ?? '').trim()) ?? [];
  if (header.some((name) => name !== '')) return header;
  throw new FileError(
    `${label}: the first line has no names`,
    'Skip it with --skip-lines, or name the fields with --columns',
  );
}

/** The beginning of the text, and the whole text. */
async function peek(
  text: AsyncGenerator<string, void>,
): Promise<{ head: string; isAll: boolean; text: AsyncGenerator<string, void> }> {
  let head = '';
  let isAll = false;
  while (head.length < HEAD_CHARACTERS && !isAll) {
    const { value, done } = await text.next();
    if (done) isAll = true;
    else head += value;
  }
  const all = async function* () {
    yield head;
    yield* text;
  };
  return { head, isAll, text: all() };
}

async function* withoutLines(text: AsyncIterable<string>, count: number): AsyncGenerator<string, void> {
  let remaining = count;
  let isWithinEnd = false;
  for await (let piece of text) {
    if (piece === '') continue;
    // The pieces may divide a line end of two characters.
    if (isWithinEnd && piece.startsWith('\n')) piece = piece.slice(1);
    isWithinEnd = false;
    for (let end = LINE_END.exec(piece); remaining > 0 && end !== null; end = LINE_END.exec(piece)) {
      piece = piece.slice(end.index + end[0].length);
      isWithinEnd = piece === '' && end[0] === '\r';
      remaining--;
    }
    if (remaining === 0 && piece !== '') yield piece;
  }
}

async function* withNulls(
  rows: AsyncIterable<FileRecord>,
  nulls: ReadonlySet<string>,
): AsyncGenerator<FileRecord, void> {
  for await (const { line, cells = [] } of rows) {
    yield { line, cells: cells.map((cell) => (cell !== null && nulls.has(cell) ? null : cell)) };
  }
}

// Reads types that NDJSON declares in its first line, in the format of an export with types and of the API with
// `columns`.

/** `{"columns":[{"name":"n","type":"INTEGER"}]}`; any other line that begins like this is a record. */
const DECLARATION = /^\s*(\{"columns":\[\{"name":".*)/;

/**
 * @param head the beginning of the file, or all of it
 * @returns undefined if the first line is a record; in the map, undefined for a type that is not one of the API's,
 * which the values then determine
 */
function typesInFirstLine(head: string): ReadonlyMap<string, ColumnType | undefined> | undefined {
  const line = DECLARATION.exec(head)?.[1] ?? '';
  if (!isJson(line)) return undefined;
  const { columns, ...others } = JSON.parse(line) as { columns: unknown[] };
  if (Object.keys(others).length > 0 || !columns.every(isColumn)) return undefined;
  return new Map(columns.map(({ name, type }) => [name, COLUMN_TYPES.find((candidate) => candidate === type)]));
}

const isColumn = (column: unknown): column is { name: string; type: string | null } =>
  typeof column === 'object' &&
  column !== null &&
  Object.keys(column).join() === 'name,type' &&
  typeof (column as { name: unknown }).name === 'string';
