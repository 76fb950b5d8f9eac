/** The API as methods that use its own names. */
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
import type { DefaultRow, QueryOptions, QueryResult, SqlArguments, SqlTag, StreamOptions } from './sql.js';
import { readIntegers, sqlCall, sqlTag } from './sql.js';
import { readBytes, readLines, readRows } from './stream.js';
import { type Call, type ClientOptions, Transport } from './transport.js';

/** The API accepts types in any case; here they are the six names, so that an editor can list them. */
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
 * A client for the project of its token. Every method rejects with a {@link CdpError}, or with a TypeError if a value cannot
 * be sent (an undefined parameter, a function).
 */
export class CdpClient {
  /** SQL with its values as parameters: ``await cdp.sql`SELECT * FROM t WHERE id = ${id}` ``. Runs when it is awaited. */
  readonly sql: SqlTag = sqlTag((query) => this.query(query));
  readonly #transport: Transport;

  /** @throws TypeError if the URL is invalid or the token is missing */
  constructor(options: ClientOptions) {
    this.#transport = new Transport(options);
  }

  createTable(table: CreateTable, options?: CallOptions): Promise<wire.CreateTableAnswer> {
    return this.#schema('POST', ['table'], table, options);
  }

  addColumn(table: string, column: AddColumn, options?: CallOptions): Promise<wire.ColumnAnswer> {
    return this.#schema('POST', ['table', table, 'column'], column, options);
  }

  /** Changes the name, type or comment; at least one of the three. */
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

  /** The token's project and scopes. */
  token({ signal }: CallOptions = {}): Promise<OwnTokenAnswer> {
    return this.#transport.json({ method: 'GET', path: '/api/cdp/token', idempotent: true, signal });
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

  /** Inserts 1 to 250 records in one request, under the caller's key; see {@link insertBatch}. */
  async insertBatch<Item extends object>(
    table: string,
    records: readonly Item[],
    options: BatchOptions = {},
  ): Promise<BatchResult> {
    return insertBatch(this.#transport, dataPath(table), records, options);
  }

  /** Runs SQL. `row_count` and `truncated` say whether the rows are all of them. */
  async query<Row = DefaultRow>(...query: SqlArguments<QueryOptions>): Promise<QueryResult<Row>> {
    const { call, integers } = sqlCall(query);
    const answer = await this.#transport.json<SqlAnswer>(call);
    if (integers === 'bigint') readIntegers(answer);
    return answer as QueryResult<Row>;
  }

  /** The answer of {@link query} as JSON text, with all digits of its numbers. */
  async queryJson(text: string, params: readonly unknown[] = [], options: QueryOptions = {}): Promise<string> {
    return this.#transport.text(sqlCall([text, params, options]).call);
  }

  /**
   * The rows of a query of any size, one at a time, as fast as the caller takes them; see {@link readLines}. Leaving the loop
   * cancels the statement.
   */
  async *sqlStream<Row = DefaultRow>(...query: SqlArguments<StreamOptions>): AsyncGenerator<Row, void> {
    const { call } = sqlCall(query);
    yield* readRows<Row>(await this.#open(call, 'application/x-ndjson'), call.signal);
  }

  /**
   * The same, each row as JSON text with all digits of its numbers. The generator returns the number of rows, or of rows
   * affected.
   */
  async *sqlLines(
    text: string,
    params: readonly unknown[] = [],
    options: StreamOptions = {},
  ): AsyncGenerator<string, number, void> {
    const { call } = sqlCall([text, params, options]);
    return yield* readLines(await this.#open(call, 'application/x-ndjson'), call.signal);
  }

  /** The result as the bytes of a CSV file with a header: an empty field is NULL, `""` the empty string. */
  async *sqlCsv(
    text: string,
    params: readonly unknown[] = [],
    options: StreamOptions = {},
  ): AsyncGenerator<Uint8Array, void, void> {
    const { call } = sqlCall([text, params, options]);
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
      idempotent: method === 'GET',
      signal,
    });
  }
}

const dataPath = (table: string): string => `/api/cdp/data/${inPath(table)}`;

const NAME = new RegExp(NAME_PATTERN);

/** @throws CdpError invalid_name: `..` would lead to another path */
function inPath(name: string): string {
  if (!NAME.test(name)) throw new CdpError('invalid_name', `${JSON.stringify(name)} does not match ${NAME_PATTERN}`);
  return name;
}
