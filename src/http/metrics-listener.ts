/** The separate listener for metrics (the setting `metrics-port`), without a token. */
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import { isLoopback } from '../ip-address.js';
import { isOwnHost, misdirected } from './edge/own-host.js';
import { ErrorExit } from './response/error-exit.js';
import { alive } from './api/monitoring-routes.js';
import { type ListenerSettings, createListener } from './listener.js';
import { refuseOtherMethods } from './known-paths.js';
import type { Metrics } from './observability/metrics.js';

/** Serves `/metrics` and `/healthz`; not listening yet. It logs no requests. */
export function metricsListener(
  metrics: Metrics,
  settings: ListenerSettings & { readonly metricsHost: string },
  logger: Logger,
): FastifyInstance {
  const app = createListener(settings, new ErrorExit(logger));
  refuseOtherMethods(app);
  app.get('/metrics', (request, reply) => {
    const isOnLoopback = isLoopback(request.socket.localAddress ?? '');
    if (isOnLoopback && !isOwnHost(request, settings.metricsHost)) throw misdirected();
    return metrics.send(reply);
  });
  app.get('/healthz', alive);
  return app;
}
