/** The API as methods that use its own names. */
import type { ColumnType } from '../contract/column-types.js';
import type { Change, FeedBody, FeedResponse, FeedState } from '../contract/wire/changes.js';
import type { EventSettings, EventSettingsBody, EventsResponse } from '../contract/wire/events.js';
import type { QueriesResponse, Query, QueryBody, QueryResponse } from '../contract/wire/queries.js';
import type { QuarantinedRecord, QuarantineGroup } from '../contract/wire/quarantine.js';
import type { OwnTokenResponse } from '../contract/wire/tokens.js';
import type { Receipt, ReceiptsResponse, ReceiptsBody } from '../contract/wire/receipts.js';
import type { DistributeBody, DistributionResponse } from '../contract/wire/distribution.js';
import type {
  CreateIndexBody,
  DropIndexResponse,
  Index,
  IndexResponse,
  IndexesResponse,
} from '../contract/wire/indexes.js';
import type {
  CreateRoleBody,
  DetailedRole,
  DetailedRoleResponse,
  DropRoleResponse,
  Role,
  RoleResponse,
  RolesResponse,
} from '../contract/wire/roles.js';
import type {
  DetailedSchedule,
  DetailedScheduleResponse,
  RunScheduleResponse,
  Schedule,
  ScheduleBody,
  ScheduleResponse,
  SchedulesResponse,
} from '../contract/wire/schedules.js';
import type {
  Declaration,
  EraseResponse,
  Erasure,
  FindResponse,
  ProposalResponse,
  SubjectBody,
  SubjectsResponse,
} from '../contract/wire/subjects.js';
import type { SqlResponse } from '../contract/wire/sql.js';
import type * as wire from '../contract/wire/tables.js';
import type { RecordSource } from './batches.js';
import {
  changesCall,
  type ChangesOptions,
  type ChangesPage,
  type ChangesPageOptions,
  checkPage,
  readChanges,
  readSnapshot,
  type Snapshot,
  snapshotLines,
} from './changes.js';
import {
  batchQuery,
  type BatchOptions,
  type BatchResult,
  insertAll,
  insertBatch,
  type InsertOptions,
  type InsertResult,
  newKey,
  type StoreOptions,
} from './insert.js';
import {
  insertRecordStream,
  type InsertStreamOptions,
  type InsertStreamResult,
  insertTextStream,
  type InsertTextOptions,
  type TextSource,
} from './insert-stream.js';
import { RecordStream, type StreamedRecord, type StreamHooks } from './record-stream.js';
import { deleteBatch, type DeleteOptions } from './delete.js';
import { toJson } from './json.js';
import { CALL_NAMES, type CallOptions, checkOptions, type Names, READ_NAMES, type ReadOptions } from './options.js';
import { inPath, runQueryCall, type RunQueryOptions, savedCall } from './saved.js';
import {
  type DropOptions,
  dropQuarantine,
  type QuarantineFilter,
  quarantineGroups,
  readQuarantine,
  type ReplayOptions,
  type ReplayResult,
  replayQuarantine,
} from './quarantine.js';
import {
  type AsText,
  type DefaultRow,
  type LineOptions,
  type QueryOptions,
  type QueryResult,
  readIntegers,
  type SqlArguments,
  sqlCall,
  type SqlTag,
  sqlTag,
  type StreamOptions,
} from './sql.js';
import { type ArrayStream, readArrays, readBytes, readLines, readRows, type StreamEnd } from './row-stream.js';
import {
  type EraseOptions,
  eraseSubject,
  exportSubject,
  type FindOptions,
  findSubject,
  readErasure,
  subjectProposal,
  subjectState,
} from './subjects.js';
import { type ApiCall, type ClientOptions, Transport } from './transport.js';
import { Segments } from './segments.js';
import { Webhooks } from './webhooks.js';

/** The API accepts type names in any case; this type has the six names, so that an editor can list them. */
export type CreateTable = wire.CreateTableBody & { columns: { type: ColumnType }[] };
export type AddColumn = wire.AddColumnBody & { type: ColumnType };
export type AlterColumn = wire.AlterColumnBody & { new_type?: ColumnType };
export type CreateIndex = CreateIndexBody;

export interface AlterOptions extends CallOptions {
  /** `'values'`: an error `not_convertible` lists the most frequent values, if the token has sql:write. */
  return?: 'values';
}

const SCHEMA_NAMES: Names<AlterOptions> = { ...CALL_NAMES, return: true };

export interface ReceiptOptions extends ReadOptions {
  /** If nothing is stored under the key, refuse it from now on, so that `not_stored` is final. */
  settle?: boolean;
}

const RECEIPT_NAMES: Names<ReceiptOptions> = { ...READ_NAMES, settle: true };

/** One table, its records typed by the caller. */
export interface TableHandle<Item extends object> {
  insert(records: RecordSource<Item>, options?: InsertOptions<Item>): Promise<InsertResult>;
  insertStream: InsertStream<Item>;
}

interface InsertStream<Item extends object> {
  (records: RecordSource<Item>, options?: InsertStreamOptions<Item>): Promise<InsertStreamResult>;
  (text: TextSource, options: InsertTextOptions): Promise<InsertStreamResult>;
}

/**
 * A client for the project of its token. Every method rejects with a `CdpError`, or with a TypeError if a value
 * cannot be sent (an undefined parameter, a function).
 */
export class CdpClient {
  /**
   * SQL with its values as parameters: ``await cdp.sql`SELECT * FROM t WHERE id = ${id}` ``. Runs when it is awaited.
   */
  readonly sql: SqlTag = sqlTag((query) => this.query(query));
  /** Endpoints that get the changes of the project. */
  readonly webhooks: Webhooks;
  /** Queries whose keys the project keeps as members. */
  readonly segments: Segments;
  readonly #transport: Transport;

  /** @throws TypeError if the URL or another option is invalid, or the token is missing */
  constructor(options: ClientOptions) {
    this.#transport = new Transport(options);
    this.webhooks = new Webhooks(this.#transport);
    this.segments = new Segments(this.#transport);
  }

  createTable(table: CreateTable, options?: CallOptions): Promise<wire.CreateTableResponse> {
    return this.#schema('POST', ['table'], table, options);
  }

  /** Changes the name, the comment or both. */
  alterTable(table: string, change: wire.AlterTableBody, options?: CallOptions): Promise<wire.AlterTableResponse> {
    return this.#schema('PUT', ['table', table], change, options);
  }

  addColumn(table: string, column: AddColumn, options?: CallOptions): Promise<wire.ColumnResponse> {
    return this.#schema('POST', ['table', table, 'column'], column, options);
  }

  /** Changes one or more of name, type, comment, default, NOT NULL and UNIQUE. */
  alterColumn(
    table: string,
    column: string,
    change: AlterColumn,
    options?: AlterOptions,
  ): Promise<wire.ColumnResponse> {
    return this.#schema('PUT', ['table', table, 'column', column], change, options);
  }

  dropColumn(table: string, column: string, options?: CallOptions): Promise<wire.DropColumnResponse> {
    return this.#schema('DELETE', ['table', table, 'column', column], undefined, options);
  }

  dropTable(table: string, options?: CallOptions): Promise<wire.DropTableResponse> {
    return this.#schema('DELETE', ['table', table], undefined, options);
  }

  /** Distributes the rows over the workers of a Citus cluster, or makes the table local again. */
  distributeTable(table: string, distribution: DistributeBody, options?: CallOptions): Promise<DistributionResponse> {
    return this.#schema('PUT', ['table', table, 'distribution'], distribution, options);
  }

  /** Creates an index, by default one that is not unique, with a name that Postgres chooses. */
  createIndex(table: string, index: CreateIndex, options?: CallOptions): Promise<IndexResponse> {
    return this.#schema('POST', ['table', table, 'index'], index, options);
  }

  /** Lists the indexes of a table, the primary key first. */
  async indexes(table: string, options?: ReadOptions): Promise<Index[]> {
    return (await this.#schema<IndexesResponse>('GET', ['table', table, 'index'], undefined, options)).indexes;
  }

  dropIndex(table: string, index: string, options?: CallOptions): Promise<DropIndexResponse> {
    return this.#schema('DELETE', ['table', table, 'index', index], undefined, options);
  }

  /** Creates a role, which has no rights until SQL grants them. */
  async createRole(role: CreateRoleBody, options?: ReadOptions): Promise<Role> {
    return (await this.#role<RoleResponse>('POST', [], role, options)).role;
  }

  /** Lists the roles that the project has made. */
  async roles(options?: ReadOptions): Promise<Role[]> {
    return (await this.#role<RolesResponse>('GET', [], undefined, options)).roles;
  }

  /** What a role may do now, and its tokens. */
  async role(name: string, options?: ReadOptions): Promise<DetailedRole> {
    return (await this.#role<DetailedRoleResponse>('GET', [name], undefined, options)).role;
  }

  /** Drops a role: revokes its tokens, ends its requests and sessions, and drops its rights. */
  dropRole(name: string, options?: ReadOptions): Promise<DropRoleResponse> {
    return this.#role('DELETE', [name], undefined, options);
  }

  /** Whether and how the project takes events of the tracking API; null: it takes none. */
  events(options?: ReadOptions): Promise<EventSettings | null> {
    return this.#events('GET', undefined, options);
  }

  /** Takes events from now on. What is missing in the settings has its default. */
  async setEvents(settings: EventSettingsBody = {}, options?: ReadOptions): Promise<EventSettings> {
    return (await this.#events('PUT', settings, options)) as EventSettings;
  }

  /** Takes no more events. The tables stay. */
  async dropEvents(options?: ReadOptions): Promise<void> {
    await this.#events('DELETE', undefined, options);
  }

  /** The project's feed of changes; null: it has none. */
  async feed(options?: ReadOptions): Promise<FeedState | null> {
    return (await this.#feed('GET', undefined, options)).feed;
  }

  /** Keeps changes from now on; for the first time, the project's server restarts. What is missing has its default. */
  async setFeed(settings: FeedBody = {}, options?: ReadOptions): Promise<FeedState> {
    return (await this.#feed('PUT', settings, options)).feed as FeedState;
  }

  /** Keeps no more changes, and deletes those that are kept. @returns what that means for webhooks, for people */
  async dropFeed(options?: ReadOptions): Promise<string> {
    return (await this.#feed('DELETE', undefined, options)).message;
  }

  /**
   * Yields each change of the feed, and waits for more, until the caller leaves the loop. It goes on after lost
   * connections and restarts of the service, as often as `maxRetries` says. Without `after` it begins with those that
   * are committed after the loop has begun.
   * @throws CdpError such as cursor_expired, whose hint says how to go on
   */
  changes(options: ChangesOptions = {}): AsyncGenerator<Change, void> {
    return readChanges(this.#transport, options);
  }

  /** One answer of the feed: the changes after a cursor, and the cursor after them. */
  async changesPage(options: ChangesPageOptions = {}): Promise<ChangesPage> {
    checkPage(options);
    const { changes, cursor } = await this.#transport.json<ChangesPage>(changesCall(options));
    return { changes, cursor };
  }

  /** Returns the response of {@link changesPage} as JSON text, with all digits of its numbers. */
  async changesJson(options: ChangesPageOptions = {}): Promise<string> {
    checkPage(options);
    return this.#transport.text(changesCall(options));
  }

  /** The rows of a table, with the cursor from which {@link changes} go on without a gap. */
  async snapshot<Row = DefaultRow>(table: string, options: ReadOptions = {}): Promise<Snapshot<Row>> {
    return readSnapshot(this.#transport, table, options);
  }

  /** Returns the lines of {@link snapshot} as JSON texts: first its cursor, then each row, with all digits of its numbers. */
  snapshotLines(table: string, options: ReadOptions = {}): AsyncGenerator<string, number, void> {
    return snapshotLines(this.#transport, table, options);
  }

  /** Lists the saved queries. */
  async queries(options?: ReadOptions): Promise<Query[]> {
    return (await this.#saved<QueriesResponse>('GET', ['queries'], undefined, options)).queries;
  }

  /** Reads a saved query; {@link query} runs SQL. */
  async savedQuery(name: string, options?: ReadOptions): Promise<Query> {
    return (await this.#saved<QueryResponse>('GET', ['queries', name], undefined, options)).query;
  }

  /** Saves a query, or replaces it. */
  async saveQuery(name: string, query: QueryBody, options?: ReadOptions): Promise<Query> {
    return (await this.#saved<QueryResponse>('PUT', ['queries', name], query, options)).query;
  }

  /** Runs a saved query with a value for each of its parameters. */
  async runQuery<Row = DefaultRow>(
    name: string,
    parameters: Readonly<Record<string, unknown>> = {},
    options?: RunQueryOptions,
  ): Promise<QueryResult<Row>> {
    return this.#transport.json(runQueryCall(name, parameters, options));
  }

  /** Returns the response of {@link runQuery} as JSON text, with all digits of its numbers. */
  async runQueryJson(
    name: string,
    parameters: Readonly<Record<string, unknown>> = {},
    options?: RunQueryOptions,
  ): Promise<string> {
    return this.#transport.text(runQueryCall(name, parameters, options));
  }

  /** Returns all rows of a saved query as {@link sqlCsv} does. */
  async *runQueryCsv(
    name: string,
    parameters: Readonly<Record<string, unknown>> = {},
    options?: RunQueryOptions,
  ): AsyncGenerator<Uint8Array, void, void> {
    const call = runQueryCall(name, parameters, options);
    yield* readBytes(await this.#open(call, 'text/csv'), call.signal);
  }

  async deleteQuery(name: string, options?: ReadOptions): Promise<void> {
    await this.#saved('DELETE', ['queries', name], undefined, options);
  }

  /** Lists the schedules, each with its last run. */
  async schedules(options?: ReadOptions): Promise<Schedule[]> {
    return (await this.#saved<SchedulesResponse>('GET', ['schedules'], undefined, options)).schedules;
  }

  /** Describes a schedule with its last runs. */
  async schedule(name: string, options?: ReadOptions): Promise<DetailedSchedule> {
    return (await this.#saved<DetailedScheduleResponse>('GET', ['schedules', name], undefined, options)).schedule;
  }

  /** Makes or replaces a schedule. */
  async saveSchedule(name: string, schedule: ScheduleBody, options?: ReadOptions): Promise<Schedule> {
    return (await this.#saved<ScheduleResponse>('PUT', ['schedules', name], schedule, options)).schedule;
  }

  /** Runs a schedule now, and returns after 30 s at most, while a longer run goes on. Rejects with the error of the run. */
  runSchedule(name: string, options?: CallOptions): Promise<RunScheduleResponse> {
    return this.#saved('POST', ['schedules', name, 'run'], undefined, options);
  }

  async pauseSchedule(name: string, options?: ReadOptions): Promise<Schedule> {
    return (await this.#saved<ScheduleResponse>('POST', ['schedules', name, 'pause'], undefined, options)).schedule;
  }

  async resumeSchedule(name: string, options?: ReadOptions): Promise<Schedule> {
    return (await this.#saved<ScheduleResponse>('POST', ['schedules', name, 'resume'], undefined, options)).schedule;
  }

  /** Deletes a schedule with its runs. */
  async deleteSchedule(name: string, options?: ReadOptions): Promise<void> {
    await this.#saved('DELETE', ['schedules', name], undefined, options);
  }

  /** Where people are declared to be, and what is not covered. */
  subjects(options?: ReadOptions): Promise<SubjectsResponse> {
    return subjectState(this.#transport, '', undefined, options);
  }

  /** Declares which columns identify people, and what erasing them means. */
  declareSubjects(declaration: Declaration, options?: ReadOptions): Promise<SubjectsResponse> {
    return subjectState(this.#transport, '', declaration, options);
  }

  /** Proposes a declaration. */
  proposeSubjects(options?: ReadOptions): Promise<ProposalResponse> {
    return subjectProposal(this.#transport, options);
  }

  /** Finds everything about somebody: `{ person: { email: 'ada@example.com' } }`. */
  findSubject(who: SubjectBody, options?: FindOptions): Promise<FindResponse> {
    return findSubject(this.#transport, who, options);
  }

  /** Everything about somebody as lines of NDJSON; the last one is the manifest. */
  exportSubject(who: SubjectBody, options?: ReadOptions): AsyncGenerator<string, void> {
    return exportSubject(this.#transport, who, options);
  }

  /** Erases everything about somebody. Keep the nonce: it alone links the receipt to the person. */
  eraseSubject(who: SubjectBody, options?: EraseOptions): Promise<EraseResponse> {
    return eraseSubject(this.#transport, who, options);
  }

  /** How far an erasure is. */
  erasure(id: string, options?: ReadOptions): Promise<Erasure> {
    return readErasure(this.#transport, id, options);
  }

  /** Lists all tables and views with their columns. */
  async tables(options?: ReadOptions): Promise<wire.Table[]> {
    return (await this.#schema<wire.SchemaResponse>('GET', [], undefined, options)).tables;
  }

  /** Describes one table or view with its columns. */
  async describe(table: string, options?: ReadOptions): Promise<wire.DescribedTable> {
    return (await this.#schema<wire.TableResponse>('GET', ['table', table], undefined, options)).table;
  }

  /** Returns the token's project and scopes; an admin token has neither. */
  async token(options: ReadOptions = {}): Promise<OwnTokenResponse> {
    checkOptions(options, READ_NAMES, 'token');
    const { signal } = options;
    return this.#transport.json({ method: 'GET', path: '/api/cdp/token', idempotent: true, signal });
  }

  table<Item extends object = DefaultRow>(name: string): TableHandle<Item> {
    return {
      insert: (records, options) => this.insert(name, records, options),
      insertStream: (
        source: RecordSource<Item> | TextSource,
        options: InsertStreamOptions<Item> | InsertTextOptions = {},
      ) => this.#insertStream(name, source, options),
    };
  }

  /** Inserts any number of records; see {@link insertAll}. */
  async insert<Item extends object>(
    table: string,
    records: RecordSource<Item>,
    options: InsertOptions<Item> = {},
  ): Promise<InsertResult> {
    return insertAll(this.#transport, dataPath(table), records, options);
  }

  /**
   * Inserts records of any number as one stream, which goes on after a broken connection; the fastest way. With
   * `contentType`, inserts text as it is; see {@link insertRecordStream} and {@link insertTextStream}.
   */
  insertStream<Item extends object>(
    table: string,
    records: RecordSource<Item>,
    options?: InsertStreamOptions<Item>,
  ): Promise<InsertStreamResult>;
  insertStream(table: string, text: TextSource, options: InsertTextOptions): Promise<InsertStreamResult>;
  async insertStream(
    table: string,
    source: RecordSource<object> | TextSource,
    options: InsertStreamOptions<object> | InsertTextOptions = {},
  ): Promise<InsertStreamResult> {
    return this.#insertStream(table, source, options);
  }

  async #insertStream<Item extends object>(
    table: string,
    source: RecordSource<Item> | TextSource,
    options: InsertStreamOptions<Item> | InsertTextOptions,
  ): Promise<InsertStreamResult> {
    return 'contentType' in options
      ? insertTextStream(this.#transport, dataPath(table), source as TextSource, options)
      : insertRecordStream(this.#transport, dataPath(table), source as RecordSource<Item>, options);
  }

  /** A stream for programs that keep a journal of their own, such as `cdp import`. */
  recordStream<Sent extends StreamedRecord<unknown>>(
    table: string,
    source: AsyncIterator<readonly Sent[], unknown>,
    hooks: StreamHooks<Sent>,
    { signal, stop, ...options }: StoreOptions & { signal?: AbortSignal; stop?: AbortSignal },
  ): RecordStream<Sent> {
    const path = dataPath(table) + batchQuery(options);
    return new RecordStream({ transport: this.#transport, path, signal }, source, hooks, stop);
  }

  /** Inserts 1 to 250 records in one request, under the caller's key; see {@link insertBatch}. */
  async insertBatch<Item extends object>(
    table: string,
    records: readonly Item[],
    options: BatchOptions = {},
  ): Promise<BatchResult> {
    return insertBatch(this.#transport, dataPath(table), records, options);
  }

  /** Deletes the rows that have 1 to 250 keys, such as `[{ email: 'ada@example.com' }]`; see {@link deleteBatch}. */
  async delete(table: string, keys: readonly object[], options: DeleteOptions): Promise<number> {
    return deleteBatch(this.#transport, dataPath(table), keys, options);
  }

  /** Lists the records in the quarantine, oldest first. */
  quarantine(filter: QuarantineFilter = {}, options: ReadOptions = {}): AsyncGenerator<QuarantinedRecord, void> {
    return readQuarantine(this.#transport, filter, options);
  }

  /** Counts the records in the quarantine by table, error and column; the largest groups first. */
  async quarantineGroups(
    filter: QuarantineFilter = {},
    options: ReadOptions = {},
  ): Promise<readonly QuarantineGroup[]> {
    return quarantineGroups(this.#transport, filter, options);
  }

  /** Retries quarantined records of a table; each one that is stored leaves the quarantine. */
  async replayQuarantine(options: ReplayOptions): Promise<ReplayResult> {
    return replayQuarantine(this.#transport, options);
  }

  /** Deletes records from the quarantine; `{ all: true }` deletes all. */
  async dropQuarantine(filter: DropOptions, options: CallOptions = {}): Promise<number> {
    return dropQuarantine(this.#transport, filter, options);
  }

  /** Returns the outcome of the batch with an idempotency key. */
  async receipt(table: string, key: string, options?: ReceiptOptions): Promise<Receipt> {
    const [receipt] = await this.receipts(table, [key], options);
    return receipt as Receipt;
  }

  /**
   * Returns the outcomes of up to 1,000 batches, in the order of their keys.
   * @param table null: any; a key that was used for several tables then has a receipt for each
   */
  async receipts(table: string | null, keys: readonly string[], options: ReceiptOptions = {}): Promise<Receipt[]> {
    checkOptions(options, RECEIPT_NAMES, 'receipts');
    const { settle = false, signal } = options;
    const body: ReceiptsBody = { ...(table === null ? {} : { table }), keys: [...keys], settle };
    const call = { method: 'POST', path: '/api/cdp/receipts/query', idempotent: true, signal } as const;
    return (await this.#transport.json<ReceiptsResponse>({ ...call, body: toJson(body) })).receipts;
  }

  /** Runs SQL. `row_count` and `truncated` show whether all rows were returned. */
  async query<Row = DefaultRow>(...query: SqlArguments<QueryOptions>): Promise<QueryResult<Row>> {
    const { call, integers } = sqlCall(query);
    const response = await this.#transport.json<SqlResponse>(call);
    if (integers === 'bigint') readIntegers(response);
    return response as QueryResult<Row>;
  }

  /** Returns the response of {@link query} as JSON text, with all digits of its numbers. */
  async queryJson(text: string, params: readonly unknown[] = [], options: AsText<QueryOptions> = {}): Promise<string> {
    return this.#transport.text(sqlCall([text, params, options]).call);
  }

  /**
   * Returns the rows of a query of any size, one at a time, as fast as the caller takes them. Leaving the loop cancels
   * the statement.
   */
  async *sqlStream<Row = DefaultRow>(...query: SqlArguments<StreamOptions>): AsyncGenerator<Row, void> {
    const { call } = sqlCall(query);
    yield* readRows<Row>(await this.#open(call, 'application/x-ndjson'), call.signal);
  }

  /**
   * Returns each row of {@link sqlStream} as JSON text with all digits of its numbers. With `columns`, the first line
   * contains the names and types. The generator returns the number of rows, or of affected rows; `onEnd` also gets
   * Postgres's warnings.
   */
  async *sqlLines(
    text: string,
    params: readonly unknown[] = [],
    options: LineOptions = {},
    onEnd?: (end: StreamEnd) => void,
  ): AsyncGenerator<string, number, void> {
    const { call } = sqlCall([text, params, options]);
    const response = await this.#open(call, 'application/x-ndjson');
    return yield* readLines(response, call.signal, options.columns ? 1 : 0, onEnd);
  }

  /**
   * Returns the result for display: its columns, then its rows as JSON texts of arrays, with all digits of their
   * numbers. The caller must read the batches to their end, leave the loop or abort.
   */
  async sqlArrays(
    text: string,
    params: readonly unknown[] = [],
    options: Omit<AsText<StreamOptions>, 'row_mode'> = {},
  ): Promise<ArrayStream> {
    const { call } = sqlCall([text, params, { ...options, row_mode: 'array', columns: true }]);
    return readArrays(await this.#open(call, 'application/x-ndjson'), call.signal);
  }

  /** Returns the result as the bytes of a CSV file with a header: an empty field is NULL, `""` is the empty string. */
  async *sqlCsv(
    text: string,
    params: readonly unknown[] = [],
    options: AsText<StreamOptions> = {},
  ): AsyncGenerator<Uint8Array, void, void> {
    const { call } = sqlCall([text, params, options]);
    yield* readBytes(await this.#open(call, 'text/csv'), call.signal);
  }

  #open(call: ApiCall, accept: string): Promise<Response> {
    return this.#transport.open({ ...call, headers: { accept } });
  }

  async #events(
    method: ApiCall['method'],
    settings: EventSettingsBody | undefined,
    options?: ReadOptions,
  ): Promise<EventSettings | null> {
    return (await this.#settings<EventsResponse>(method, '/api/cdp/events', settings, options)).events;
  }

  #feed(method: ApiCall['method'], settings: FeedBody | undefined, options?: ReadOptions): Promise<FeedResponse> {
    return this.#settings(method, '/api/cdp/feed', settings, options);
  }

  /** Without a key: it changes more than the project's database, so that no transaction could hold one. */
  #settings<Result>(
    method: ApiCall['method'],
    path: string,
    settings: object | undefined,
    options: ReadOptions = {},
  ): Promise<Result> {
    checkOptions(options, READ_NAMES, 'a call about settings');
    return this.#transport.json<Result>({
      method,
      path,
      ...(settings === undefined ? {} : { body: toJson(settings) }),
      idempotent: true,
      signal: options.signal,
    });
  }

  #role<Result>(
    method: ApiCall['method'],
    path: readonly string[],
    body: object | undefined,
    options: ReadOptions = {},
  ): Promise<Result> {
    checkOptions(options, READ_NAMES, 'a call about roles');
    return this.#transport.json<Result>({
      method,
      path: ['/api/cdp/schema/role', ...path.map(inPath)].join('/'),
      ...(body === undefined ? {} : { body: toJson(body) }),
      idempotent: method === 'GET',
      signal: options.signal,
    });
  }

  #saved<Result>(
    method: ApiCall['method'],
    path: readonly string[],
    body: object | undefined,
    options: CallOptions = {},
  ): Promise<Result> {
    return this.#transport.json<Result>(savedCall(method, path, body, options));
  }

  async #schema<Result>(
    method: ApiCall['method'],
    path: readonly string[],
    body: object | undefined,
    options: AlterOptions = {},
  ): Promise<Result> {
    checkOptions(options, method === 'GET' ? READ_NAMES : SCHEMA_NAMES, 'a schema call');
    const { signal, return: returned, dryRun } = options;
    const query = [...(returned === undefined ? [] : ['return=values']), ...(dryRun ? ['dry_run=true'] : [])].join('&');
    // A key makes a change happen once, however often it is sent.
    const needsKey = method !== 'GET' && !dryRun;
    return this.#transport.json<Result>({
      method,
      path: ['/api/cdp/schema', ...path.map(inPath)].join('/') + (query === '' ? '' : `?${query}`),
      ...(body === undefined ? {} : { body: toJson(body) }),
      ...(needsKey ? { headers: { 'idempotency-key': newKey() } } : {}),
      idempotent: true,
      signal,
    });
  }
}

const dataPath = (table: string): string => `/api/cdp/data/${inPath(table)}`;
