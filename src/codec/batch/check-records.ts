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
import { CellError } from './cell-error.js';
import type { BatchColumn } from './table-layout.js';
import type { RecordBatch } from './read-records.js';

/** A record's cells in Postgres's text format, by the index of their column; undefined if the record lacks the key. */
export type RecordCells = readonly (string | null | undefined)[];

interface Table {
  readonly name: string;
  readonly columns: readonly BatchColumn[];
}

/**
 * @param throws false: errors stay in those of the batch, so that more can be added
 * @throws EngineError `invalid_request`, `invalid_json`, `unknown_column` or `invalid_value`, naming every bad record
 * and cell of the batch
 */
export function* checkRecords(
  { records, errors, errorsOf }: RecordBatch,
  table: Table,
  throws = true,
): Steps<RecordCells[]> {
  const indexByName = new Map(table.columns.map(({ name }, index) => [name, index]));
  const suggestion = suggester(indexByName.keys());
  const rows: RecordCells[] = [];
  for (const [record, object] of records.entries()) {
    const own = errorsOf(record);
    const row = new Array<string | null | undefined>(table.columns.length);
    for (const [key, value] of object.members) {
      const index = indexByName.get(key);
      if (index === undefined) {
        own.add('unknown_column', () => unknownColumn(record, key, table.name, suggestion(key)));
        continue;
      }
      const cell = readCell(table.columns[index] as BatchColumn, value);
      if (cell instanceof CellError) own.add('invalid_value', () => invalidValue(record, key, cell));
      else row[index] = cell;
    }
    rows.push(row);
    yield;
  }
  if (throws) errors.throwIfAny();
  return rows;
}

function unknownColumn(record: number, key: string, table: string, hint: string | undefined) {
  const message = `Record ${record}: table ${quoted(table)} has no column ${quoted(key)}`;
  return { record, column: cut(key), ...suggesting(message, hint) };
}

function invalidValue(record: number, column: string, { reason, hint }: CellError) {
  const message = `Record ${record}, column ${quoted(column)}: ${reason}`;
  return { record, column, message, ...(hint !== undefined && { hint }) };
}
