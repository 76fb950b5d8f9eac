/** Detects the format of a file by its content, or by its name if the content is not sufficient. */
import { csvRecords } from './csv-reader.js';
import { endOfValue, isJson } from './json-records.js';

const BINARY_FORMATS = ['parquet', 'xlsx'] as const;

export const FORMATS = ['csv', 'tsv', 'ndjson', 'json', ...BINARY_FORMATS] as const;

export type FileFormat = (typeof FORMATS)[number];

export interface Format {
  /** `json` is an array, or a sequence of objects that may span several lines. */
  kind: 'delimited' | 'ndjson' | 'json' | (typeof BINARY_FORMATS)[number];
  /** A single character; '' if there is none. */
  delimiter: string;
}

/** Whether records are cells in the order of a header, rather than JSON objects. */
export const hasCells = (kind: Format['kind']): boolean => kind === 'delimited' || kind === 'xlsx';

export interface FormatOptions {
  format?: FileFormat;
  delimiter?: string | undefined;
  quotes: boolean;
  escape?: string | undefined;
}

/** Of any system. */
export const LINE_END = /\r\n?|\n/;

const TAB = '\t';
const DELIMITERS = [',', ';', TAB, '|'];
const LINES = 100;

/** @param isAll whether the head is the whole file, so that its last line is complete */
export async function detectFormat(
  name: string,
  head: string,
  isAll: boolean,
  options: FormatOptions,
): Promise<Format> {
  const kind = options.format ?? (options.delimiter === undefined ? kindOf(name, head) : 'csv');
  if (kind === 'ndjson' || kind === 'json') return { kind, delimiter: '' };
  if (options.delimiter !== undefined) return { kind: 'delimited', delimiter: options.delimiter };
  if (kind === 'tsv') return { kind: 'delimited', delimiter: TAB };
  return { kind: 'delimited', delimiter: await detectDelimiter(head, isAll, options) };
}

function kindOf(name: string, head: string): FileFormat {
  if (/^\s*\[/.test(head) && !/\.[ct]sv$/i.test(name)) return 'json';
  if (/^\s*\{/.test(head) && !/\.[ct]sv$/i.test(name)) return hasLineOfJson(head) ? 'ndjson' : 'json';
  return /\.(tsv|tab)$/i.test(name) ? 'tsv' : 'csv';
}

/** Used for an empty file. */
export const isJsonByName = (name: string, { format }: FormatOptions): boolean =>
  format === undefined ? /\.(?:ndjson|jsonl|json)$/i.test(name) : format === 'ndjson' || format === 'json';

/** A first line that is longer than the head is not pretty-printed; it may hold several objects. */
function hasLineOfJson(head: string): boolean {
  const [first = '', ...others] = head.trimStart().split(LINE_END, 2);
  return others.length > 0 ? isJson(first) : first.slice(endOfValue(first, 0)).trim() === '';
}

/** The delimiter that splits the first lines into equal numbers of fields, and into the most fields. */
async function detectDelimiter(head: string, isAll: boolean, options: FormatOptions): Promise<string> {
  let best = { delimiter: ',', score: 0 };
  for (const delimiter of DELIMITERS) {
    const widths = await widthsOf(head, isAll, delimiter, options);
    const score = Math.max(scoreOf(widths, 0), scoreOf(widths, firstOfTable(widths)));
    if (score > best.score) best = { delimiter, score };
  }
  return best.delimiter;
}

/** @param start the index of the header; each line of titles before it makes the delimiter less likely */
function scoreOf(widths: readonly number[], start: number): number {
  const { fields, alike } = alikeFrom(widths, start);
  return fields < 2 ? 0 : alike * 0.9 ** start * 1_000 + fields;
}

/** The index of the first line with as many fields as most have; 0 if they differ too much to be a table. */
function firstOfTable(widths: readonly number[]): number {
  const counts = new Map<number, number>();
  for (const width of widths) counts.set(width, (counts.get(width) ?? 0) + 1);
  const [most = 0] = [...counts].sort(([, one], [, other]) => other - one)[0] ?? [];
  const start = widths.indexOf(most);
  return alikeFrom(widths, start).alike < 0.8 ? 0 : Math.max(0, start);
}

/** The number of fields in that line, and the share of the lines from there with as many. */
function alikeFrom(widths: readonly number[], start: number): { fields: number; alike: number } {
  const lines = widths.slice(start);
  const [fields = 0] = lines;
  return { fields, alike: lines.filter((width) => width === fields).length / lines.length };
}

/** Another common delimiter, if it splits all of the first lines into equal numbers of fields. */
export async function otherDelimiter(
  head: string,
  isAll: boolean,
  options: FormatOptions,
  than: string,
): Promise<string | undefined> {
  for (const delimiter of DELIMITERS) {
    if (delimiter === than) continue;
    const { fields, alike } = alikeFrom(await widthsOf(head, isAll, delimiter, options), 0);
    if (fields > 1 && alike === 1) return delimiter;
  }
  return undefined;
}

/** The numbers of fields in the first lines. */
async function widthsOf(
  head: string,
  isAll: boolean,
  delimiter: string,
  { quotes: hasQuotes, escape }: FormatOptions,
): Promise<number[]> {
  const csv = { delimiter, hasQuotes, firstLine: 1, escape };
  const widths: number[] = [];
  try {
    for await (const { cells } of csvRecords([head], csv, '')) {
      widths.push(cells.length);
      if (widths.length > LINES) break;
    }
  } catch {
    // The head ends within a quote, or this is not the delimiter; the rows read so far are enough.
  }
  if (!isAll && widths.length > 1) widths.pop();
  return widths;
}

const DELIMITER_NAMES: Readonly<Record<string, string>> = {
  ',': 'commas',
  ';': 'semicolons',
  [TAB]: 'tabs',
  '|': 'bars',
};

/** For messages, such as `text delimited by commas`. */
export function formatName({ kind, delimiter }: Format): string {
  if (kind === 'ndjson') return 'NDJSON';
  if (kind === 'json') return 'JSON';
  if (kind === 'parquet') return 'Parquet';
  if (kind === 'xlsx') return 'an Excel workbook';
  return `text delimited by ${DELIMITER_NAMES[delimiter] ?? JSON.stringify(delimiter)}`;
}
