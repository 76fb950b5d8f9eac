/**
 * Reads types that NDJSON declares in its first line, in the format of an export with types and of the API with
 * `columns`.
 */
import { COLUMN_TYPES, type ColumnType } from '../contract/column-types.js';
import { isJson } from './json-records.js';

/** `{"columns":[{"name":"n","type":"INTEGER"}]}`; any other line that begins like this is a record. */
const DECLARATION = /^\s*(\{"columns":\[\{"name":".*)/;

/**
 * @param head the beginning of the file, or all of it
 * @returns undefined if the first line is a record; in the map, undefined for a type that is not one of the API's,
 * which the values then determine
 */
export function typesInFirstLine(head: string): ReadonlyMap<string, ColumnType | undefined> | undefined {
  const line = DECLARATION.exec(head)?.[1] ?? '';
  if (!isJson(line)) return undefined;
  const { columns, ...others } = JSON.parse(line) as { columns: object[] };
  if (Object.keys(others).length > 0 || !columns.every(isColumn)) return undefined;
  return new Map(columns.map(({ name, type }) => [name, COLUMN_TYPES.find((known) => known === type)]));
}

const isColumn = (column: object): column is { name: string; type: string | null } =>
  Object.keys(column).join() === 'name,type' && typeof (column as { name: unknown }).name === 'string';
