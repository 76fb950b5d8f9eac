/** From a failure to what is answered (contract section 1). Nothing else makes a status of 400 or more. */
import type { FastifyError } from 'fastify';
import { EngineError, type ErrorCode } from '../../contract/errors.js';
import { LIMITS } from '../../contract/limits.js';
import type { ErrorBody } from '../../contract/wire/failure.js';
import { toEngineError } from '../../postgres/errors.js';
import { SECURITY_HEADERS } from '../connection/security-headers.js';

/** Seconds in `Retry-After` where the error does not say. */
const RETRY_AFTER_S = 1;

/** Failures of the HTTP layer itself, by the code of the library or of Node. */
const HTTP_ERRORS: Readonly<Record<string, [ErrorCode, string]>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: ['payload_too_large', `The body is larger than ${LIMITS.bodyBytes} bytes`],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['unsupported_media_type', 'The body must be application/json'],
  FST_ERR_BAD_URL: ['invalid_request', 'The path is not a valid URL'],
  FST_ERR_ASYNC_CONSTRAINT: ['invalid_request', 'The request cannot be routed'],
  ERR_BUFFER_TOO_LARGE: ['payload_too_large', `The unpacked body is larger than ${LIMITS.bodyBytes} bytes`],
  HPE_HEADER_OVERFLOW: ['payload_too_large', 'The headers are too large'],
  ERR_HTTP_REQUEST_TIMEOUT: ['request_timeout', 'The request did not arrive in time'],
  ECONNRESET: ['invalid_request', 'The request was broken off'],
};

/** Whatever was thrown, as an error of the contract. What nobody foresaw is `internal` and says nothing more. */
export function asEngineError(thrown: unknown): EngineError {
  const error = toEngineError(thrown);
  if (error instanceof EngineError) return error;
  const { code, validation, statusCode } = error as Partial<FastifyError>;
  const known = code === undefined ? undefined : HTTP_ERRORS[code];
  if (known !== undefined) return new EngineError(known[0], known[1], { cause: error });
  if (validation !== undefined) return invalidRequest(error as FastifyError);
  if (code?.startsWith('HPE_') || (statusCode !== undefined && statusCode >= 400 && statusCode < 500)) {
    return new EngineError('invalid_request', 'The request is not valid HTTP', { cause: error });
  }
  return new EngineError('internal', 'Internal error', { cause: error });
}

/** What a wire schema complains about, in words. */
function invalidRequest(error: FastifyError): EngineError {
  const [first] = error.validation ?? [];
  const path = first?.instancePath.slice(1).replaceAll('/', '.') ?? '';
  const where = [error.validationContext === 'querystring' ? 'query' : error.validationContext, path]
    .filter(Boolean)
    .join('.');
  return new EngineError('invalid_request', `${where} ${complaint(first)}`, { cause: error });
}

function complaint(first: NonNullable<FastifyError['validation']>[number] | undefined): string {
  const { additionalProperty, allowedValue, allowedValues } = first?.params ?? {};
  if (additionalProperty !== undefined) return `has an unknown field ${JSON.stringify(additionalProperty)}`;
  // Ajv says that there are some, and not which.
  if (allowedValue !== undefined) return `must be ${JSON.stringify(allowedValue)}`;
  if (Array.isArray(allowedValues)) return `must be one of ${allowedValues.join(', ')}`;
  return first?.message ?? 'is not valid';
}

export function errorBody(error: EngineError, requestId: string): ErrorBody {
  return {
    success: false,
    error: error.code,
    message: error.message,
    status: error.status,
    request_id: requestId,
    ...(error.errors === undefined ? {} : { errors: error.errors, error_count: error.errorCount }),
    ...(error.hint === undefined ? {} : { hint: error.hint }),
    ...(error.postgres === undefined ? {} : { postgres: error.postgres }),
  };
}

export function errorHeaders(error: EngineError): Record<string, string> {
  const headers = { ...error.headers };
  if (error.status === 401) headers['www-authenticate'] ??= 'Bearer realm="cdp", error="invalid_token"';
  if (error.code === 'insufficient_scope')
    headers['www-authenticate'] ??= 'Bearer realm="cdp", error="insufficient_scope"';
  if ((error.status === 429 || error.status === 503) && error.retryAfter !== null) {
    headers['retry-after'] = String(error.retryAfter ?? RETRY_AFTER_S);
  }
  return headers;
}

/** For what never became a request: the bytes of a whole HTTP answer. */
export function rawError(thrown: unknown, requestId: string): string {
  const error = asEngineError(thrown);
  const body = JSON.stringify(errorBody(error, requestId));
  const headers = {
    ...SECURITY_HEADERS,
    ...errorHeaders(error),
    'content-type': 'application/json',
    'x-request-id': requestId,
    // Nobody knows when it began, or for what path it was.
    'server-timing': 'total;dur=0',
    'cache-control': 'no-store',
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${error.status} Error\r\n${lines.join('')}connection: close\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}
