/** What the fast path needs to know of a table, prepared once for each shape of it. */
import type { ColumnShape, TableShape } from '../../../postgres/table-shape.js';
import { ident, join, sql, statement, trusted } from '../../../postgres/sql.js';
import * as kinds from './assembly/kinds.js';

export interface CopyPlan {
  readonly table: TableShape;
  /** Binary where every column has a binary form that is known here. */
  readonly format: 'binary' | 'text';
  /** The table as the walk reads it (`assembly/table.ts`). */
  readonly forWalk: Uint8Array;
}

/** Before the first row in binary: signature, flags, length of an extension that is not there. */
const BINARY_HEADER = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
/** Behind the last row. */
const BINARY_TRAILER = Buffer.from([0xff, 0xff]);

/** null where COPY cannot do what an INSERT does: project code, views, row level security (Postgres manual, COPY). */
export function copyPlan(table: TableShape): CopyPlan | null {
  if (table.runsProjectCode) return null;
  const names = table.columns.map(({ name }) => name);
  // A name that JSON cannot write without an escape is found by its decoded form alone, which only the reference knows.
  if (names.some((name) => JSON.stringify(name).includes('\\'))) return null;
  const format = table.columns.every(({ type, isId }) => isId || type !== null) ? 'binary' : 'text';
  return { table, format, forWalk: forWalk(table, format) };
}

/** `COPY … FROM STDIN` for the columns of these indices, in their order. */
export function copyStatement({ table, format }: CopyPlan, indices: readonly number[]): string {
  const names = indices.map((index) => ident(table.columns[index]?.name ?? ''));
  return statement(sql`COPY ${ident(table.schema, table.name)} (${join(names)}) FROM STDIN (FORMAT ${trusted(format)})`)
    .text;
}

/** What {@link copyStatement} is sent: the rows of several batches, with what the format puts around them. */
export function copyData({ format }: CopyPlan, batches: readonly { readonly data: Uint8Array }[]): Uint8Array[] {
  const rows = batches.map(({ data }) => data);
  return format === 'binary' ? [BINARY_HEADER, ...rows, BINARY_TRAILER] : rows;
}

function forWalk({ columns }: TableShape, format: CopyPlan['format']): Uint8Array {
  const spellings = columns.flatMap(({ name, isGeneratedAlways }, column) =>
    // A record that gives such a column is for the INSERT, which refuses it.
    isGeneratedAlways ? [] : spellingsOf(name).map((bytes) => ({ column, bytes })),
  );
  return Buffer.concat([
    words(Number(format === 'text'), columns.length, spellings.length),
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
