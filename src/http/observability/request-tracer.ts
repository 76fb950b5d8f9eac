/** The interface of tracing; `request-spans.ts`, which is loaded only if traces are configured, creates the spans. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { RequestTrace } from '../../engine/database/trace.js';
import type { TraceContext } from './trace-context.js';

/** How much of a caller's data spans contain; each level includes the previous ones. */
export const TRACE_DETAILS = ['route', 'names', 'statements'] as const;
export type TraceDetail = (typeof TRACE_DETAILS)[number];

export interface RequestTracer {
  /** @returns null for a request that is not traced */
  begin(request: FastifyRequest): RequestSpan | null;
}

export interface RequestSpan {
  /** The parent of all further spans. */
  readonly context: TraceContext;
  /** For the engine; null: the sampler has dropped the request. */
  readonly trace: RequestTrace | null;
  /** The response has been sent, or the connection has closed. */
  end(request: FastifyRequest, reply: FastifyReply): void;
}
