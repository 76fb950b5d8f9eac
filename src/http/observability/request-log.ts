/** Logs a line for each request, without values, names of tables or tokens. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { roundedMs } from '../../contract/rounded-ms.js';
import { routeOf } from './metrics.js';
import { traceContextOf } from './trace-context.js';

/** Paths that monitoring requests every few seconds. */
const HEALTH_CHECKS: ReadonlySet<string> = new Set(['/healthz', '/readyz']);

/** For a health check, logs only failures and changes of the status. */
export function requestLog(logger: Logger): (request: FastifyRequest, reply: FastifyReply) => void {
  const lastStatus = new Map<string, number>();
  return (request, reply) => {
    const { statusCode: status } = reply.raw;
    const route = routeOf(request);
    if (HEALTH_CHECKS.has(route)) {
      if (status < 400 && lastStatus.get(route) === status) return;
      lastStatus.set(route, status);
    }
    logRequest(logger, request, reply);
  };
}

/** Fields that are undefined are left out. */
function logRequest(logger: Logger, request: FastifyRequest, { raw }: FastifyReply): void {
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
      duration_ms: roundedMs(performance.now() - started),
      error: errorCode ?? undefined,
      project: caller?.project?.name,
      token: caller?.id,
      rows: rows ?? undefined,
      aborted: raw.writableFinished ? undefined : true,
      trace_id: trace?.traceId,
      span_id: trace?.spanId,
    },
    'request',
  );
}
