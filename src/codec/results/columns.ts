/** The columns of a result: what they are called in an answer, and of which type. */
import { builtInTypeName, columnTypeOf } from './types.js';

/** One field of RowDescription (Postgres manual 54.7). */
export interface ResultColumn {
  readonly name: string;
  readonly typeOid: number;
  /** -1 if the type has no modifier. */
  readonly typeModifier: number;
}

interface ColumnDescription {
  /** Under which the values stand in the rows. */
  readonly name: string;
  /**
   * What an answer calls the type: one of the six names of the API, else Postgres's own name. undefined if only
   * `pg_catalog.format_type(typeOid, typeModifier)` can tell: a type that is not built in, or one with a modifier.
   */
  readonly type: string | undefined;
}

/** @param exactly false: a type is shown without its modifier, and as null if it is not built in, so that nobody has to ask Postgres */
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
 * Of columns with one name the first keeps it, the next become `id_2`, `id_3`, …, past those that are the name of another
 * column already.
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

function typeName({ typeOid, typeModifier }: ResultColumn): string | undefined {
  return columnTypeOf(typeOid) ?? (typeModifier === -1 ? builtInTypeName(typeOid) : undefined);
}
