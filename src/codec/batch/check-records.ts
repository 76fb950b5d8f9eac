/**
 * The checked path of a batch. It takes records and the table's columns, and returns rows or reports every bad cell.
 *
 * This is the reference, so each step is the obvious one. The {@link BatchEncoder}, which is fast, must accept and
 * store the same values; it leaves error messages to this code.
 */
import { didYouMean } from '../../contract/did-you-mean.js';
import { cut, quoted } from '../../contract/message-text.js';
import { readCell } from './cell.js';
import { CellError } from './cell-error.js';
import type { BatchColumn } from './column.js';
import type { Records } from './read-records.js';

/** A record's cells in Postgres's text format, by the index of their column; undefined if the record lacks the key. */
export type Row = readonly (string | null | undefined)[];

interface Table {
  readonly name: string;
  readonly columns: readonly BatchColumn[];
}

/**
 * @param throws false: errors stay in those of the batch, so that more can be added
 * @throws EngineError `invalid_request`, `invalid_json`, `unknown_column` or `invalid_value`, naming every bad record
 * and cell of the batch
 */
export function checkRecords({ records, errors, errorsOf }: Records, table: Table, throws = true): Row[] {
  const indexByName = new Map(table.columns.map(({ name }, index) => [name, index]));
  const rows = records.map((object, record) => {
    const own = errorsOf(record);
    const row = new Array<string | null | undefined>(table.columns.length);
    for (const [key, value] of object.members) {
      const index = indexByName.get(key);
      if (index === undefined) {
        own.add('unknown_column', () => unknownColumn(record, key, table));
        continue;
      }
      const cell = readCell(table.columns[index] as BatchColumn, value);
      if (cell instanceof CellError) own.add('invalid_value', () => invalidValue(record, key, cell));
      else row[index] = cell;
    }
    return row;
  });
  if (throws) errors.throwIfAny();
  return rows;
}

function unknownColumn(record: number, key: string, table: Table) {
  const hint = didYouMean(
    key,
    table.columns.map(({ name }) => name),
  );
  const message = `Record ${record}: table ${quoted(table.name)} has no column ${quoted(key)}`;
  if (hint === undefined) return { record, column: cut(key), message };
  return { record, column: cut(key), message: `${message}. ${hint}`, hint };
}

function invalidValue(record: number, column: string, { reason, hint }: CellError) {
  const message = `Record ${record}, column ${quoted(column)}: ${reason}`;
  return { record, column, message, ...(hint !== undefined && { hint }) };
}
