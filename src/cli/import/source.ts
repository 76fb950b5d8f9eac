/** A file as a sequence of records, whatever its format. */
import { UsageError } from '../exit.js';
import { type Cell, csvRecords } from './csv-reader.js';
import type { Notation } from './values.js';
import { detectFormat, type Format, type FormatOptions, isJsonByName } from './format.js';
import { type Input, openInput } from './input.js';
import { jsonItems, jsonLines, type JsonRecord, membersOf } from './json-records.js';

/** Delimited text has cells in the order of the header; JSON has the text of an object. */
export interface FileRecord {
  readonly line: number;
  readonly cells?: readonly Cell[];
  readonly text?: string;
}

/** How to read the files of an import. */
export interface ReadOptions extends FormatOptions, Notation {
  encoding?: string;
  /** Names of the fields, if the file has no header. */
  columns?: readonly string[];
  /** Lines before the header or the first record. */
  skipLines: number;
  /** Values that also mean NULL. */
  null?: readonly string[];
}

export interface Source {
  readonly input: Input;
  readonly format: Format;
  /** A name for each field of delimited text; undefined for JSON. */
  readonly header: readonly string[] | undefined;
  readonly records: AsyncGenerator<FileRecord, void>;
}

const HEAD_CHARACTERS = 64 * 1024;

/** @throws UsageError if the file cannot be read in its format */
export async function openSource(path: string, options: ReadOptions): Promise<Source> {
  const input = await openInput(path, options.encoding);
  try {
    return await sourceOf(input, options);
  } catch (error) {
    input.close();
    throw error;
  }
}

async function sourceOf(input: Input, options: ReadOptions): Promise<Source> {
  const { label } = input;
  const { skipLines, quotes: hasQuotes, escape, null: nulls = [] } = options;
  const { head, isAll, text } = await peek(withoutLines(input.text, skipLines));
  if (head.trim() === '') {
    // Empty JSON is a file without records; delimited text would have a header.
    if (!isJsonByName(input.name, options)) throw new UsageError(`${label} is empty`);
    return { input, format: { kind: 'ndjson', delimiter: '' }, header: undefined, records: jsonLines(text, label) };
  }
  // Spreadsheets declare their delimiter in a first line.
  const declared = /^sep=(.)\r?\n/i.exec(head);
  const delimiter = options.delimiter ?? declared?.[1];
  const format = await detectFormat(input.name, head, isAll, {
    ...options,
    ...(delimiter === undefined ? {} : { delimiter }),
  });
  if (format.kind !== 'delimited') {
    const records = format.kind === 'json' ? jsonItems(text, label) : jsonLines(text, label);
    return { input, format, header: undefined, records: REFUSED_FILE.test(head) ? correctedRecords(records) : records };
  }
  const declaredLines = declared === null ? 0 : 1;
  const rows = csvRecords(
    withoutLines(text, declaredLines),
    {
      delimiter: format.delimiter,
      hasQuotes,
      firstLine: skipLines + declaredLines + 1,
      ...(escape === undefined ? {} : { escape }),
    },
    label,
  );
  const header = options.columns ?? (await headerOf(rows, label));
  return { input, format, header, records: nulls.length === 0 ? rows : withNulls(rows, new Set(nulls)) };
}

/** @throws UsageError if no field has a name */
async function headerOf(rows: AsyncGenerator<FileRecord, void>, label: string): Promise<string[]> {
  const { value } = await rows.next();
  const header = value?.cells?.map((cell) => (cell ?? '').trim()) ?? [];
  if (header.some((name) => name !== '')) return header;
  throw new UsageError(
    `${label}: the first line has no names`,
    'Skip it with --skip-lines, or name the fields with --columns',
  );
}

/** The beginning of the text, and all of it. */
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
  let left = count;
  for await (let piece of text) {
    for (; left > 0; left--) {
      const end = piece.indexOf('\n');
      if (end === -1) piece = '';
      if (end === -1) break;
      piece = piece.slice(end + 1);
    }
    if (piece !== '') yield piece;
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

/** The beginning of a file of refused records (`refused-file.ts`), however a program formats it. */
const REFUSED_FILE = /^\s*\{\s*"file"\s*:\s*"(?:[^"\\]|\\.)*"\s*,\s*"line"\s*:\s*\d+\s*,\s*"record"\s*:/;

/** Of such a file, only `record` is read. An object without it was added by someone, and is a record. */
async function* correctedRecords(refused: AsyncIterable<JsonRecord>): AsyncGenerator<JsonRecord, void> {
  for await (const { line, text } of refused) {
    const record = membersOf(text)?.find(([name]) => name === 'record');
    yield { line, text: record?.[1] ?? text };
  }
}
