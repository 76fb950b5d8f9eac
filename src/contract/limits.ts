/**
 * The fixed limits of the specification (section 8) and of the contract. `settings.ts` has those that an operator may
 * change.
 */
export const LIMITS = {
  /** Records in one batch (specification 8). */
  recordsPerBatch: 250,
  /** Columns declared through the API in one table, not counting `id` (contract 3, 5). */
  columnsPerTable: 500,
  /** Postgres's own limit (INDEX_MAX_KEYS). */
  columnsPerIndex: 32,
  /** Values that one type change may map. */
  mappedValues: 1_000,
  /** Characters in a comment (contract 3). */
  commentCharacters: 2_000,
  /** Bytes of a body after decompression (contract 6). */
  bodyBytes: 10 * 1024 * 1024,
  /** Levels of nesting in any JSON body (contract 8). */
  jsonDepth: 100,
  /** Places listed in `errors`; `error_count` counts all (contract 1). */
  errorsListed: 50,
  /** Ids listed of rows from which a type change would lose something. */
  lostIdsListed: 5,
  /** Bytes of one SQL text (contract 7). */
  sqlBytes: 1024 * 1024,
  /** Statements in one SQL text (contract 7). */
  statementsPerRequest: 100,
  /** Parameters of one statement: the protocol counts them in 16 bits. */
  parameters: 65_535,
  /** Queries in one batch of Neon's driver. */
  queriesPerBatch: 1_000,
  timeoutMsDefault: 30_000,
  timeoutMsMax: 60_000,
  maxRowsDefault: 10_000,
  maxRowsMax: 100_000,
  /** Bytes of the encoded rows of one response, over all statements (contract 7). */
  resultBytes: 16 * 1024 * 1024,
  /** Characters of an Idempotency-Key, and hours for which it is kept (contract 6). */
  idempotencyKeyCharacters: 255,
  idempotencyHours: 24,
  /** Keys in one query for receipts. */
  keysPerQuery: 1_000,
  /** Bytes up to which results of free SQL are kept under a key with their rows. */
  idempotencyResponseBytes: 64 * 1024,
} as const;
