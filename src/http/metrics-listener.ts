/** The listener for metrics alone (the setting `metrics-port`): for the collector, without a token. */
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import { ErrorExit } from './response/error-exit.js';
import { alive } from './api/operator-routes.js';
import { type ListenerSettings, createListener, defineRoutes } from './listener.js';
import type { Metrics } from './observability/metrics.js';

/** `/metrics` and `/healthz`, not yet listening; anything else is an error as everywhere. It logs no requests. */
export function metricsListener(metrics: Metrics, settings: ListenerSettings, logger: Logger): FastifyInstance {
  const app = createListener(settings, new ErrorExit(logger));
  defineRoutes(app, () => {
    app.get('/metrics', (_request, reply) => metrics.send(reply));
    app.get('/healthz', alive);
  });
  return app;
}
