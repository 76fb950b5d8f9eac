/** The formats of streams: how bytes become records. */
import { isUtf8 } from 'node:buffer';
import type { Steps } from '../../../codec/index.js';
import { EngineError } from '../../../contract/errors.js';
import { LIMITS } from '../../../contract/limits.js';
import { quoted } from '../../../contract/message-text.js';
import { type Cell, CsvError, CsvReader } from '../../../import/csv-reader.js';
import { encoderFor, type RecordEncoder } from '../../../import/record-encoder.js';
import type { Table } from '../../catalog/catalog.js';
import { requireColumns } from '../../catalog/find-table.js';
import type { UnknownRule } from '../unknown-fields.js';
import { type Cut, isBlank, type Problem } from './chunk.js';

/** Maximum number of records in a chunk. */
const MAX_RECORDS = 10_000;

/** After so many records, others may have the event loop. */
const RECORDS_IN_STEP = 100;

const LINE_FEED = 0x0a;

export type StreamFormat =
  | { readonly kind: 'ndjson' }
  /** `nulls`: values that also mean NULL. */
  | { readonly kind: 'delimited'; readonly delimiter: string; readonly nulls: readonly string[] };

/** Where a reader of records is, so that another one can go on. */
export interface FormatState {
  /** The 1-based line of the next record. */
  readonly line: number;
  /** The names of the columns; null: they have not been read, or the format has none. */
  readonly header: readonly string[] | null;
}

export interface FormatReader {
  readonly state: FormatState;
  /**
   * Cuts whole records from the beginning of the bytes, at most 10,000.
   * @param isLast nothing follows the bytes
   * @returns `end` is 0 if they hold no whole record
   * @throws EngineError if they cannot be divided into records
   */
  cut(bytes: Buffer, isLast: boolean): Steps<Cut>;
}

/** @throws EngineError unknown_column if the table lacks one of the header */
export const formatReader = (
  format: StreamFormat,
  table: Table,
  state: FormatState,
  unknown: UnknownRule | undefined,
): FormatReader =>
  format.kind === 'ndjson' ? new LineReader(state) : new DelimitedReader(format, table, state, unknown);

class LineReader implements FormatReader {
  state: FormatState;

  constructor(state: FormatState) {
    this.state = state;
  }

  *cut(bytes: Buffer, isLast: boolean): Steps<Cut> {
    const lines: number[] = [];
    const offsets: number[] = [];
    let { line } = this.state;
    let end = 0;
    while (end < bytes.length && lines.length < MAX_RECORDS) {
      const feed = bytes.indexOf(LINE_FEED, end);
      if (feed === -1 && !isLast) break;
      const lineEnd = feed === -1 ? bytes.length : feed;
      if (!isBlank(bytes, end, lineEnd)) {
        lines.push(line);
        offsets.push(end);
      }
      line++;
      end = Math.min(lineEnd + 1, bytes.length);
    }
    this.state = { line, header: null };
    return { end, text: Buffer.from(bytes.subarray(0, end)), lines, offsets, problems: NO_PROBLEMS };
  }
}

const NO_PROBLEMS: ReadonlyMap<number, Problem> = new Map();

/** As `cdp import` reads it, except that columns have exactly the names of the header, and values their own notation. */
class DelimitedReader implements FormatReader {
  private readonly reader: CsvReader;
  private readonly nulls: ReadonlySet<string>;
  private encode: RecordEncoder | null = null;
  private header: readonly string[] | null;

  constructor(
    { delimiter, nulls }: StreamFormat & { kind: 'delimited' },
    private readonly table: Table,
    { line, header }: FormatState,
    private readonly unknown: UnknownRule | undefined,
  ) {
    this.reader = new CsvReader({ delimiter, hasQuotes: true, firstLine: line }, header?.length ?? 0);
    this.nulls = new Set(nulls);
    this.header = header;
    if (header !== null) this.encode = recordEncoder(header, table, unknown);
  }

  get state(): FormatState {
    return { line: this.reader.line, header: this.header };
  }

  *cut(bytes: Buffer, isLast: boolean): Steps<Cut> {
    const lines: number[] = [];
    const offsets: number[] = [];
    const problems = new Map<number, Problem>();
    const texts: string[] = [];
    const { reader } = this;
    // One character for each byte, so that places in the text are offsets.
    const text = bytes.toString('latin1');
    const records = reader.records(text, isLast);
    for (let next = nextOf(records); next !== null; next = lines.length < MAX_RECORDS ? nextOf(records) : null) {
      const { line, cells } = next;
      if (this.encode === null) {
        this.header = headerOf(cells);
        this.encode = recordEncoder(this.header, this.table, this.unknown);
        continue;
      }
      const record = lines.length;
      let invalid: string | undefined;
      // Their values need neither decoding nor a look at each.
      const isPlain = this.nulls.size === 0 && !NOT_ASCII.test(text.slice(reader.start, reader.at));
      const values = isPlain
        ? cells
        : cells.map((cell, i): Cell => {
            const value = decoded(cell);
            if (value === undefined) invalid ??= this.header?.[i] ?? '';
            return value == null || this.nulls.has(value) ? null : value;
          });
      const { json, object = json, problem } = this.encode({ line, cells: values });
      const kept = invalid === undefined ? object : JSON.stringify(cells);
      if (invalid !== undefined) problems.set(record, { kept, detail: notUtf8(invalid) });
      else if (problem !== undefined) problems.set(record, { kept, detail: problem });
      lines.push(line);
      offsets.push(reader.start);
      // A JSON value may be in several lines; the line feeds in it are white space.
      texts.push(problems.has(record) ? '{}' : inOneLine(json));
      if (record % RECORDS_IN_STEP === 0) yield;
    }
    if (isLast && this.header === null) {
      throw new EngineError('invalid_request', 'The body has no header line', {
        hint: 'The first line names the columns.',
      });
    }
    return { end: reader.at, text: Buffer.from(texts.join('\n')), lines, offsets, problems };
  }
}

const NOT_ASCII = /[\x80-\xff]/;

const inOneLine = (json: string): string =>
  json.includes('\n') || json.includes('\r') ? json.replaceAll(/[\n\r]/g, ' ') : json;

function nextOf<T>(records: Generator<T, void>): T | null {
  try {
    const { value, done } = records.next();
    return done ? null : value;
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    const { complaint, line } = error;
    throw new EngineError('invalid_request', `Line ${line}: ${complaint}`, {
      errors: [{ line, error: 'invalid_request', message: `Line ${line}: ${complaint}` }],
      hint: 'A quote within quotes is doubled. If the delimiter is not a comma, name it: ?delimiter=',
    });
  }
}

/** undefined: the bytes are not UTF-8. */
function decoded(cell: Cell): Cell | undefined {
  if (cell === null || !NOT_ASCII.test(cell)) return cell;
  const bytes = Buffer.from(cell, 'latin1');
  return isUtf8(bytes) ? bytes.toString() : undefined;
}

const notUtf8 = (column: string) =>
  ({
    error: 'invalid_value',
    column,
    message: `Column ${quoted(column)} is not valid UTF-8`,
  }) as const;

/** @throws EngineError invalid_request */
function headerOf(cells: readonly Cell[]): string[] {
  const names = cells.map((cell) => (decoded(cell) ?? cell ?? '').trim());
  // A delimiter at the end of a line adds no value.
  while (names.at(-1) === '') names.pop();
  // Before they are compared with each other.
  if (names.length > LIMITS.keysPerRecord) {
    const message = `The header line names ${names.length} columns, and a table has at most ${LIMITS.keysPerRecord}`;
    throw new EngineError('invalid_request', message);
  }
  const wrong = names.find((name, i) => name === '' || names.indexOf(name) !== i);
  if (names.length === 0) throw new EngineError('invalid_request', 'The header line names no columns');
  if (wrong === undefined) return names;
  throw new EngineError(
    'invalid_request',
    wrong === ''
      ? 'The header line has a column without a name'
      : `The header line has the column ${quoted(wrong)} twice`,
  );
}

/** A field that is no column is text. */
function recordEncoder(header: readonly string[], table: Table, unknown: UnknownRule | undefined): RecordEncoder {
  if (unknown === undefined) requireColumns(table, header, 'The header line');
  const types = new Map(table.columns.map(({ name, displayType, isId }) => [name, isId ? 'uuid' : displayType]));
  const mappings = header.map((name) => {
    const type = types.get(name);
    const column = type === undefined && unknown === 'ignore' ? null : name;
    return { field: name, column, type: type ?? 'TEXT' };
  });
  return encoderFor('delimited', mappings, { decimal: '.' });
}
