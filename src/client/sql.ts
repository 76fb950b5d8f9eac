/** SQL as a tagged template: every value becomes a parameter, names only by `identifier`, text never. */
import type { SqlAnswer, SqlBody } from '../contract/wire/sql.js';

type Wire = Omit<SqlBody, 'sql' | 'params'>;

export interface QueryOptions extends Wire {
  /** `'bigint'`: every value of an INTEGER column is a bigint. Else it is a number up to 2^53-1, and a string beyond. */
  integers?: 'bigint';
  signal?: AbortSignal;
}

/** A stream has no row cap and tells no types. */
export type StreamOptions = Omit<QueryOptions, 'integers' | 'max_rows'>;

/** The answer of free SQL, its rows typed by the caller. */
export interface QueryResult<Row> extends Omit<SqlAnswer, 'rows' | 'success'> {
  rows: Row[];
}

export type DefaultRow = Record<string, unknown>;

/** A piece of SQL: text around values. A value that is a piece itself becomes part of the text. */
export class SqlFragment {
  readonly #texts: readonly string[];
  readonly #values: readonly unknown[];

  constructor(texts: readonly string[], values: readonly unknown[] = []) {
    this.#texts = texts;
    this.#values = values;
  }

  /** The text with `$1`, `$2`, … and their values. */
  compile(params: unknown[] = []): { text: string; params: unknown[] } {
    let text = this.#texts[0] ?? '';
    this.#values.forEach((value, i) => {
      if (value instanceof SqlFragment) text += value.compile(params).text;
      else text += `$${params.push(value)}`;
      text += this.#texts[i + 1] ?? '';
    });
    return { text, params };
  }
}

/** A piece that runs when it is awaited, once. */
export class SqlQuery<Row> extends SqlFragment implements PromiseLike<QueryResult<Row>> {
  readonly #run: Run<Row>;
  #result: Promise<QueryResult<Row>> | undefined;

  constructor(texts: readonly string[], values: readonly unknown[], run: Run<Row>) {
    super(texts, values);
    this.#run = run;
  }

  then<A = QueryResult<Row>, B = never>(
    onFulfilled?: ((result: QueryResult<Row>) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#result ??= this.#run(this);
    return this.#result.then(onFulfilled, onRejected);
  }
}

type Run<Row> = (query: SqlFragment) => Promise<QueryResult<Row>>;

export interface SqlTag {
  /** Runs when it is awaited; within another template it becomes part of it. */
  <Row = DefaultRow>(texts: TemplateStringsArray, ...values: unknown[]): SqlQuery<Row>;
  /** The name of a table or column, quoted: the only way for a name that is not written in the template itself. */
  identifier(name: string): SqlFragment;
}

export function sqlTag(run: Run<unknown>): SqlTag {
  const tag = <Row>(texts: TemplateStringsArray, ...values: unknown[]) => {
    if (!Array.isArray(texts?.raw))
      throw new TypeError('sql is a template tag: sql`…`. Text goes to query(text, params)');
    return new SqlQuery<Row>(texts, values, run as Run<Row>);
  };
  return Object.assign(tag, { identifier });
}

function identifier(name: string): SqlFragment {
  if (typeof name !== 'string' || name === '' || name.includes('\0')) throw new TypeError('That is not a name');
  return new SqlFragment([`"${name.replaceAll('"', '""')}"`]);
}

/** Makes bigints of the values of INTEGER columns, in place. */
export function readIntegers({ rows, columns, results = [] }: SqlAnswer): void {
  columns.forEach(({ name, type }, i) => {
    if (type !== 'INTEGER') return;
    for (const row of rows as Record<string | number, unknown>[]) {
      const key = Array.isArray(row) ? i : name;
      const value = row[key];
      if (value !== null) row[key] = BigInt(value as number | string);
    }
  });
  for (const result of results) readIntegers({ success: true, ...result });
}
