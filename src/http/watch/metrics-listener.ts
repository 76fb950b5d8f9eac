/** The listener that metrics have to themselves where that is set: for who collects them, without a token. */
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import { Answers } from '../answer/answers.js';
import { type AppSettings, createApp, defineRoutes } from '../app.js';
import type { Metrics } from './metrics.js';
import { alive } from '../api/operator-routes.js';

/** `/metrics` and `/healthz`, not yet listening; anything else is refused as everywhere. It logs no requests. */
export function metricsListener(metrics: Metrics, settings: AppSettings, logger: Logger): FastifyInstance {
  const app = createApp(settings, new Answers(settings.streamStallMs, logger, false));
  defineRoutes(app, () => {
    app.get('/metrics', (_request, reply) => metrics.send(reply));
    app.get('/healthz', alive);
  });
  return app;
}
