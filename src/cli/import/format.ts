/** What kind of file it is: by its content as far as that tells, else by its name. */
import { isJson } from './cell-values.js';
import { type Cell, csvRecords } from './csv.js';

export const FORMATS = ['csv', 'tsv', 'ndjson', 'json'] as const;

export type FileFormat = (typeof FORMATS)[number];

export interface Format {
  /** `json`: an array, or objects of any number of lines. */
  kind: 'delimited' | 'ndjson' | 'json';
  /** Of delimited text, one character. */
  delimiter: string;
}

export interface ToldFormat {
  format?: FileFormat;
  delimiter?: string;
  hasQuotes: boolean;
  escape?: string;
}

type Quoting = Pick<ToldFormat, 'hasQuotes' | 'escape'>;

const TAB = '\t';
const DELIMITERS = [',', ';', TAB, '|'];
const LINES = 100;

/** @param isAll whether the head is the whole file, so that its last line is a whole one */
export async function detectFormat(name: string, head: string, isAll: boolean, told: ToldFormat): Promise<Format> {
  const kind = told.format ?? (told.delimiter === undefined ? kindOf(name, head) : 'csv');
  if (kind === 'ndjson' || kind === 'json') return { kind, delimiter: '' };
  if (told.delimiter !== undefined) return { kind: 'delimited', delimiter: told.delimiter };
  if (kind === 'tsv') return { kind: 'delimited', delimiter: TAB };
  return { kind: 'delimited', delimiter: await likeliestDelimiter(head, isAll, told) };
}

function kindOf(name: string, head: string): FileFormat {
  if (/^\s*\[/.test(head) && !/\.[ct]sv$/i.test(name)) return 'json';
  if (/^\s*\{/.test(head) && !/\.[ct]sv$/i.test(name)) return hasLineOfJson(head) ? 'ndjson' : 'json';
  return /\.(tsv|tab)$/i.test(name) ? 'tsv' : 'csv';
}

/** What a file is that has no content to tell. */
export const isJsonByName = (name: string, { format }: ToldFormat): boolean =>
  format === undefined ? /\.(?:ndjson|jsonl|json)$/i.test(name) : format === 'ndjson' || format === 'json';

/** A first line that is longer than the head is not pretty-printed either. */
function hasLineOfJson(head: string): boolean {
  const [first = '', ...others] = head.trimStart().split('\n', 2);
  return others.length === 0 || isJson(first);
}

/** The one that cuts the first lines into the most fields, all into the same number of them. */
async function likeliestDelimiter(head: string, isAll: boolean, quoting: Quoting): Promise<string> {
  let best = { delimiter: ',', score: 0 };
  for (const delimiter of DELIMITERS) {
    const rows = await firstRows(head, delimiter, quoting);
    if (!isAll && rows.length > 1) rows.pop();
    const fields = rows[0]?.length ?? 0;
    const alike = rows.filter((row) => row.length === fields).length / rows.length;
    const score = fields < 2 ? 0 : alike * 1_000 + fields;
    if (score > best.score) best = { delimiter, score };
  }
  return best.delimiter;
}

async function firstRows(head: string, delimiter: string, quoting: Quoting): Promise<(readonly Cell[])[]> {
  const { hasQuotes, escape } = quoting;
  const csv = { delimiter, hasQuotes, firstLine: 1, ...(escape === undefined ? {} : { escape }) };
  const rows: (readonly Cell[])[] = [];
  try {
    for await (const { cells } of csvRecords([head], csv, '')) {
      rows.push(cells);
      if (rows.length > LINES) break;
    }
  } catch {
    // The head ends within a quote, or this is not the delimiter: what was read so far tells.
  }
  return rows;
}
