/** The trace of a request, from the header `traceparent` (W3C Trace Context, section 3.2), and how much spans tell. */
import type { FastifyRequest } from 'fastify';

export interface TraceContext {
  /** 32 and 16 hexadecimal digits, not all of them 0. */
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
}

const TRACEPARENT = /^(?!ff)([\da-f]{2})-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-([\da-f]{2})(-.*)?$/;

/** @returns null if the header is missing or invalid */
export function readTraceparent(header: string | string[] | undefined): TraceContext | null {
  if (typeof header !== 'string') return null;
  const [, version, traceId, spanId, flags, more] = TRACEPARENT.exec(header) ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return null;
  // Later versions may append fields.
  if (version === '00' && more !== undefined) return null;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

/** The context of the request's span, for the log; without tracing, the caller's. */
export const traceContextOf = ({ context, headers }: FastifyRequest): TraceContext | null =>
  context.span?.context ?? readTraceparent(headers.traceparent);

/** How much of a caller's data spans contain; each level includes the previous ones. */
export const TRACE_DETAILS = ['route', 'names', 'statements'] as const;
export type TraceDetail = (typeof TRACE_DETAILS)[number];
