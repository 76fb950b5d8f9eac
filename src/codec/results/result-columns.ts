/** The columns of a result: their names and types in a response, and the forms of its rows. */
import { columnTypeOf } from '../../contract/column-types.js';
import { builtInTypeName } from './types.js';

/** One field of RowDescription (Postgres manual, Message Formats). */
export interface ResultColumn {
  readonly name: string;
  readonly typeOid: number;
  /** -1 if the type has no modifier. */
  readonly typeModifier: number;
}

/** The form of a row in JSON: `object` is `{"a":1,"b":null}`, `array` is `[1,null]`. */
export type RowMode = 'object' | 'array';

/**
 * The output: members of a JSON list, each preceded by a comma; lines of NDJSON; or records of CSV, which is RFC 4180
 * with the choices of Postgres's COPY (manual, COPY, "CSV Format"): records end with a line feed, a field is quoted
 * only if necessary, an empty field is NULL and `""` is the empty string.
 */
export type RowFormat = 'list' | 'lines' | 'csv';

interface ColumnDescription {
  /** The key of the values in the rows. */
  readonly name: string;
  /**
   * The name of the type in a response: one of the API's six names, otherwise Postgres's own name. undefined if only
   * `pg_catalog.format_type(typeOid, typeModifier)` can tell: a type that is not built in, or has a modifier.
   */
  readonly type: string | undefined;
}

/** @param exactly false: types lack their modifiers, and are null if not built in, which saves a query */
export function describeColumns(columns: readonly ResultColumn[]): ColumnDescription[];
export function describeColumns(
  columns: readonly ResultColumn[],
  exactly: false,
): { name: string; type: string | null }[];
export function describeColumns(columns: readonly ResultColumn[], exactly = true) {
  const names = outputNames(columns);
  return columns.map((column, i) => ({
    name: names[i] as string,
    type: exactly ? typeName(column) : (typeName({ ...column, typeModifier: -1 }) ?? null),
  }));
}

/**
 * The first column with a name keeps it. The next ones become `id_2`, `id_3`, …, skipping the names of other columns.
 */
export function outputNames(columns: readonly ResultColumn[]): string[] {
  const usedNames = new Set(columns.map((column) => column.name));
  const timesSeen = new Map<string, number>();
  return columns.map(({ name }) => {
    let times = (timesSeen.get(name) ?? 0) + 1;
    let output = name;
    if (times > 1) {
      while (usedNames.has(`${name}_${times}`)) times++;
      output = `${name}_${times}`;
      usedNames.add(output);
    }
    timesSeen.set(name, times);
    return output;
  });
}

function typeName({ typeOid, typeModifier }: ResultColumn): string | undefined {
  return columnTypeOf(typeOid) ?? (typeModifier === -1 ? builtInTypeName(typeOid) : undefined);
}
