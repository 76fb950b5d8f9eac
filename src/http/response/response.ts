/** Headers of all responses, and the sending of responses from handlers. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { roundedMs } from '../../contract/wire/fields.js';
import type { Project } from '../../db/project.js';
import type { RouteResponse } from '../route.js';

/**
 * Pages may not run, frame or sniff responses, or leak their addresses (OWASP, REST Security Cheat Sheet). HTTPS is up
 * to the proxy, and so is `Strict-Transport-Security`: browsers ignore it on plain HTTP (RFC 6797 section 8.1).
 */
export const SECURITY_HEADERS = {
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
} as const;

export const JSON_TYPE = 'application/json; charset=utf-8';

/** The headers of every response. Headers already set on the reply (limits, CORS, its own policy) take precedence. */
export function responseHeaders(request: FastifyRequest, reply: FastifyReply): Record<string, string> {
  const headers: Record<string, string> = {
    'x-request-id': request.id,
    'server-timing': serverTiming(request),
    ...SECURITY_HEADERS,
  };
  if (isApiPath(request)) headers['cache-control'] = 'no-store';
  return Object.assign(headers, reply.getHeaders());
}

/** Takes the response from Fastify and writes its head; the caller writes the body to `reply.raw`. */
export function writeHead(
  request: FastifyRequest,
  reply: FastifyReply,
  status: number,
  headers: Record<string, string | number>,
): void {
  reply.raw.writeHead(status, Object.assign(responseHeaders(request, reply), headers));
  reply.hijack();
}

/** Responses to send at the end of this turn of the event loop. */
let ready: (() => void)[] = [];

/**
 * Sends the responses of one turn together: waking a sleeping client costs more than a write, and once awake, it reads
 * all of them (docs/decisions/0023).
 * One that cannot be sent goes to the error exit, which breaks it off.
 */
export function sendResponse(
  request: FastifyRequest,
  reply: FastifyReply,
  status: number,
  { body, headers }: RouteResponse,
): void {
  const parts = Array.isArray(body)
    ? (body as readonly Buffer[])
    : [typeof body === 'string' ? body : JSON.stringify(body)];
  const length = parts.reduce((sum, part) => sum + Buffer.byteLength(part), 0);
  const { context } = request;
  context.reservation?.grow(length);
  const { raw } = reply;
  reply.hijack();
  const send = () => {
    try {
      writeHead(request, reply, status, { 'content-type': JSON_TYPE, ...headers, 'content-length': length });
      raw.setTimeout(context.stallMs);
      raw.cork();
      for (const part of parts.slice(0, -1)) raw.write(part);
      raw.end(parts.at(-1));
    } catch (error) {
      request.server.errorHandler(error, request, reply);
    }
  };
  if (ready.push(send) === 1) setImmediate(sendReady);
}

function sendReady(): void {
  const responses = ready;
  ready = [];
  for (const send of responses) send();
}

const isApiPath = ({ context, url }: FastifyRequest): boolean =>
  context.route !== null ||
  url.startsWith('/api/cdp') ||
  context.path?.url === '/sql' ||
  context.path?.url.startsWith('/v1/') === true;

/**
 * `Server-Timing` (W3C), in milliseconds: `auth` and `work` are stages, `total` runs from the request line to the
 * response.
 */
function serverTiming({ context }: FastifyRequest): string {
  const now = performance.now();
  const { startedAt, authenticatedAt, bodyReadAt } = context;
  const work = now - Math.max(bodyReadAt, authenticatedAt);
  return `auth;dur=${roundedMs(authenticatedAt - startedAt)}, work;dur=${roundedMs(work)}, total;dur=${roundedMs(now - startedAt)}`;
}

/** The body that the request would have got, with a report of what it would have done to the project. */
export function dryRunBody(body: RouteResponse['body'], { dryRun }: Project): RouteResponse['body'] {
  const more = { dry_run: true, impact: dryRun?.impact };
  if (body === null) throw new Error('A dry run cannot be streamed');
  if (typeof body === 'object' && !Array.isArray(body)) return { ...body, ...more };
  // The response of free SQL is one JSON object, as text or in pieces.
  const pieces = typeof body === 'string' ? [Buffer.from(body)] : (body as readonly Buffer[]);
  const last = pieces.at(-1)?.subarray(0, -1) ?? Buffer.alloc(0);
  return [...pieces.slice(0, -1), last, Buffer.from(`,${JSON.stringify(more).slice(1)}`)];
}
