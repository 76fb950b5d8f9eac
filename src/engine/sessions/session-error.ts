/**
 * Errors that refuse or end a session at the Postgres port, and SQLSTATEs (Postgres manual, appendix A) for the
 * service's codes.
 */
import { EngineError, type ErrorCode } from '../../contract/errors.js';
import { PostgresError, SQLSTATE } from '../../pg/index.js';

/** For metrics and the audit log: a code of the service, or a reason of the port itself. */
export type SessionErrorCode = ErrorCode | 'malformed' | 'login_timeout' | 'tls_required' | 'too_many_sessions';

/** The error that ends a login or a session, as the client sees it. */
export class SessionError extends Error {
  constructor(
    readonly sqlstate: string,
    message: string,
    readonly code: SessionErrorCode,
    readonly hint?: string,
  ) {
    super(message);
    this.name = 'SessionError';
  }
}

const SQLSTATES: Partial<Record<ErrorCode, string>> = {
  unauthorized: '28P01',
  token_expired: '28P01',
  insufficient_scope: '28000',
  cdp_inactive: '28000',
  invalid_json: '08P01',
  invalid_request: '08P01',
  invalid_value: '22023',
  statement_not_allowed: '0A000',
  payload_too_large: '54000',
  result_too_large: '54000',
  row_too_large: '54000',
  query_timeout: SQLSTATE.QUERY_CANCELED,
  rate_limited: '53400',
  overloaded: '53300',
  quota_exceeded: SQLSTATE.DISK_FULL,
  disk_full: SQLSTATE.DISK_FULL,
  database_unavailable: '57P03',
  data_corrupted: SQLSTATE.DATA_CORRUPTED,
  outcome_unknown: '08007',
};

/** The SQLSTATE that Postgres would use; XX000 (internal error) if it has none. */
export const sqlstateOf = (code: ErrorCode): string => SQLSTATES[code] ?? 'XX000';

/** The error of a failed login. Mistakes in the client's settings are reported in Postgres's own words. */
export function loginError(error: unknown): SessionError {
  if (error instanceof SessionError) return error;
  if (!(error instanceof EngineError)) return new SessionError('XX000', 'Internal error', 'internal');
  const { cause, code, message, hint } = error;
  if (cause instanceof PostgresError && /^(?:0A|22|25P04|42|55P02)/.test(cause.sqlstate)) {
    return new SessionError(cause.sqlstate, cause.message, 'invalid_request', cause.fields.hint);
  }
  if (code === 'unauthorized') {
    const words = 'password authentication failed: the password must be a token of the project';
    return new SessionError(sqlstateOf(code), words, code, 'The token may be revoked, or belong to another service.');
  }
  return new SessionError(sqlstateOf(code), message, code, hint);
}

/** A session is ended from outside, which Postgres calls "administrator command". */
export const terminated = (why: string, code: SessionErrorCode): SessionError =>
  new SessionError('57P01', `terminating connection: ${why}`, code);
