/** The API as methods, in its own words. */
import type { ColumnType } from '../contract/column-types.js';
import { NAME_PATTERN } from '../contract/names.js';
import type { OwnTokenAnswer } from '../contract/wire/projects.js';
import type { SqlAnswer } from '../contract/wire/sql.js';
import type * as wire from '../contract/wire/tables.js';
import type { RecordSource } from './batches.js';
import { CdpError } from './error.js';
import {
  type BatchOptions,
  type BatchResult,
  insertAll,
  insertBatch,
  type InsertOptions,
  type InsertResult,
} from './insert.js';
import { toJson } from './json.js';
import {
  type DefaultRow,
  type QueryOptions,
  type QueryResult,
  readIntegers,
  SqlFragment,
  type SqlTag,
  sqlTag,
  type StreamOptions,
} from './sql.js';
import { readBytes, readLines, readRows } from './stream.js';
import { type Call, type ClientOptions, Transport } from './transport.js';

/** The wire takes types in any case; the compiler is told the six, so that an editor can list them. */
export type CreateTable = wire.CreateTableBody & { columns: { type: ColumnType }[] };
export type AddColumn = wire.AddColumnBody & { type: ColumnType };
export type AlterColumn = wire.AlterColumnBody & { new_type?: ColumnType };

export interface CallOptions {
  signal?: AbortSignal;
}

/** One table, its records typed by the caller. */
export interface TableHandle<Item extends object> {
  insert(records: RecordSource<Item>, options?: InsertOptions<Item>): Promise<InsertResult>;
}

/**
 * Speaks for one project, the one of its token. Every method rejects with a {@link CdpError}, or with a TypeError where
 * it was given what cannot be sent (an undefined parameter, a function).
 */
export class CdpClient {
  /** SQL whose values are parameters: ``await cdp.sql`SELECT * FROM t WHERE id = ${id}` ``. Runs when it is awaited. */
  readonly sql: SqlTag = sqlTag((query) => this.query(query));
  readonly #transport: Transport;

  /** @throws TypeError where the url is none, or there is no token */
  constructor(options: ClientOptions) {
    this.#transport = new Transport(options);
  }

  createTable(table: CreateTable, options?: CallOptions): Promise<wire.CreateTableAnswer> {
    return this.#schema('POST', ['table'], table, options);
  }

  addColumn(table: string, column: AddColumn, options?: CallOptions): Promise<wire.ColumnAnswer> {
    return this.#schema('POST', ['table', table, 'column'], column, options);
  }

  /** Renames, retypes or comments; at least one of the three. */
  alterColumn(table: string, column: string, change: AlterColumn, options?: CallOptions): Promise<wire.ColumnAnswer> {
    return this.#schema('PUT', ['table', table, 'column', column], change, options);
  }

  dropColumn(table: string, column: string, options?: CallOptions): Promise<wire.DropColumnAnswer> {
    return this.#schema('DELETE', ['table', table, 'column', column], undefined, options);
  }

  dropTable(table: string, options?: CallOptions): Promise<wire.DropTableAnswer> {
    return this.#schema('DELETE', ['table', table], undefined, options);
  }

  /** All tables and views with their columns. */
  async tables(options?: CallOptions): Promise<wire.Table[]> {
    return (await this.#schema<wire.SchemaAnswer>('GET', [], undefined, options)).tables;
  }

  /** One table or view with its columns. */
  async describe(table: string, options?: CallOptions): Promise<wire.Table> {
    return (await this.#schema<wire.TableAnswer>('GET', ['table', table], undefined, options)).table;
  }

  /** The project that the token opens, and its scopes. */
  token({ signal }: CallOptions = {}): Promise<OwnTokenAnswer> {
    return this.#transport.json({ method: 'GET', path: '/api/cdp/token', repeatable: true, signal });
  }

  table<Item extends object = DefaultRow>(name: string): TableHandle<Item> {
    return { insert: (records, options) => this.insert(name, records, options) };
  }

  /** Inserts any number of records; see {@link insertAll}. */
  async insert<Item extends object>(
    table: string,
    records: RecordSource<Item>,
    options: InsertOptions<Item> = {},
  ): Promise<InsertResult> {
    return insertAll(this.#transport, dataPath(table), records, options);
  }

  /** One request with 1 to 250 records, under a key of the caller's; see {@link insertBatch}. */
  async insertBatch<Item extends object>(
    table: string,
    records: readonly Item[],
    options: BatchOptions = {},
  ): Promise<BatchResult> {
    return insertBatch(this.#transport, dataPath(table), records, options);
  }

  /**
   * Runs SQL: a text with its parameters `$1`, `$2`, …, or what the tag `sql` has made. `row_count` and `truncated` say
   * whether the rows are all.
   */
  async query<Row = DefaultRow>(query: SqlFragment, options?: QueryOptions): Promise<QueryResult<Row>>;
  async query<Row = DefaultRow>(
    text: string,
    params?: readonly unknown[],
    options?: QueryOptions,
  ): Promise<QueryResult<Row>>;
  async query<Row>(query: SqlFragment | string, ...rest: QueryArguments<QueryOptions>): Promise<QueryResult<Row>> {
    const { call, integers } = sqlCall(query, rest);
    const answer = await this.#transport.json<SqlAnswer>(call);
    if (integers === 'bigint') readIntegers(answer);
    return answer as QueryResult<Row>;
  }

  /** The answer of {@link query} as its JSON text, in which numbers have all their digits. */
  async queryJson(text: string, params: readonly unknown[] = [], options: QueryOptions = {}): Promise<string> {
    return this.#transport.text(sqlCall(text, [params, options]).call);
  }

  /**
   * The rows of a query of any size, one after the other, as fast as they are taken; see {@link readRows}. Leaving the
   * loop ends the statement.
   */
  sqlStream<Row = DefaultRow>(query: SqlFragment, options?: StreamOptions): AsyncGenerator<Row, void>;
  sqlStream<Row = DefaultRow>(
    text: string,
    params?: readonly unknown[],
    options?: StreamOptions,
  ): AsyncGenerator<Row, void>;
  async *sqlStream<Row>(
    query: SqlFragment | string,
    ...rest: QueryArguments<StreamOptions>
  ): AsyncGenerator<Row, void> {
    const { call } = sqlCall(query, rest);
    yield* readRows<Row>(await this.#open(call, 'application/x-ndjson'), call.signal);
  }

  /**
   * The same, each row as its JSON text, in which numbers have all their digits; see {@link readLines}. The generator
   * returns the number of rows, or of rows affected.
   */
  async *sqlLines(
    text: string,
    params: readonly unknown[] = [],
    options: StreamOptions = {},
  ): AsyncGenerator<string, number, void> {
    const { call } = sqlCall(text, [params, options]);
    return yield* readLines(await this.#open(call, 'application/x-ndjson'), call.signal);
  }

  /** The result as CSV with a head, in bytes: an empty field is NULL, `""` the empty string; see {@link readBytes}. */
  async *sqlCsv(
    text: string,
    params: readonly unknown[] = [],
    options: StreamOptions = {},
  ): AsyncGenerator<Uint8Array, void, void> {
    const { call } = sqlCall(text, [params, options]);
    yield* readBytes(await this.#open(call, 'text/csv'), call.signal);
  }

  #open(call: Call, accept: string): Promise<Response> {
    return this.#transport.open({ ...call, headers: { accept } });
  }

  async #schema<Answer>(
    method: Call['method'],
    path: readonly string[],
    body: object | undefined,
    { signal }: CallOptions = {},
  ): Promise<Answer> {
    return this.#transport.json<Answer>({
      method,
      path: ['/api/cdp/schema', ...path.map(inPath)].join('/'),
      ...(body === undefined ? {} : { body: toJson(body) }),
      repeatable: method === 'GET',
      signal,
    });
  }
}

type QueryArguments<Options> = [params?: readonly unknown[] | Options, options?: Options];

function sqlCall(
  query: SqlFragment | string,
  [second, third]: QueryArguments<QueryOptions>,
): { call: Call; integers: QueryOptions['integers'] } {
  const isText = typeof query === 'string';
  if (!isText && !(query instanceof SqlFragment)) {
    throw new TypeError(
      'SQL is a text with its parameters, or what the tag has made: sqlStream(sql`…`), query(sql`…`)',
    );
  }
  if (isText && second !== undefined && !Array.isArray(second)) {
    throw new TypeError('params: an array, as in query(text, [value], options); [] for none');
  }
  const { text: sql, params } = isText
    ? { text: query, params: (second as readonly unknown[] | undefined) ?? [] }
    : query.compile();
  const { integers, signal, ...options } = (isText ? third : (second as QueryOptions | undefined)) ?? {};
  const call: Call = {
    method: 'POST',
    path: '/api/cdp/sql',
    body: toJson({ sql, ...(params.length === 0 ? {} : { params }), ...options }),
    // A read-only transaction is rolled back at its end.
    repeatable: options.read_only === true,
    signal,
  };
  return { call, integers };
}

const dataPath = (table: string): string => `/api/cdp/data/${inPath(table)}`;

const NAME = new RegExp(NAME_PATTERN);

/** @throws CdpError invalid_name: among them `..`, which would make another path of this one */
function inPath(name: string): string {
  if (!NAME.test(name)) throw new CdpError('invalid_name', `${JSON.stringify(name)} does not match ${NAME_PATTERN}`);
  return name;
}
