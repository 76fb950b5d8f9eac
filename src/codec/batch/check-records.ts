/**
 * The checked path of a batch. It takes records and the table's columns, and returns rows or reports every bad cell.
 *
 * This is the reference, so each step is the obvious one. The encoder of `batch-encoder.ts`, which is fast, must accept and
 * store the same values; it leaves error messages to this code.
 */
import { suggester, suggesting } from '../../contract/did-you-mean.js';
import { cut, quoted } from '../../contract/message-text.js';
import type { Steps } from '../json/read-json.js';
import { readCell } from './cell.js';
import { type Cell, CellError } from './cell-error.js';
import { type JsonMember, type JsonNode, jsonText, memberOf } from '../json/nodes.js';
import type { BatchColumn } from './table-layout.js';
import type { RecordBatch } from './read-records.js';

/** A record's cells in Postgres's text format, by the index of their column; undefined if the record lacks the key. */
export type RecordCells = readonly (string | null | undefined)[];

interface Table {
  readonly name: string;
  readonly columns: readonly BatchColumn[];
}

/** What becomes of keys that are no columns: `into` is the index of a JSONB column that collects them. */
export type UnknownKeys = 'refuse' | 'ignore' | { readonly into: number };

interface CheckOptions {
  /** false: errors stay in those of the batch, so that more can be added. */
  readonly throws?: boolean;
  readonly unknown?: UnknownKeys;
}

/**
 * @throws EngineError `invalid_request`, `invalid_json`, `unknown_column` or `invalid_value`, naming every bad record
 * and cell of the batch
 */
export function* checkRecords(
  { records, errors, errorsOf }: RecordBatch,
  table: Table,
  { throws = true, unknown = 'refuse' }: CheckOptions = {},
): Steps<RecordCells[]> {
  const indexByName = new Map(table.columns.map(({ name }, index) => [name, index]));
  const suggestion = suggester(indexByName.keys());
  const rows: RecordCells[] = [];
  for (const [record, object] of records.entries()) {
    const own = errorsOf(record);
    const row = new Array<string | null | undefined>(table.columns.length);
    const others: JsonMember[] = [];
    for (const [key, value] of object.members) {
      const index = indexByName.get(key);
      if (index === undefined) {
        if (unknown === 'refuse')
          own.add('unknown_column', () => unknownColumn(record, key, table.name, suggestion(key)));
        else if (unknown !== 'ignore') others.push([key, value]);
        continue;
      }
      const cell = readCell(table.columns[index] as BatchColumn, value);
      if (cell instanceof CellError) own.add('invalid_value', () => invalidValue(record, key, cell));
      else row[index] = cell;
    }
    if (others.length > 0 && typeof unknown === 'object') {
      const column = table.columns[unknown.into] as BatchColumn;
      const cell = collected(column, memberOf(object, column.name), others);
      if (cell instanceof CellError) own.add('invalid_value', () => invalidValue(record, column.name, cell));
      else row[unknown.into] = cell;
    }
    rows.push(row);
    yield;
  }
  if (throws) errors.throwIfAny();
  return rows;
}

/** The record's own object with the other members, of which it keeps its own; jsonb takes the last of two. */
function collected(column: BatchColumn, own: JsonNode | undefined, others: readonly JsonMember[]): Cell {
  if (own !== undefined && own.kind !== 'null' && own.kind !== 'object') {
    return new CellError(
      'it collects the fields that are no columns, and the record has another value for it',
      'Send an object, or leave the column out.',
    );
  }
  const members = others.map(([key, value]) => `${JSON.stringify(key)}:${jsonText(value)}`);
  const inner = own?.kind === 'object' ? own.text.trim().slice(1, -1).trim() : '';
  return readCell(column, {
    kind: 'object',
    members: [],
    text: `{${[...members, ...(inner === '' ? [] : [inner])].join(',')}}`,
  });
}

function unknownColumn(record: number, key: string, table: string, hint: string | undefined) {
  const message = `Record ${record}: table ${quoted(table)} has no column ${quoted(key)}`;
  return { record, column: cut(key), ...suggesting(message, hint) };
}

function invalidValue(record: number, column: string, { reason, hint }: CellError) {
  const message = `Record ${record}, column ${quoted(column)}: ${reason}`;
  return { record, column, message, ...(hint !== undefined && { hint }) };
}
