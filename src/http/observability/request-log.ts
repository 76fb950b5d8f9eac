/** The log's line of each request: no values, no names of the caller's tables, no token. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { ms } from '../response/headers.js';
import { routeOf } from './metrics.js';
import { traceContextOf } from './trace-context.js';

export function logRequest(logger: Logger, request: FastifyRequest, { raw }: FastifyReply): void {
  if (!logger.isLevelEnabled('info')) return;
  const { started, address, errorCode, caller, rows } = request.context;
  const trace = traceContextOf(request);
  logger.info(
    {
      request_id: request.id,
      method: request.method,
      route: routeOf(request),
      status: raw.statusCode,
      address,
      duration_ms: ms(performance.now() - started),
      ...(errorCode === null ? {} : { error: errorCode }),
      ...(caller?.project == null ? {} : { project: caller.project.name }),
      ...(caller === null ? {} : { token: caller.id }),
      ...(rows === null ? {} : { rows }),
      ...(raw.writableFinished ? {} : { aborted: true }),
      ...(trace === null ? {} : { trace_id: trace.traceId, span_id: trace.spanId }),
    },
    'request',
  );
}
