/**
 * The answers of the service's own routes, and all refusals: their headers, and their way out in one write where they are
 * small. What plugins serve (the documentation's pages) goes out by Fastify, with the same headers.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { EngineError } from '../contract/errors.js';
import { asEngineError, errorBody, errorHeaders } from './error-exit.js';
import { Outage } from './outage.js';
import { SECURITY_HEADERS } from './security-headers.js';
import { serverTiming } from './server-timing.js';
import { traceContextOf } from './trace-context.js';

const JSON_TYPE = 'application/json; charset=utf-8';

/** A body up to this size is copied behind its head, which costs less than a write in two pieces. */
const SMALL_BYTES = 16 * 1024;

/** Names and values in turn, as `writeHead` takes them: it looks at an object's keys one by one. */
type HeaderList = string[];

const ON_EVERY_ANSWER: HeaderList = Object.entries(SECURITY_HEADERS).flat();

/** What every answer has, whatever becomes of the request. */
function headersOf(request: FastifyRequest): HeaderList {
  const headers = ON_EVERY_ANSWER.concat('x-request-id', request.id, 'server-timing', serverTiming(request));
  if (request.url.startsWith('/api/cdp')) headers.push('cache-control', 'no-store');
  return headers;
}

/** The same, with what was said along the way (limits, CORS). */
export function allHeadersOf(request: FastifyRequest, reply: FastifyReply): Record<string, string> {
  const headers: Record<string, string> = {};
  const list = headersOf(request);
  for (let i = 0; i < list.length; i += 2) headers[list[i] as string] = list[i + 1] as string;
  return Object.assign(headers, reply.getHeaders());
}

function append(list: HeaderList, headers: Readonly<Record<string, unknown>>): void {
  for (const name in headers) list.push(name, String(headers[name]));
}

export class Answers {
  private readonly outage: Outage;

  /** @param stallMs whoever takes nothing of an answer for so long loses the connection */
  constructor(
    private readonly stallMs: number,
    private readonly logger: Logger,
  ) {
    this.outage = new Outage(logger);
  }

  /** @param body JSON */
  send(
    request: FastifyRequest,
    reply: FastifyReply,
    status: number,
    body: string | Buffer,
    headers?: Record<string, string>,
  ): void {
    const { raw } = reply;
    const length = Buffer.byteLength(body);
    const head = headersOf(request);
    append(head, reply.getHeaders());
    if (headers !== undefined) append(head, headers);
    head.push('content-type', JSON_TYPE, 'content-length', String(length));
    raw.writeHead(status, head);
    // Text goes out in one piece with the head. Latin-1 keeps every byte of a buffer, and of a text that is ASCII.
    if (typeof body === 'string') raw.end(body, length === body.length ? 'latin1' : 'utf8');
    else if (length <= SMALL_BYTES) raw.end(body.toString('latin1'), 'latin1');
    else raw.end(body);
    this.limitStall(raw);
  }

  /** Whatever was thrown, as the one shape of refusal. */
  fail(thrown: unknown, request: FastifyRequest, reply: FastifyReply): void {
    const error = asEngineError(thrown);
    request.errorCode = error.code;
    this.report(error, request);
    if (reply.raw.headersSent) return void reply.raw.destroy();
    this.send(request, reply, error.status, JSON.stringify(errorBody(error, request.id)), errorHeaders(error));
  }

  /** Once everything is written: until it is taken it fills memory. What went out at once needs no timer. */
  limitStall(raw: FastifyReply['raw']): void {
    // Behind an earlier answer on the same connection it has no socket yet.
    if (raw.socket === null || raw.socket.writableLength > 0) raw.setTimeout(this.stallMs);
  }

  private report(error: EngineError, request: FastifyRequest): void {
    if (error.code === 'internal') this.logger.error(circumstances(error, request), 'internal error');
    // Without details of a statement it is the service's own errand that failed, which only the operator can mend.
    else if (error.code === 'database_unavailable' && error.postgres === undefined) {
      this.outage.refused(circumstances(error, request));
    }
  }
}

function circumstances(error: EngineError, request: FastifyRequest): object {
  const context = traceContextOf(request);
  const ids = context === null ? {} : { trace_id: context.traceId, span_id: context.spanId };
  return { request_id: request.id, ...ids, cause: describe(error.cause) };
}

/** What an operator needs to find a defect: never the fields of an error of Postgres, which quote values. */
function describe(cause: unknown): string {
  return cause instanceof Error ? (cause.stack ?? cause.message) : String(cause);
}
