/** What operators and their tools ask (contract section 9): is it alive, is it ready, how is it doing, what is the API. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Engine } from '../engine/engine.js';
import { authenticate } from './authenticate.js';
import type { Metrics } from './metrics.js';

export function operatorRoutes(
  app: FastifyInstance,
  engine: Engine,
  metrics: Metrics,
  { document, separateMetrics }: { document: object; separateMetrics: boolean },
): void {
  app.get('/healthz', () => ({ success: true, message: 'alive' }));

  app.get('/readyz', async () => {
    // The migrations ran before the server listened; what can be missing now is the database.
    await engine.control.ping();
    return { success: true, message: 'ready' };
  });

  app.get('/openapi.json', () => document);

  app.get('/metrics', { config: { audit: 'metrics' } }, async (request, reply) => {
    if (separateMetrics || !isLoopback(request)) await authenticate(engine, request, 'admin');
    return reply.type(metrics.registry.contentType).send(await metrics.registry.metrics());
  });
}

/** By the socket, not by a header that anybody can send. */
function isLoopback({ socket, headers }: FastifyRequest): boolean {
  // A proxy on this machine speaks for others.
  if (headers['x-forwarded-for'] !== undefined || headers.forwarded !== undefined) return false;
  return /^(::ffff:)?127\.|^::1$/.test(socket.remoteAddress ?? '');
}
