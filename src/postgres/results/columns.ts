/** The columns of a result: what they are called in an answer, and of which type. */
import { builtInTypeName, columnTypeOf } from './types.js';

/** One field of RowDescription (Postgres manual 54.7). */
export interface ResultColumn {
  readonly name: string;
  readonly typeOid: number;
  /** -1 where the type has no modifier. */
  readonly typeModifier: number;
}

/**
 * The names under which the values stand in an answer. Of columns with one name the first keeps it, the next become
 * `id_2`, `id_3`, …, past those that are the name of another column already.
 */
export function outputNames(columns: readonly ResultColumn[]): string[] {
  const taken = new Set(columns.map((column) => column.name));
  const timesSeen = new Map<string, number>();
  return columns.map(({ name }) => {
    let times = (timesSeen.get(name) ?? 0) + 1;
    let output = name;
    if (times > 1) {
      while (taken.has(`${name}_${times}`)) times++;
      output = `${name}_${times}`;
      taken.add(output);
    }
    timesSeen.set(name, times);
    return output;
  });
}

/**
 * What an answer calls the column's type: one of the six names of the API, else Postgres's own name. undefined where
 * only `pg_catalog.format_type(typeOid, typeModifier)` can tell: a type that is not built in, or one with a modifier.
 */
export function typeName(column: ResultColumn): string | undefined {
  const apiType = columnTypeOf(column.typeOid);
  if (apiType !== undefined) return apiType;
  return column.typeModifier === -1 ? builtInTypeName(column.typeOid) : undefined;
}
