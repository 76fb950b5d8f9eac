/** The fixed limits (docs/api.md, "Limits"). `settings.ts` has those that an operator may change. */
export const LIMITS = {
  /** Records in one batch (contract C8.1). */
  recordsPerBatch: 250,
  schedulesPerProject: 100,
  /** Characters of the SQL of a schedule or a saved query. */
  savedSqlCharacters: 65_536,
  scheduleTimeoutMsDefault: 300_000,
  scheduleTimeoutMsMax: 3_600_000,
  queriesPerProject: 500,
  queryParameters: 100,
  /** Bytes of the chart of a saved query, which only pages read. */
  chartBytes: 16_384,
  /** Runs of a schedule that are kept. */
  runsKept: 50,
  /** Characters of the error of a run. */
  runErrorCharacters: 2_000,
  /** Columns declared through the API in one table, not counting `id` (contract C6.1). */
  columnsPerTable: 500,
  /** Postgres's own limit (INDEX_MAX_KEYS). */
  columnsPerIndex: 32,
  /** Values that one type change may map. */
  mappedValues: 1_000,
  /** Characters in a comment (contract C6.5). */
  commentCharacters: 2_000,
  rolesPerProject: 500,
  /** The most tables of which the privileges of a role are listed. */
  tablesOfRole: 1_000,
  /** Bytes of a body after decompression (contract C1.4). */
  bodyBytes: 10 * 1024 * 1024,
  /** Bytes of a message of MCP, which its SDK reads again and again (contract C1.4). */
  mcpBodyBytes: 1024 * 1024,
  /** Values in the fields of a body together; in a batch, in each cell (contract C1.22). Nested ones count, keys do not. */
  values: 65_535,
  /** Values in a body of events: some hundred of each, if there are thousands. */
  valuesOfEvents: 250_000,
  /** Bytes of a body of events. SDKs send 500 kB at most. */
  eventsBytes: 2 * 1024 * 1024,
  /** Events in one request. SDKs send 2,500 at most. */
  eventsPerRequest: 5_000,
  /** Values of an event that may become columns: as many as a Postgres table may have. */
  valuesOfEvent: 1_600,
  /** Tables for names of events in one project; the events of further names have none of their own. */
  eventTables: 500,
  /** Tables that the events of one request may make. */
  eventTablesAtOnce: 50,
  /** Keys of a record, and of a body that is an object (contract C1.22): as many as a Postgres table may have columns. */
  keysPerRecord: 1_600,
  /** Levels of nesting in any JSON body (contract C1.5). */
  jsonDepth: 100,
  /** Places listed in `errors`; `error_count` counts all (contract C2.3). */
  errorsListed: 50,
  /** Ids listed of rows from which a type change would lose something. */
  lostIdsListed: 5,
  /** Bytes of one SQL text (contract C13.2). */
  sqlBytes: 1024 * 1024,
  /** Statements in one SQL text (contract C13.2). */
  statementsPerRequest: 100,
  /** Parameters of one statement: the protocol counts them in 16 bits. */
  parameters: 65_535,
  /** Queries in one batch of Neon's driver. */
  queriesPerBatch: 1_000,
  timeoutMsDefault: 30_000,
  timeoutMsMax: 60_000,
  maxRowsDefault: 10_000,
  maxRowsMax: 100_000,
  /** Bytes of the encoded rows of one response, over all statements (contract C14.5). */
  resultBytes: 16 * 1024 * 1024,
  /** Warnings in a response to free SQL, and characters of each of their texts. */
  warnings: 20,
  warningCharacters: 1_000,
  /** Characters of an Idempotency-Key, and hours for which it is kept (contract C11.1, C11.8). */
  idempotencyKeyCharacters: 255,
  idempotencyHours: 24,
  /** Keys in one query for receipts. */
  keysPerQuery: 1_000,
  /** Bytes up to which results of free SQL are kept under a key with their rows. */
  idempotencyResponseBytes: 64 * 1024,
} as const;
