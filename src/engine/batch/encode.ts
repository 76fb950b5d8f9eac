/**
 * The second stage of a batch: records and the table's columns in; a verdict on every cell, or statements, out.
 *
 * This is the reference: each step is the obvious one. Whatever is built for speed must give the same verdict and store
 * the same values, and may leave the naming of what is wrong to this code.
 */
import { EngineError } from '../../contract/errors.js';
import type { Statement } from '../../postgres/sql.js';
import type { ColumnShape, TableShape } from '../../postgres/catalog/table-shape.js';
import { Faults } from '../faults.js';
import type { JsonObject } from '../json/nodes.js';
import { cut, quoted } from '../message-text.js';
import { nearName } from '../near-name.js';
import { readCell } from './cell.js';
import { insertStatement, type Row } from './insert.js';
import type { ParsedBatch } from './parse.js';
import { Refusal } from './refusal.js';

/** One INSERT and the indices of the records it stores, in the order of its rows. */
export interface BatchInsert {
  readonly statement: Statement;
  readonly records: readonly number[];
}

/**
 * Normally one INSERT; several, to run in one transaction, where records differ in which columns with a default they
 * leave out. With `returnIds` each returns the column `id`, in the order of its `records`.
 * @throws EngineError `invalid_request`, `invalid_json`, `unknown_column` or `invalid_value`, naming every bad record and
 *   cell of the batch; `invalid_request` where ids are asked of a table that has none.
 */
export function encodeBatch(batch: ParsedBatch, table: TableShape, options: { returnIds: boolean }): BatchInsert[] {
  if (options.returnIds && !table.columns.some(({ name }) => name === 'id')) {
    throw new EngineError('invalid_request', `Table ${quoted(table.name)} has no column "id" to return`);
  }
  const rows = encodeRows(batch.records, table, batch.faults);
  return groupsByDefaults(rows, table.columns).map((records) => ({
    statement: insertStatement(
      table,
      records.map((record) => rows[record] as Row),
      options.returnIds,
    ),
    records,
  }));
}

/** One record alone, to find out which one it is that Postgres refuses. */
export function encodeRecord(batch: ParsedBatch, table: TableShape, record: number): Statement {
  const rows = encodeRows(batch.records.slice(record, record + 1), table, new Faults());
  return insertStatement(table, rows, false);
}

/** @param faults what is known to be wrong, to which it adds */
function encodeRows(records: readonly JsonObject[], table: TableShape, faults: Faults): Row[] {
  const indexByName = new Map(table.columns.map(({ name }, index) => [name, index]));
  const rows = records.map((object, record) => {
    const row = new Array<string | null | undefined>(table.columns.length);
    for (const [key, value] of object.members) {
      const index = indexByName.get(key);
      if (index === undefined) {
        faults.add('unknown_column', () => unknownColumn(record, key, table));
        continue;
      }
      const cell = readCell(table.columns[index] as ColumnShape, value);
      if (cell instanceof Refusal) faults.add('invalid_value', () => invalidValue(record, key, cell));
      else row[index] = cell;
    }
    return row;
  });
  faults.refuse();
  return rows;
}

/** Indices of records that leave out the same columns with a default; the groups in the order of their first record. */
function groupsByDefaults(rows: readonly Row[], columns: readonly ColumnShape[]): number[][] {
  const defaulted = [...columns.keys()].filter((index) => columns[index]?.hasDefault);
  const groups = new Map<string, number[]>();
  for (const [record, row] of rows.entries()) {
    const given = defaulted.filter((index) => row[index] !== undefined).join();
    const group = groups.get(given);
    if (group === undefined) groups.set(given, [record]);
    else group.push(record);
  }
  return [...groups.values()];
}

function unknownColumn(record: number, key: string, table: TableShape) {
  const near = nearName(
    key,
    table.columns.map(({ name }) => name),
  );
  const message = `Record ${record}: table ${quoted(table.name)} has no column ${quoted(key)}`;
  if (near === undefined) return { record, column: cut(key), message };
  const hint = `Did you mean ${quoted(near)}?`;
  return { record, column: cut(key), message: `${message}. ${hint}`, hint };
}

function invalidValue(record: number, column: string, { reason, hint }: Refusal) {
  const message = `Record ${record}, column ${quoted(column)}: ${reason}`;
  return { record, column, message, ...(hint !== undefined && { hint }) };
}
