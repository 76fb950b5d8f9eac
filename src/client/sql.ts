/**
 * SQL as a tagged template: every value becomes a parameter. Names need `identifier`; plain text cannot be inserted.
 */
import type { SqlResponse, SqlBody } from '../contract/wire/sql.js';
import { namedToJson, rawJson, toJson } from './json.js';
import { checkOptions, type Names } from './options.js';
import type { ApiCall } from './transport.js';

export interface QueryOptions extends Omit<SqlBody, 'sql' | 'params' | 'numbers' | 'columns'> {
  /** `'string'`: every value of a bigint or numeric column is a string with all its digits. */
  numbers?: 'string';
  /** `'bigint'`: every value of an INTEGER column is a bigint. Default: a number up to 2^53-1, a string above. */
  integers?: 'bigint';
  /** Roll everything back; the response has `impact`. */
  dryRun?: true;
  /**
   * For SQL that writes: 1 to 255 printable ASCII characters. For 24 hours, the same request under the same key runs
   * once, so it can be retried even if it may have run.
   */
  idempotencyKey?: string;
  signal?: AbortSignal;
}

/**
 * For rows as JSON text. `numbers: 'raw'`: every value of a bigint or numeric column is a JSON number with all its
 * digits.
 */
export type AsText<Options> = Omit<Options, 'numbers'> & Pick<SqlBody, 'numbers'>;

/** A stream has no row limit. */
export type StreamOptions = Omit<QueryOptions, 'integers' | 'max_rows' | 'dryRun' | 'idempotencyKey'>;

/** For rows as lines of JSON text. `columns: true`: the first line has their names, and types without modifiers. */
export type LineOptions = AsText<StreamOptions> & Pick<SqlBody, 'columns'>;

/** The options of every kind of query: the service rejects those that do not fit. */
type AnyOptions = AsText<QueryOptions> & Pick<SqlBody, 'columns'>;

const NAMES: Names<AnyOptions> = {
  read_only: true,
  consistency: true,
  timeout_ms: true,
  max_rows: true,
  row_mode: true,
  numbers: true,
  columns: true,
  integers: true,
  dryRun: true,
  idempotencyKey: true,
  signal: true,
};

/** The response to a query, with rows typed by the caller. */
export interface QueryResult<Row> extends Omit<SqlResponse, 'rows' | 'success'> {
  rows: Row[];
}

export type DefaultRow = Record<string, unknown>;

/** A fragment from the tag `sql`, or a text and its parameters `$1`, `$2`, …; then options. */
export type SqlArguments<Options> =
  | [query: SqlFragment, options?: Options | undefined]
  | [text: string, params?: readonly unknown[] | undefined, options?: Options | undefined];

/** A piece of SQL: texts and values. A value that is itself a fragment becomes part of the text. */
export class SqlFragment {
  readonly #texts: readonly string[];
  readonly #values: readonly unknown[];

  constructor(texts: readonly string[], values: readonly unknown[] = []) {
    this.#texts = texts;
    this.#values = values;
  }

  /** Returns the text with `$1`, `$2`, … and the parameters. */
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

/** A fragment that runs once, when it is awaited. */
export class SqlQuery<Row> extends SqlFragment implements Promise<QueryResult<Row>> {
  readonly [Symbol.toStringTag] = 'SqlQuery';
  readonly #run: Run<Row>;
  #result: Promise<QueryResult<Row>> | undefined;

  constructor(texts: readonly string[], values: readonly unknown[], run: Run<Row>) {
    super(texts, values);
    this.#run = run;
  }

  // The property type of the standard library's `then`.
  readonly then: Promise<QueryResult<Row>>['then'] = (onFulfilled, onRejected) => {
    this.#result ??= this.#run(this);
    return this.#result.then(onFulfilled, onRejected);
  };

  readonly catch: Promise<QueryResult<Row>>['catch'] = (onRejected) => this.then(undefined, onRejected);

  readonly finally: Promise<QueryResult<Row>>['finally'] = (onFinally) => this.then().finally(onFinally);
}

type Run<Row> = (query: SqlFragment) => Promise<QueryResult<Row>>;

export interface SqlTag {
  /** A query that runs when it is awaited. In another template, it becomes part of that one. */
  <Row = DefaultRow>(texts: TemplateStringsArray, ...values: unknown[]): SqlQuery<Row>;
  /** Quotes the name of a table or column. Every name that is not written in the template must go through this. */
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
  if (typeof name !== 'string' || name === '' || name.includes('\0'))
    throw new TypeError('identifier: that is not a name');
  return new SqlFragment([`"${name.replaceAll('"', '""')}"`]);
}

/** Converts the values of INTEGER columns to bigint, in place. */
export function readIntegers({ rows, columns, results = [] }: SqlResponse): void {
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

/** @throws TypeError for arguments that the compiler would reject */
export function sqlCall([query, second, third]: SqlArguments<AnyOptions>): {
  call: ApiCall;
  integers: QueryOptions['integers'];
} {
  const isText = typeof query === 'string';
  if (!isText && !(query instanceof SqlFragment)) {
    throw new TypeError('SQL is a text with its parameters, or made by the tag: sqlStream(sql`…`), query(sql`…`)');
  }
  if (!isText && (Array.isArray(second) || third !== undefined)) {
    throw new TypeError('sql`…` has its values in it, and takes no params: query(sql`…`, options)');
  }
  if (isText && second !== undefined && !Array.isArray(second)) {
    throw new TypeError('params: an array, as in query(text, [value], options); [] for none');
  }
  const { text: sql, params } = isText
    ? { text: query, params: (second as readonly unknown[] | undefined) ?? [] }
    : query.compile();
  const callOptions = (isText ? third : (second as typeof third)) ?? {};
  checkOptions(callOptions, NAMES, 'a query');
  const { integers, dryRun, idempotencyKey, signal, ...options } = callOptions;
  const values = params.map((value, i) => namedToJson(`$${i + 1}`, value)).join(',');
  const call: ApiCall = {
    method: 'POST',
    path: `/api/cdp/sql${dryRun ? '?dry_run=true' : ''}`,
    body: toJson({ sql, ...(params.length === 0 ? {} : { params: rawJson(`[${values}]`) }), ...options }),
    ...(idempotencyKey === undefined ? {} : { headers: { 'idempotency-key': idempotencyKey } }),
    // Neither a read-only transaction nor a dry run changes anything.
    idempotent: options.read_only === true || dryRun === true || idempotencyKey !== undefined,
    signal,
  };
  return { call, integers };
}
