/**
 * Turns a failure into its response (contract C2.1). Except for the MCP SDK, nothing else sends a status of 400 or
 * more.
 */
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import {
  type Dependency,
  EngineError,
  type ErrorCode,
  isOutage,
  messageOf,
  type StoredPart,
} from '../../contract/errors.js';
import type { ErrorBody } from '../../contract/wire/failure.js';
import type { CorruptionLog } from '../../db/corruption-log.js';
import { fromPostgres } from '../../tenancy/postgres-errors.js';
import { Outage } from '../observability/outage.js';
import { traceContextOf } from '../observability/trace-context.js';
import { NO_RIGHTS, redactedPostgres, redactedDetail, redactedTexts, type Rights, readRightsOf } from './redaction.js';
import { JSON_TYPE, SECURITY_HEADERS, writeHead } from './response.js';
import { validationError } from './validation-error.js';

/** The default of `Retry-After`, in seconds. */
const RETRY_AFTER_S = 1;

/** How long a rejected body may take to arrive. */
const UNREAD_BODY_MS = 30_000;

/** Failures of the HTTP layer itself, by the code of the library or of Node. */
const HTTP_ERRORS: Readonly<Record<string, [code: ErrorCode, message: string, hint?: string]>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: [
    'unsupported_media_type',
    'The body must be application/json',
    'Send Content-Type: application/json, and records as an array of objects. Records may also be text/csv, text/tab-separated-values or application/x-ndjson; cdp import sends files of other formats.',
  ],
  FST_ERR_BAD_URL: ['invalid_request', 'The path is not a valid URL'],
  FST_ERR_ASYNC_CONSTRAINT: ['invalid_request', 'The request cannot be routed'],
  HPE_HEADER_OVERFLOW: ['payload_too_large', 'The headers are too large'],
  ERR_HTTP_REQUEST_TIMEOUT: ['request_timeout', 'The request did not arrive in time'],
};

/** Converts anything thrown to an error (contract C2.2). Anything unexpected becomes `internal`, without details. */
export function asEngineError(thrown: unknown): EngineError {
  const error = fromPostgres(thrown);
  if (error instanceof EngineError) return error;
  const { code, validation, statusCode } = error as Partial<FastifyError>;
  const ownError = code === undefined ? undefined : HTTP_ERRORS[code];
  if (ownError !== undefined) {
    const [ownCode, message, hint] = ownError;
    return new EngineError(ownCode, message, { cause: error, hint });
  }
  if (validation !== undefined) return validationError(error as FastifyError);
  if (code?.startsWith('HPE_') || (statusCode !== undefined && statusCode >= 400 && statusCode < 500)) {
    return new EngineError('invalid_request', 'The request is not valid HTTP', { cause: error });
  }
  return new EngineError('internal', 'Internal error', { cause: error });
}

/** @param may what the caller may read */
export function errorBody(error: EngineError, requestId: string, may: Rights): ErrorBody {
  const { message, hint } = redactedTexts(error, may);
  const errors = error.errors?.map((detail) => redactedDetail(detail, may));
  const postgres = redactedPostgres(error, may);
  return {
    success: false,
    error: error.code,
    message,
    status: error.status,
    request_id: requestId,
    ...(errors === undefined ? {} : { errors, error_count: error.errorCount }),
    ...(hint === undefined ? {} : { hint }),
    ...(error.unconvertible === undefined ? {} : { rows: error.unconvertible.rows, ids: [...error.unconvertible.ids] }),
    ...(error.stored === undefined ? {} : storedFields(error.stored)),
    ...(error.values === undefined ? {} : { values: error.values }),
    ...(postgres === undefined ? {} : { postgres }),
  };
}

const storedFields = ({ rows, bytes, isAccepted }: StoredPart) => ({
  ...(isAccepted ? { accepted_rows: rows } : { stored_rows: rows }),
  stored_bytes: bytes,
});

/** @param status of the response, which its route may have changed */
function errorHeaders(error: EngineError, status = error.status): Record<string, string> {
  const headers = error instanceof HttpError ? { ...error.headers } : {};
  if (error.status === 401) headers['www-authenticate'] ??= 'Bearer realm="cdp", error="invalid_token"';
  if (error.code === 'insufficient_scope') {
    headers['www-authenticate'] = 'Bearer realm="cdp", error="insufficient_scope"';
  }
  if ((status === 429 || status === 503) && error.retryAfter !== null) {
    headers['retry-after'] = String(error.retryAfter ?? RETRY_AFTER_S);
  }
  return headers;
}

/** The only way out of a failed request. */
export class ErrorExit {
  private readonly outages = new Map<Dependency, Outage>();

  /** @param corruption null: nobody counts damaged data here */
  constructor(
    private readonly logger: Logger,
    private readonly corruption: CorruptionLog | null = null,
  ) {}

  /** Answers with anything thrown, in the common shape of errors. */
  send(thrown: unknown, request: FastifyRequest, reply: FastifyReply): void {
    const { context } = request;
    const { raw } = reply;
    const error = asEngineError(thrown);
    context.errorCode = error.code;
    this.log(error, request);
    // Begun, or about to be sent outside Fastify.
    if (reply.sent) raw.destroy();
    else {
      const plain = errorBody(error, request.id, readRightsOf(context));
      const body = context.route?.failure?.(error, plain) ?? plain;
      void reply.code(body.status).headers(errorHeaders(error, body.status));
      if (request.raw.complete || raw.shouldKeepAlive) void reply.send(body);
      else sendBeforeBody(request, reply, JSON.stringify(body));
    }
    context.handlerEnded();
  }

  private log(error: EngineError, request: FastifyRequest): void {
    this.corruption?.noteError(null, error.cause);
    if (error.code === 'internal') this.logger.error(circumstances(error, request), 'internal error');
    else if (isOutage(error) && error.dependency !== null) {
      this.outageOf(error.dependency ?? 'database').noteFailure(circumstances(error, request));
    }
  }

  private outageOf(dependency: Dependency): Outage {
    const outage = this.outages.get(dependency) ?? new Outage(this.logger, dependency);
    this.outages.set(dependency, outage);
    return outage;
  }
}

/**
 * Answers a client that wants its connection closed and may still be sending a body. Closing with unread data would
 * reset the connection and lose the response (RFC 9112 section 9.6), so the response ends after the body has arrived.
 */
function sendBeforeBody(request: FastifyRequest, reply: FastifyReply, body: string): void {
  const { raw } = reply;
  writeHead(request, reply, raw.statusCode, { 'content-type': JSON_TYPE, 'content-length': Buffer.byteLength(body) });
  if (request.method !== 'HEAD') raw.write(body);
  const end = () => void raw.end();
  const timer = setTimeout(end, UNREAD_BODY_MS).unref();
  raw.once('close', () => clearTimeout(timer));
  request.raw.once('end', end).resume();
}

function circumstances(error: EngineError, request: FastifyRequest): object {
  const trace = traceContextOf(request);
  const ids = trace === null ? {} : { trace_id: trace.traceId, span_id: trace.spanId };
  return { request_id: request.id, ...ids, cause: causeForLog(error) };
}

/**
 * Describes an error for the operator, a bug with its stack. Never includes the fields of a Postgres error, which may
 * quote values, or hold any text that the caller's own code has raised.
 */
function causeForLog({ code, message, cause, postgres }: EngineError): string {
  if (postgres !== undefined) return `a statement failed with SQLSTATE ${postgres.sqlstate}`;
  if (code === 'internal' && cause instanceof Error) return cause.stack ?? cause.message;
  return cause === undefined ? message : messageOf(cause);
}

/** A complete HTTP response, for bytes that never became a request. */
export function rawError(thrown: unknown, requestId: string): string {
  const error = asEngineError(thrown);
  const body = JSON.stringify(errorBody(error, requestId, NO_RIGHTS));
  const headers = {
    ...SECURITY_HEADERS,
    ...errorHeaders(error),
    'content-type': 'application/json',
    'x-request-id': requestId,
    // Its start and its path are unknown.
    'server-timing': 'total;dur=0',
    'cache-control': 'no-store',
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${error.status} Error\r\n${lines.join('')}connection: close\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

/** An error of the HTTP layer, with its own headers (`Allow`, `WWW-Authenticate`). */
export class HttpError extends EngineError {
  constructor(
    code: ErrorCode,
    message: string,
    readonly headers: Readonly<Record<string, string>>,
    hint?: string,
  ) {
    super(code, message, { hint });
  }
}
