/** What the edge says of requests that are traced. Their spans are made by `request-spans.ts`, which is read in only then. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { RequestTrace } from '../../engine/trace.js';
import type { TraceContext } from './trace-context.js';

/** What spans hold of the caller's; each holds what is before it too. */
export const TRACE_DETAILS = ['route', 'names', 'statements'] as const;
export type TraceDetail = (typeof TRACE_DETAILS)[number];

export interface RequestTracer {
  /** The head of a request is there. @returns null for one that is no work of the API */
  begin(request: FastifyRequest): RequestSpan | null;
}

export interface RequestSpan {
  /** Its own, which those of all further spans are below. */
  readonly context: TraceContext;
  /** For the engine; null where the sampler left the request out. */
  readonly trace: RequestTrace | null;
  /** The answer is out, or the connection broke. */
  end(request: FastifyRequest, reply: FastifyReply): void;
}
