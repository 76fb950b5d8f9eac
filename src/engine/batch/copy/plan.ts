/** What the fast path needs to know of a table, prepared once for each shape of it. */
import type { ColumnShape, TableShape } from '../../../postgres/catalog/table-shape.js';
import { BINARY_HEADER, BINARY_TRAILER, type RowsIn } from '../../../postgres/wire/rows-in.js';
import * as kinds from './assembly/kinds.js';
import { type ColumnSet, ColumnSets, type CopyFormat } from './column-sets.js';

export interface CopyPlan {
  readonly table: TableShape;
  /** Binary where every column has a binary form that is known here, else text. */
  readonly format: CopyFormat;
  /** What its batches give. */
  readonly sets: ColumnSets;
  /** The table as the walk reads it (`assembly/table.ts`). */
  readonly forWalk: Uint8Array;
  /** For what this one cannot say, in text, with marks; null where Postgres does not know these. */
  readonly wider: CopyPlan | null;
}

/** null where COPY cannot do what an INSERT does. */
export function copyPlan(table: TableShape): CopyPlan | null {
  if (table.needsInsert) return null;
  const names = table.columns.map(({ name }) => name);
  // A name that JSON cannot write without an escape is found by its decoded form alone, which only the reference knows.
  if (names.some((name) => JSON.stringify(name).includes('\\'))) return null;
  const format = table.columns.every(({ type, isId }) => isId || type !== null) ? 'binary' : 'text';
  return planIn(format, table, table.marksDefaults ? planIn('marked', table, null) : null);
}

const planIn = (format: CopyFormat, table: TableShape, wider: CopyPlan | null): CopyPlan => ({
  table,
  format,
  sets: new ColumnSets(table, format),
  forWalk: forWalk(table, format),
  wider,
});

/** Rows as the walk writes them. */
interface Rows {
  readonly records: number;
  readonly plan: CopyPlan;
  readonly columns: ColumnSet;
  readonly data: Uint8Array;
}

/**
 * How rows go to Postgres: one alone by an INSERT, whose parameters are the cells as COPY has them; more by COPY, with
 * what the format puts around them.
 * @param batches of the same columns, one at least
 */
export function rowsIn(batches: readonly Rows[]): RowsIn {
  const [{ plan, columns, records, data }] = batches as readonly [Rows];
  if (batches.length === 1 && records === 1 && columns.insert !== null) {
    return { insert: columns.insert, row: data };
  }
  const rows = batches.map((batch) => batch.data);
  return { copy: columns.copy, data: plan.format === 'binary' ? [BINARY_HEADER, ...rows, BINARY_TRAILER] : rows };
}

function forWalk({ columns }: TableShape, format: CopyFormat): Uint8Array {
  const spellings = columns.flatMap(({ name, isGeneratedAlways }, column) =>
    // A record that gives such a column is for the INSERT, which refuses it.
    isGeneratedAlways ? [] : spellingsOf(name).map((bytes) => ({ column, bytes })),
  );
  return Buffer.concat([
    words(Number(format !== 'binary'), Number(format === 'marked'), columns.length, spellings.length),
    ...columns.map((column) => words(kindOf(column), Number(column.hasDefault))),
    ...spellings.flatMap(({ column, bytes }) => [words(column, bytes.length), bytes]),
  ]);
}

const words = (...values: number[]): Uint8Array => new Uint8Array(Uint32Array.from(values).buffer);

function kindOf({ type, isId, isJson, isArray }: ColumnShape): number {
  if (isId) return kinds.ID;
  if (type !== null) return kinds[type];
  if (isJson) return kinds.JSON_TEXT;
  return isArray ? kinds.ARRAY : kinds.OTHER;
}

/** As it is, and, where it is not all ASCII, with escapes as writers of ASCII alone spell them, in small or capital digits. */
function spellingsOf(name: string): Buffer[] {
  const plain = JSON.stringify(name);
  const escaped = (spell: (digits: string) => string) =>
    plain.replace(/[^\0-\x7f]/g, (unit) => `\\u${spell(unit.charCodeAt(0).toString(16).padStart(4, '0'))}`);
  const spellings = [plain, escaped((digits) => digits), escaped((digits) => digits.toUpperCase())];
  return [...new Set(spellings)].map((text) => Buffer.from(text));
}
