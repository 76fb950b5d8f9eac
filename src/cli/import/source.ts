/** A file as records of one kind, whatever its format. */
import { UsageError } from '../remote/outcome.js';
import type { Notation } from './cell-values.js';
import { corrected, isOfRefused } from './corrected.js';
import { type Cell, csvRecords } from './csv.js';
import { detectFormat, type Format, isJsonByName, type ToldFormat } from './format.js';
import { type Input, openInput, peek } from './input.js';
import { jsonItems, jsonLines } from './json-records.js';

/** Delimited text has cells in the order of the heads; JSON the text of an object. */
export interface FileRecord {
  readonly line: number;
  readonly cells?: readonly Cell[];
  readonly text?: string;
}

/** How a file is to be read; the same for all files of an import. */
export interface SourceOptions extends ToldFormat, Notation {
  encoding?: string;
  /** Names, where the file has no head. */
  columns?: readonly string[];
  /** Lines before the head, or the first record. */
  skipLines: number;
  /** These, too, stand for NULL. */
  nulls: readonly string[];
}

export interface Source {
  readonly input: Input;
  readonly format: Format;
  /** Of delimited text, one for each field; of JSON undefined. */
  readonly heads: readonly string[] | undefined;
  readonly records: AsyncGenerator<FileRecord, void>;
}

const HEAD_CHARACTERS = 64 * 1024;

/** @throws UsageError where the file cannot be what it was taken for */
export async function openSource(path: string, options: SourceOptions): Promise<Source> {
  const input = await openInput(path, options.encoding);
  try {
    return await sourceIn(input, options);
  } catch (error) {
    input.close();
    throw error;
  }
}

async function sourceIn(input: Input, options: SourceOptions): Promise<Source> {
  const { path } = input;
  const { skipLines, columns, hasQuotes, escape, nulls } = options;
  const { head, isAll, whole } = await peek(withoutLines(input.text, skipLines), HEAD_CHARACTERS);
  if (head.trim() === '') {
    // Of JSON that is a file without records; delimited text would have a head.
    if (!isJsonByName(input.name, options)) throw new UsageError(`${path} is empty`);
    return { input, format: { kind: 'ndjson', delimiter: '' }, heads: undefined, records: jsonLines(whole, path) };
  }
  // Spreadsheets say so which delimiter follows.
  const told = /^sep=(.)\r?\n/i.exec(head);
  const delimiter = options.delimiter ?? told?.[1];
  const format = await detectFormat(input.name, head, isAll, {
    ...options,
    ...(delimiter === undefined ? {} : { delimiter }),
  });
  if (format.kind !== 'delimited') {
    const records = format.kind === 'json' ? jsonItems(whole, path) : jsonLines(whole, path);
    return { input, format, heads: undefined, records: isOfRefused(head) ? corrected(records) : records };
  }
  const before = told === null ? 0 : 1;
  const csv = {
    delimiter: format.delimiter,
    hasQuotes,
    firstLine: skipLines + before + 1,
    ...(escape === undefined ? {} : { escape }),
  };
  const rows = csvRecords(withoutLines(whole, before), csv, path);
  let heads = columns;
  if (heads === undefined) {
    const first = await rows.next();
    heads = first.done ? [] : first.value.cells.map((cell) => (cell ?? '').trim());
    if (heads.every((each) => each === '')) {
      throw new UsageError(
        `${path}: the first line has no names`,
        'Skip it, or name the fields: --skip-lines, --columns',
      );
    }
  }
  return { input, format, heads, records: nulls.length === 0 ? rows : nulled(rows, new Set(nulls)) };
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

async function* nulled(rows: AsyncIterable<FileRecord>, marks: ReadonlySet<string>): AsyncGenerator<FileRecord, void> {
  for await (const { line, cells = [] } of rows) {
    yield { line, cells: cells.map((cell) => (cell !== null && marks.has(cell) ? null : cell)) };
  }
}
