/** The one error of the client: what the service answered, or why no answer of it came. */
import type { ErrorCode, ErrorPlace, PostgresDetails } from '../contract/errors.js';

/**
 * What can go wrong without an answer of the service.
 * - `network_error`: no answer within the time, or one that broke off;
 * - `unexpected_answer`: an answer, but not the service's (a proxy's page of HTML);
 * - `aborted`: the caller's AbortSignal; `cause` is its reason;
 * - `caller_error`: the caller's own source of records or callback threw; `cause` is what.
 */
export type ClientErrorCode = 'network_error' | 'unexpected_answer' | 'aborted' | 'caller_error';

export type CdpErrorCode = ErrorCode | ClientErrorCode;

export interface CdpErrorDetails {
  status?: number | undefined;
  errors?: readonly ErrorPlace[] | undefined;
  errorCount?: number | undefined;
  hint?: string | undefined;
  postgres?: PostgresDetails | undefined;
  requestId?: string | undefined;
  retryAfter?: number | undefined;
  inserted?: number | undefined;
  cause?: unknown;
}

export class CdpError extends Error {
  override readonly name = 'CdpError';
  /** A code of the table of errors, or one of the client's own. */
  readonly code: CdpErrorCode;
  /** The HTTP status; 0 where no answer came, or no request was sent. */
  readonly status: number;
  /** The wrong places, at most 50. Of an insert, `record` is the 0-based position in the caller's whole input. */
  readonly errors: readonly ErrorPlace[];
  /** How many places are wrong, where `errors` holds only the first of them. */
  readonly errorCount: number;
  readonly hint: string | undefined;
  /** What Postgres said: SQLSTATE, position, constraint. */
  readonly postgres: PostgresDetails | undefined;
  /** Names the request in the service's log. */
  readonly requestId: string | undefined;
  /** Seconds after which a repeat makes sense, as the answer's `Retry-After` says. */
  readonly retryAfter: number | undefined;
  /** Of an insert: rows that the service had acknowledged before the failure, in all batches together. */
  readonly inserted: number;

  constructor(code: CdpErrorCode, message: string, details: CdpErrorDetails = {}) {
    super(message, { cause: details.cause });
    this.code = code;
    this.status = details.status ?? 0;
    this.errors = details.errors ?? [];
    this.errorCount = details.errorCount ?? this.errors.length;
    this.hint = details.hint;
    this.postgres = details.postgres;
    this.requestId = details.requestId;
    this.retryAfter = details.retryAfter;
    this.inserted = details.inserted ?? 0;
  }

  /** The same error, with some of it told otherwise. */
  with(message: string, details: CdpErrorDetails): CdpError {
    return new CdpError(this.code, message, { ...this, cause: this.cause, ...details });
  }
}

export const aborted = (signal: AbortSignal): CdpError =>
  new CdpError('aborted', 'The call was aborted', { cause: signal.reason });
