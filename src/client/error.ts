/** The client's only error class: the error that the service returned, or why there was no response. */
import type { ErrorCode, ErrorDetail, PostgresDetails, StoredPart, ValueCount } from '../contract/errors.js';

/**
 * Failures without a response from the service.
 * - `network_error`: no response in time, or an interrupted one;
 * - `unexpected_answer`: a response, but not from the service (a proxy's HTML page);
 * - `aborted`: the caller's AbortSignal; `cause` is its reason;
 * - `caller_error`: the caller's source of records or callback threw; `cause` is what it threw.
 */
export type ClientErrorCode = 'network_error' | 'unexpected_answer' | 'aborted' | 'caller_error';

export type CdpErrorCode = ErrorCode | ClientErrorCode;

type DetailName = Exclude<keyof CdpError, 'code' | 'name' | 'message' | 'stack' | 'with'>;

type CdpErrorDetails = { [Name in DetailName]?: CdpError[Name] | undefined };

export class CdpError extends Error {
  override readonly name = 'CdpError';
  /** One of the service's error codes, or one of the client's own. */
  readonly code: CdpErrorCode;
  /** The HTTP status; 0 if there was no response, or no request was sent. */
  readonly status: number;
  /**
   * Each error with its place, at most 50 entries. In an insert, `record` is the 0-based position in the whole input.
   */
  readonly errors: readonly ErrorDetail[];
  /** The number of all errors; `errors` may contain only the first ones. */
  readonly errorCount: number;
  readonly hint: string | undefined;
  /** The number of rows with values that cannot be converted, in the error `not_convertible` of `alterColumn`. */
  readonly rows: number | undefined;
  /** The first ids of these rows, in order; empty if the table has no column `id`. */
  readonly ids: readonly string[];
  /** Values that cannot be converted, most frequent first, if `alterColumn` was called with `return: 'values'`. */
  readonly values: readonly ValueCount[];
  /** Details from Postgres: SQLSTATE, position, constraint. */
  readonly postgres: PostgresDetails | undefined;
  /** Identifies the request in the service's log. */
  readonly requestId: string | undefined;
  /** Seconds to wait before a retry, from the `Retry-After` header. */
  readonly retryAfter: number | undefined;
  /** The rows of an insert that the service acknowledged before the failure. */
  readonly inserted: number;
  /** What the request of a stream has stored, if the service said so. */
  readonly stored: StoredPart | undefined;

  constructor(code: CdpErrorCode, message: string, details: CdpErrorDetails = {}) {
    super(message, { cause: details.cause });
    this.code = code;
    this.status = details.status ?? 0;
    this.errors = details.errors ?? [];
    this.errorCount = details.errorCount ?? this.errors.length;
    this.hint = details.hint;
    this.rows = details.rows;
    this.ids = details.ids ?? [];
    this.values = details.values ?? [];
    this.postgres = details.postgres;
    this.requestId = details.requestId;
    this.retryAfter = details.retryAfter;
    this.inserted = details.inserted ?? 0;
    this.stored = details.stored;
  }

  /** A copy with another message and some other details. */
  with(message: string, details: CdpErrorDetails): CdpError {
    return new CdpError(this.code, message, { ...this, cause: this.cause, ...details });
  }
}

export const aborted = (signal: AbortSignal): CdpError =>
  new CdpError('aborted', 'The call was aborted', { cause: signal.reason });
