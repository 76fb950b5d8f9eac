/** The sets of columns that batches of one table give, each with the statements for its rows, which are built once. */
import { POSTGRES_TYPES } from '../../../postgres/catalog/catalog.js';
import { type Fragment, ident, join, literal, sql, statement, trusted } from '../../../postgres/sql.js';
import type { ColumnShape, TableShape } from '../../../postgres/catalog/table-shape.js';

/** How rows are written; `marked`: text in which a mark stands for a column's default, so that each record may leave others out. */
export type CopyFormat = 'binary' | 'text' | 'marked';

/** What the walk writes for a default; in a value a backslash is doubled. */
const DEFAULT_MARK = '\\D';

const OPTIONS: Readonly<Record<CopyFormat, Fragment>> = {
  binary: sql`FORMAT binary`,
  text: sql`FORMAT text`,
  marked: sql`FORMAT text, DEFAULT ${literal(DEFAULT_MARK)}`,
};

/** Two batches have the same columns where they have the same object. */
export interface ColumnSet {
  /** Indices of the table's columns, in the order of the cells of a row. */
  readonly indices: readonly number[];
  /** `COPY … FROM STDIN` in the format of the plan, and what tells a default there. */
  readonly copy: string;
  /**
   * An INSERT of one row, with a parameter for each cell; null where there are none or too many, or rows are lines of text. It names
   * the types: left to Postgres, they would stay what the columns had when a session prepared it.
   */
  readonly insert: string | null;
}

/** Of the statements that are remembered: whoever gives other columns each time has them built each time. */
const MAX_CHARACTERS = 32 * 1024;

/** A session keeps the plans of its INSERTs, some KiB for each cell in Postgres's memory; it has none for COPY. */
const MAX_CELLS = 100;

export class ColumnSets {
  private readonly known = new Map<string, ColumnSet>();
  private characters = 0;
  /** Mostly the next batch gives the same columns. */
  private last: ColumnSet | null = null;

  constructor(
    private readonly table: TableShape,
    private readonly format: CopyFormat,
  ) {}

  of(indices: readonly number[]): ColumnSet {
    if (this.last === null || !isSame(this.last.indices, indices)) this.last = this.find(indices);
    return this.last;
  }

  private find(indices: readonly number[]): ColumnSet {
    const key = indices.join();
    const known = this.known.get(key);
    if (known !== undefined) return known;
    const set = this.build(indices);
    const characters = set.copy.length + (set.insert?.length ?? 0);
    if (this.characters + characters > MAX_CHARACTERS) {
      this.known.clear();
      this.characters = 0;
    }
    this.characters += characters;
    this.known.set(key, set);
    return set;
  }

  private build(indices: readonly number[]): ColumnSet {
    const { schema, name, columns } = this.table;
    const names = join(indices.map((index) => ident(columns[index]?.name ?? '')));
    const into = sql`${ident(schema, name)} (${names})`;
    const copy = statement(sql`COPY ${into} FROM STDIN (${OPTIONS[this.format]})`).text;
    const cells = indices.length;
    if (this.format !== 'binary' || cells === 0 || cells > MAX_CELLS) return { indices, copy, insert: null };
    const places = join(indices.map((index, i) => trusted(`$${i + 1}::${typeOf(columns[index])}`)));
    return { indices, copy, insert: statement(sql`INSERT INTO ${into} VALUES (${places})`).text };
  }
}

/** Of a cell in binary; what has none of the contract's types is an id there. */
const typeOf = (column: ColumnShape | undefined): string =>
  column?.type == null ? 'pg_catalog.uuid' : POSTGRES_TYPES[column.type];

const isSame = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((index, i) => index === b[i]);
