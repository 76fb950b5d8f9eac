/** A file as records of one kind, whatever its format: what it is, a sample of it, and all of it. */
import { readJson, type JsonMember } from '../../engine/json.js';
import { UsageError } from '../remote/outcome.js';
import { type Cell, csvRecords } from './csv.js';
import { detectFormat, type FileFormat, type Format } from './format.js';
import { ColumnGuess } from './guess.js';
import { type Input, openInput, peek } from './input.js';
import { jsonArray, jsonLines } from './json-records.js';

/** Delimited text has cells in the order of the heads; JSON the text of an object. */
export interface FileRecord {
  readonly line: number;
  readonly cells?: readonly Cell[];
  readonly text?: string;
}

export interface SourceOptions {
  format?: FileFormat;
  delimiter?: string;
  encoding: string;
  /** Names, where the file has no head. */
  columns?: readonly string[];
  /** Also stands for NULL. */
  null?: string;
  /** Records to look at. */
  sample: number;
}

export interface Field {
  readonly head: string;
  readonly guess: ColumnGuess;
}

export interface Source {
  readonly input: Input;
  readonly format: Format;
  /** As far as the sample shows them; of delimited text all. */
  readonly fields: readonly Field[];
  readonly sample: readonly FileRecord[];
  readonly records: AsyncGenerator<FileRecord, void>;
}

const HEAD_CHARACTERS = 64 * 1024;
/** A sample is held in memory. */
const SAMPLE_CHARACTERS = 16 * 1024 * 1024;

/** @throws UsageError where the file cannot be what it was taken for */
export async function openSource(path: string, options: SourceOptions): Promise<Source> {
  const input = await openInput(path, options.encoding);
  const { head, isAll, whole } = await peek(input.text, HEAD_CHARACTERS);
  const format = await detectFormat(input.name, head, isAll, options);
  const text = withoutMark(whole);
  if (format.kind !== 'delimited') {
    const records = format.kind === 'json' ? jsonArray(text, path) : jsonLines(text, path);
    return sampled(input, format, records, options, new Map());
  }
  const rows = csvRecords(text, format.delimiter, path);
  let heads = options.columns;
  if (heads === undefined) {
    const first = await rows.next();
    if (first.done) throw new UsageError(`${path} is empty`);
    heads = first.value.cells.map((cell) => (cell ?? '').trim());
  }
  const fields = heads.map((name) => ({ head: name, guess: new ColumnGuess() }));
  return sampled(input, format, nulled(rows, options.null), options, fields);
}

/** The byte order mark, which some programs put before UTF-8. */
async function* withoutMark(text: AsyncIterable<string>): AsyncGenerator<string, void> {
  let isFirst = true;
  for await (const piece of text) {
    yield isFirst && piece.startsWith('\uFEFF') ? piece.slice(1) : piece;
    isFirst &&= piece === '';
  }
}

async function* nulled(rows: AsyncIterable<FileRecord>, mark: string | undefined): AsyncGenerator<FileRecord, void> {
  for await (const { line, cells = [] } of rows) {
    yield { line, cells: mark === undefined ? cells : cells.map((cell) => (cell === mark ? null : cell)) };
  }
}

/** Takes the sample off the records, guesses from it, and puts it back. */
async function sampled(
  input: Input,
  format: Format,
  records: AsyncGenerator<FileRecord, void>,
  options: SourceOptions,
  known: readonly Field[] | Map<string, Field>,
): Promise<Source> {
  const sample: FileRecord[] = [];
  let characters = 0;
  while (sample.length < options.sample && characters < SAMPLE_CHARACTERS) {
    const { value, done } = await records.next();
    if (done) break;
    sample.push(value);
    if (known instanceof Map) observe(value, known);
    else value.cells?.forEach((cell, i) => (cell === null ? undefined : known[i]?.guess.addText(cell)));
    characters += value.text?.length ?? value.cells?.reduce((sum, cell) => sum + (cell?.length ?? 0), 0) ?? 0;
  }
  const all = async function* () {
    yield* sample.splice(0);
    yield* records;
  };
  const fields = known instanceof Map ? [...known.values()] : known;
  return { input, format, fields, sample: sample.slice(0, 3), records: all() };
}

function observe({ text = '' }: FileRecord, fields: Map<string, Field>): void {
  for (const [head, node] of membersOf(text) ?? []) {
    let field = fields.get(head);
    if (field === undefined) fields.set(head, (field = { head, guess: new ColumnGuess() }));
    field.guess.addJson(node);
  }
}

/** The members of an object, values with all their digits; undefined where the text is not a JSON object. */
export function membersOf(text: string): readonly JsonMember[] | undefined {
  try {
    const { root } = readJson(Buffer.from(text));
    return root.kind === 'object' ? root.members : undefined;
  } catch {
    return undefined;
  }
}
