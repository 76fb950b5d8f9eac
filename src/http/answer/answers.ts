/**
 * The answers of the service's own routes, and all refusals: their headers, and their way out in one write where they are
 * small. What plugins serve (the documentation's pages) goes out by Fastify, with the same headers.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { Dependency, EngineError } from '../../contract/errors.js';
import { asEngineError, errorBody, errorHeaders } from './error-exit.js';
import { Outage } from '../watch/outage.js';
import { Pieces } from './pieces.js';
import { SECURITY_HEADERS } from '../connection/security-headers.js';
import { serverTiming } from './server-timing.js';
import { traceContextOf } from '../watch/trace-context.js';
import { JSON_TYPE, type WholeResponse } from '../connection/whole-response.js';

/** A body up to this size goes out as text behind its head, which costs less than a write in two pieces. */
const SMALL_BYTES = 16 * 1024;

/** Names and values in turn, as `writeHead` takes them: it looks at an object's keys one by one. */
type HeaderList = string[];

const ON_EVERY_ANSWER: HeaderList = Object.entries(SECURITY_HEADERS).flat();

/** A path may be written in many ways: what has found its route is told by that. */
const isOfApi = ({ exchange, url }: FastifyRequest): boolean => exchange.route !== null || url.startsWith('/api/cdp');

/** What every answer has, whatever becomes of the request. */
function headersOf(request: FastifyRequest): HeaderList {
  const headers = ON_EVERY_ANSWER.concat('x-request-id', request.id, 'server-timing', serverTiming(request));
  if (isOfApi(request)) headers.push('cache-control', 'no-store');
  return headers;
}

/** The same, with what was said along the way (limits, CORS). */
export function allHeadersOf(request: FastifyRequest, reply: FastifyReply): Record<string, string> {
  const headers: Record<string, string> = {};
  const list = headersOf(request);
  for (let i = 0; i < list.length; i += 2) headers[list[i] as string] = list[i + 1] as string;
  return Object.assign(headers, reply.getHeaders());
}

/** What an answer has beside its fixed headers, where nothing is special about it. */
function ordinaryLines(request: FastifyRequest, length: string): string {
  const caching = isOfApi(request) ? 'cache-control: no-store\r\n' : '';
  return `x-request-id: ${request.id}\r\nserver-timing: ${serverTiming(request)}\r\n${caching}content-length: ${length}\r\n`;
}

function append(list: HeaderList, headers: Readonly<Record<string, unknown>>): void {
  for (const name in headers) list.push(name, String(headers[name]));
}

const isAscii = (text: string): boolean => /^[\0-\x7f]*$/.test(text);

export class Answers {
  private readonly outages: Readonly<Record<Dependency, Outage>>;
  /** Answers of this turn of the event loop, whose heads are written. They go out at its end. */
  private readonly leaving: { raw: WholeResponse; body: string | Buffer | Pieces }[] = [];

  /**
   * @param stallMs whoever takes nothing of an answer for so long loses the connection
   * @param saysMore whether something is said along the way to each answer (limits, CORS)
   */
  constructor(
    private readonly stallMs: number,
    private readonly logger: Logger,
    private readonly saysMore: boolean,
  ) {
    this.outages = {
      database: new Outage(logger, 'database'),
      'identity provider': new Outage(logger, 'identity provider'),
    };
  }

  /** @param body JSON */
  send(
    request: FastifyRequest,
    reply: FastifyReply,
    status: number,
    body: string | Buffer | Pieces,
    headers?: Record<string, string>,
  ): void {
    const raw = reply.raw as WholeResponse;
    const bytes = typeof body === 'string' && !isAscii(body) ? Buffer.from(body) : body;
    // Latin-1 keeps every byte of a buffer.
    const whole = Buffer.isBuffer(bytes) && bytes.length <= SMALL_BYTES ? bytes.toString('latin1') : bytes;
    const length = String(whole.length);
    if (headers !== undefined || this.saysMore || !raw.beginOrdinary(status, ordinaryLines(request, length))) {
      const head = headersOf(request);
      append(head, reply.getHeaders());
      if (headers !== undefined) append(head, headers);
      raw.writeHead(status, head.concat('content-type', JSON_TYPE, 'content-length', length));
    }
    if (this.leaving.push({ raw, body: whole }) === 1) setImmediate(() => this.letGo());
  }

  /** Each write wakes its client, or finds it awake: together they cost a busy service a fourth less. */
  private letGo(): void {
    for (const { raw, body } of this.leaving.splice(0)) {
      if (raw.destroyed) continue;
      if (typeof body === 'string') raw.endText(body);
      else if (body instanceof Pieces) {
        for (const part of body.parts) raw.write(part);
        raw.end();
      } else raw.end(body);
      this.limitStall(raw);
    }
  }

  /** Whatever was thrown, as the one shape of refusal. */
  fail(thrown: unknown, request: FastifyRequest, reply: FastifyReply): void {
    const error = asEngineError(thrown);
    request.exchange.errorCode = error.code;
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
      this.outages[error.away ?? 'database'].refused(circumstances(error, request));
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
