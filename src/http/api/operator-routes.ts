/** What operators and their tools ask (contract section 9): is it alive, is it ready, how is it doing, what is the API. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { EngineError } from '../../contract/errors.js';
import type { Engine } from '../../engine/engine.js';
import { authorize, identify } from '../gate/authenticate.js';
import type { ServedRoute } from '../exchange.js';
import type { Metrics } from '../watch/metrics.js';

/** The process answers, whatever its database does. */
export const alive = () => ({ success: true, message: 'alive' });

const METRICS: ServedRoute = { url: '/metrics', audit: 'metrics' };

interface OperatorSettings {
  document: object;
  separateMetrics: boolean;
  /** The first start makes a project and shows its token. */
  showsFirstToken: boolean;
}

export function operatorRoutes(
  app: FastifyInstance,
  engine: Engine,
  metrics: Metrics,
  { document, separateMetrics, showsFirstToken }: OperatorSettings,
): void {
  app.get('/healthz', alive);

  app.get('/readyz', async () => {
    // The migrations ran before the server listened; what can be missing now is the database, and the first project:
    // whoever waits for the service may go on with its token.
    const isFirstStart = await engine.isFirstStart();
    if (showsFirstToken && isFirstStart) throw new EngineError('overloaded', 'The first project is being made');
    return { success: true, message: 'ready' };
  });

  app.get('/openapi.json', () => document);

  // A page on another origin does not read what an operator's browser sees from loopback.
  app.get('/metrics', { config: { cors: false } }, async (request, reply) => {
    const { exchange } = request;
    exchange.route = METRICS;
    if (separateMetrics || !isLoopback(request))
      authorize((exchange.caller = await identify(engine, request)), 'admin');
    return metrics.send(reply);
  });
}

/** By the socket, not by a header that anybody can send. */
function isLoopback({ socket, headers }: FastifyRequest): boolean {
  // A proxy on this machine speaks for others.
  if (headers['x-forwarded-for'] !== undefined || headers.forwarded !== undefined) return false;
  return /^(::ffff:)?127\.|^::1$/.test(socket.remoteAddress ?? '');
}
