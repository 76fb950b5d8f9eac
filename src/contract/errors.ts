/**
 * The closed table of error codes (contract C2.2), and the only error class that carries them. Nothing else sets a
 * status of 400 or more. The error exit in `http/` turns an {@link EngineError} into the one response shape.
 */

/** One row: the HTTP status, what the code means, and what the caller should do. The docs quote these texts. */
interface ErrorRow {
  readonly status: number;
  readonly meaning: string;
  readonly action: string;
}

export const ERROR_CODES = {
  invalid_json: {
    status: 400,
    meaning:
      'The body is not JSON: a syntax error, bytes that are not UTF-8, nesting deeper than 100 levels, or a key given twice.',
    action: 'Send valid UTF-8 JSON (RFC 8259).',
  },
  invalid_request: {
    status: 400,
    meaning:
      'The body, path, query or a header does not have the shape this operation takes, or the body holds too many values.',
    action: 'Compare the request with the API reference. If fields are wrong, `errors` lists every one.',
  },
  invalid_name: {
    status: 400,
    meaning:
      'A table or column name does not match `^[A-Za-z_][A-Za-z0-9_]{0,62}$`, or the name of a project or server `^[a-z][a-z0-9-]{0,62}$`.',
    action:
      'Use ASCII letters, digits and underscores, at most 63 characters, not starting with a digit; for a project or server lowercase ' +
      'letters, digits and hyphens.',
  },
  reserved_name: {
    status: 400,
    meaning:
      'The name belongs to the service or to Postgres: `id`, a system column such as `xmin`, or anything starting with `_cdp_`.',
    action: 'Choose another name.',
  },
  unknown_type: {
    status: 400,
    meaning: 'The column type is not one of TEXT, INTEGER, FLOAT, BOOLEAN, TIMESTAMP, JSONB.',
    action: 'Use one of the six types, or make the column with SQL; records accept its values.',
  },
  unknown_column: {
    status: 400,
    meaning: 'A key of a record, or a column of a new index, is not a column of the table.',
    action: 'Correct the key (the hint shows a similar name), or add the column first.',
  },
  invalid_value: {
    status: 400,
    meaning: 'A value, or a default, does not fit the type of its column.',
    action:
      '`errors` names every such cell by record and column; correct them and send the batch again. Nothing was inserted.',
  },
  too_many_records: {
    status: 400,
    meaning: 'The batch contains more than 250 records.',
    action: 'Split it into batches of at most 250.',
  },
  empty_batch: {
    status: 400,
    meaning: 'The batch contains no records.',
    action: 'Send at least one record.',
  },
  unauthorized: {
    status: 401,
    meaning: 'The bearer token is missing, malformed, unknown or revoked.',
    action: 'Send `Authorization: Bearer <token>` with a valid token.',
  },
  token_expired: {
    status: 401,
    meaning: 'The token was valid and has expired.',
    action: 'Obtain a new token.',
  },
  insufficient_scope: {
    status: 403,
    meaning: 'The token lacks the scope this operation needs; the message names it.',
    action: 'Use a token with that scope.',
  },
  cdp_inactive: {
    status: 403,
    meaning: 'The project is deactivated.',
    action: 'Ask the operator to activate the project.',
  },
  permission_denied: {
    status: 403,
    meaning: 'Postgres denies the statement to this role, for instance a write under `sql:read`.',
    action: 'Use a token whose scopes allow it.',
  },
  origin_not_allowed: {
    status: 403,
    meaning:
      'A page of this origin called `/mcp`, and `cors-origins` does not allow it; or used a token that names other origins.',
    action: 'Ask the operator to add the origin to `cors-origins`, or for a token that names it.',
  },
  not_found: {
    status: 404,
    meaning: 'The route, project, server or token does not exist.',
    action: 'Check the path and the names in it.',
  },
  table_not_found: {
    status: 404,
    meaning: 'The table named in the path does not exist.',
    action: 'Create it, or correct the name (the hint shows a similar one).',
  },
  column_not_found: {
    status: 404,
    meaning: 'The column named in the path does not exist.',
    action: 'Add it, or correct the name (the hint shows a similar one).',
  },
  index_not_found: {
    status: 404,
    meaning: 'The index named in the path does not exist.',
    action: 'Correct the name (the hint shows a similar one).',
  },
  method_not_allowed: {
    status: 405,
    meaning: 'The path exists but does not support the method.',
    action: 'Use a method listed in the `Allow` header.',
  },
  request_timeout: {
    status: 408,
    meaning: 'The request did not arrive in time.',
    action: 'Send headers and body without long pauses.',
  },
  table_exists: {
    status: 409,
    meaning: 'A table (or another object) of that name exists, possibly in another case.',
    action: 'Choose another name or use the existing table.',
  },
  column_exists: {
    status: 409,
    meaning: 'The table has a column of that name, possibly in another case.',
    action: 'Choose another name or use the existing column.',
  },
  unique_violation: {
    status: 409,
    meaning:
      'A row with the same unique value exists, or existing rows have the same values in the columns of a new unique index.',
    action: 'Omit the record, or change its value. Nothing was stored.',
  },
  constraint_violation: {
    status: 400,
    meaning:
      'A NOT NULL, CHECK, FOREIGN KEY or exclusion constraint rejects the row, or NOT NULL is set on a column that has NULLs.',
    action: 'Correct the value; `postgres.constraint` names the constraint if it has a name. Nothing was stored.',
  },
  not_convertible: {
    status: 409,
    meaning: 'The column holds values that the new type cannot hold without loss.',
    action:
      'Correct those rows (`rows` is their number, `ids` the first five), replace the values with `map`, or choose another type. Nothing was changed.',
  },
  dependent_objects: {
    status: 409,
    meaning: 'Views or other objects depend on the table or column, or the server still has projects.',
    action: 'Drop or change them first; the message names them.',
  },
  citus_limit: {
    status: 409,
    meaning: 'Citus cannot do this with a table that is distributed over workers, or cannot distribute it as it is.',
    action: 'The message names what prevents it: do without that, or make the table local. Nothing was changed.',
  },
  request_in_flight: {
    status: 409,
    meaning:
      'A request with the same Idempotency-Key is still running, or the project is being created, moved, repaired or deleted.',
    action: 'Retry a little later.',
  },
  key_settled: {
    status: 409,
    meaning: 'The Idempotency-Key was settled as not stored; requests that use it are always rejected.',
    action: 'To send the data after all, use a new key.',
  },
  not_supported: {
    status: 409,
    meaning: 'The project is on a server where this is not possible; the message says why.',
    action: 'Do without it, or move the project.',
  },
  cursor_expired: {
    status: 410,
    meaning: 'The changes after this cursor are no longer kept, or the feed began anew.',
    action: 'Read the tables again as the hint says, and go on from the cursor of that.',
  },
  payload_too_large: {
    status: 413,
    meaning: 'The body, compressed or decompressed, is larger than the limit.',
    action: 'Send less data per request.',
  },
  unsupported_media_type: {
    status: 415,
    meaning:
      'The body is not `application/json` (records also: NDJSON, CSV or TSV), or its Content-Encoding is neither `gzip` nor `identity`.',
    action:
      'Send `Content-Type: application/json`, or records as [a stream](api.md#streams). `cdp import` sends files of other formats.',
  },
  misdirected_request: {
    status: 421,
    meaning: 'Metrics were asked for on loopback by a host name, as a web page would after DNS rebinding.',
    action: 'Use an IP address or `localhost` in the URL, or send an admin token.',
  },
  idempotency_key_reused: {
    status: 422,
    meaning: 'The Idempotency-Key was used with another body or query.',
    action: 'Use a new key for a new request.',
  },
  sql_error: {
    status: 400,
    meaning:
      'Postgres rejects the statement, for instance because of a syntax error, an unknown name, a wrong type or division by zero.',
    action: '`postgres.sqlstate` and `postgres.position` say what is wrong and where.',
  },
  statement_not_allowed: {
    status: 400,
    meaning:
      'The statement cannot run in a request, which is one transaction: BEGIN, COMMIT, COPY … STDIN, LISTEN and the like.',
    action: 'The message says what to do instead.',
  },
  row_too_large: {
    status: 400,
    meaning: 'A row or an index entry is larger than Postgres can store.',
    action: 'Store less data in one row.',
  },
  result_too_large: {
    status: 400,
    meaning: 'One row of the result, or the description of all tables, is larger than a response may be.',
    action: 'Select less data per row, or read one table at a time.',
  },
  query_timeout: {
    status: 504,
    meaning:
      'The statement exceeded its time limit, or an operator canceled it. Nothing was changed, except by a statement that runs outside a transaction (VACUUM, CREATE INDEX CONCURRENTLY).',
    action: 'Make it cheaper, allow it more time with `timeout_ms`, or run it at the Postgres port.',
  },
  table_busy: {
    status: 503,
    meaning:
      'A lock could not be acquired in time, a change held the table for too long, or transactions conflicted (deadlock, serialization). Nothing was changed.',
    action: 'Retry after the time in `Retry-After`.',
  },
  quota_exceeded: {
    status: 403,
    meaning: 'The project has used up its disk quota. Deletes and drops still work.',
    action: 'Delete data, or ask the operator for more space.',
  },
  rate_limited: {
    status: 429,
    meaning: "The token has sent too many requests, or too many wrong tokens have come from the client's address.",
    action: 'Retry after the time in `Retry-After`.',
  },
  overloaded: {
    status: 503,
    meaning: 'Too many requests are running or waiting. Nothing was done.',
    action: 'Retry after the time in `Retry-After`.',
  },
  database_unavailable: {
    status: 503,
    meaning: "Postgres cannot be reached, or the identity provider's keys cannot be fetched. Nothing was stored.",
    action: 'Retry after the time in `Retry-After`.',
  },
  disk_full: {
    status: 503,
    meaning:
      'The disk of Postgres is full, or nearly: projects can only be read. Nothing was stored. Reads, deletes and drops still work.',
    action: 'Retry after the time in `Retry-After`. DROP and TRUNCATE free space at once.',
  },
  data_corrupted: {
    status: 500,
    meaning:
      'Postgres found damaged data on its disk: a page, an index or a file cannot be read. Nothing was changed, and the rest of the project still works.',
    action: 'Do not retry. Tell the operator, who can restore the data from a backup.',
  },
  outcome_unknown: {
    status: 503,
    meaning:
      'The connection to Postgres was lost during the commit, or the commit was canceled while it waited for a synchronous standby. The request was applied completely or not at all.',
    action: 'Check whether the change was made, or retry with the same Idempotency-Key, which is safe.',
  },
  internal: {
    status: 500,
    meaning: 'Internal error (a bug in the service).',
    action: 'Report it, and include the request_id.',
  },
} as const satisfies Record<string, ErrorRow>;

export type ErrorCode = keyof typeof ERROR_CODES;

/**
 * What an error says to a caller who may not read what its message and its hint reveal: names of tables and columns that
 * the caller did not send, or values of stored rows.
 */
export interface Redacted {
  readonly reveals: 'names' | 'values';
  readonly message: string;
  readonly hint?: string;
}

/** One error of a request. `record` is the 0-based index in the request's array. */
export interface ErrorDetail {
  record?: number;
  /** In a stream, instead of `record`: its 1-based line, and its first byte in the decoded body. */
  line?: number;
  offset?: number;
  column?: string;
  /** The columns of a constraint that has several, instead of `column`. */
  columns?: string[];
  error: ErrorCode;
  message: string;
  hint?: string;
  /** Never sent (`http/response/redaction.ts`). */
  redacted?: Redacted;
}

/** What Postgres reported, except internals of the server (file, line, routine). */
export interface PostgresDetails {
  sqlstate: string;
  /** 1-based, in characters of the statement. */
  position?: number;
  table?: string;
  column?: string;
  constraint?: string;
  detail?: string;
}

/** What the service depends on. */
export type Dependency = 'database' | `server ${string}` | 'identity provider';

/** The only error that is thrown on purpose. It is caught once, at the error exit of `http/`. */
export class EngineError extends Error {
  readonly errors: ErrorDetail[] | undefined;
  /** The number of all errors, if `errors` lists only the first. */
  readonly errorCount: number;
  hint: string | undefined;
  readonly redacted: Redacted | undefined;
  readonly postgres: PostgresDetails | undefined;
  /** Whether the detail in `postgres` quotes only what the caller sent. */
  readonly isDetailGiven: boolean | undefined;
  readonly unconvertible: UnconvertibleRows | undefined;
  readonly values: ValueCount[] | undefined;
  /** What a stream has stored before the error. */
  readonly stored: StoredPart | undefined;
  /** Seconds after which to retry; undefined: the default of the error exit; null: unknown. */
  readonly retryAfter: number | null | undefined;
  /** What is unavailable, for an error that {@link isOutage}; default: the database; null: nothing, a retry is enough. */
  dependency: Dependency | null | undefined;

  constructor(
    readonly code: ErrorCode,
    message: string,
    { cause, errorCount, ...options }: EngineErrorOptions = {},
  ) {
    super(message, { cause });
    this.name = 'EngineError';
    Object.assign(this, options);
    this.errorCount = errorCount ?? options.errors?.length ?? 0;
  }

  /** The same error, with other texts or more details. */
  with({ message = this.message, ...changes }: EngineErrorOptions & { message?: string }): EngineError {
    const { code, name: _, cause, ...options } = this;
    return new EngineError(code, message, { ...options, cause, ...changes });
  }

  get status(): number {
    return ERROR_CODES[this.code].status;
  }
}

export type EngineErrorOptions = Partial<Omit<EngineError, 'code' | 'status' | 'name' | 'message' | 'stack' | 'with'>>;

/** Whether the operator has to know of the error, unless its `dependency` is null. */
export const isOutage = ({ code }: EngineError): boolean => code === 'database_unavailable' || code === 'disk_full';

/** The part of a stream that is stored. */
export interface StoredPart {
  readonly rows: number;
  /** For a caller who may only append, the rows are all records, also those in the quarantine. */
  readonly isAccepted?: boolean;
  /** Of the decoded body; what follows them is not stored. */
  readonly bytes: number;
}

/** A value that cannot be converted, as text that may be cut, and the number of rows that have it. */
export interface ValueCount {
  value: string;
  rows: number;
}

/** The rows whose values cannot be converted: their number, and the first ids. */
interface UnconvertibleRows {
  rows: number;
  ids: readonly string[];
}

/** One line for an operator. Includes causes, which a caller over HTTP must not see. */
export function messageOf(error: unknown): string {
  // If every address of a host fails, Node throws an AggregateError without a message of its own.
  if (error instanceof AggregateError) return error.errors.map(messageOf).join('; ');
  if (error instanceof EngineError && error.cause instanceof Error)
    return `${error.message}: ${messageOf(error.cause)}`;
  return error instanceof Error ? error.message : String(error);
}
