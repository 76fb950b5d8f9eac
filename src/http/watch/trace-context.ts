/** Which trace a request belongs to, by the header `traceparent` (W3C Trace Context, section 3.2). */
import type { FastifyRequest } from 'fastify';

export interface TraceContext {
  /** 32 and 16 digits of hexadecimal, not all of them 0. */
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
}

const TRACEPARENT = /^(?!ff)([\da-f]{2})-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-([\da-f]{2})(-.*)?$/;

/** @returns null where the header is not there, or not as it should be: then it counts as none */
export function readTraceparent(header: string | string[] | undefined): TraceContext | null {
  if (typeof header !== 'string') return null;
  const [, version, traceId, spanId, flags, more] = TRACEPARENT.exec(header) ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return null;
  // Later versions may have more fields behind these.
  if (version === '00' && more !== undefined) return null;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

/** That of the request's own span; without tracing the caller's, which is passed on into the log. */
export const traceContextOf = ({ exchange, headers }: FastifyRequest): TraceContext | null =>
  exchange.span?.context ?? readTraceparent(headers.traceparent);
