/**
 * The HTTP server of the service. A request passes authentication, its body, the route's schema and its handler, in this
 * order; whatever fails leaves through the error exit. Each request is logged, counted and audited once.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { Engine } from '../engine/engine.js';
import { ErrorExit } from './response/error-exit.js';
import { sendResponse } from './response/send-response.js';
import type { DocsPage } from './api/docs-page.js';
import { openApiDocument } from './api/openapi.js';
import { operatorRoutes } from './api/operator-routes.js';
import type { Route, RouteSettings } from './api/route.js';
import { ADMIN_ROUTES, ROUTES } from './api/routes.js';
import { type ListenerSettings, createListener, defineRoutes } from './listener.js';
import { parseJsonBody } from './body.js';
import { Cors } from './connection/cors.js';
import type { Rate } from './limits/rate-limit.js';
import { Admission } from './admission.js';
import { auditRequest } from './observability/audit-request.js';
import { Metrics } from './observability/metrics.js';
import { logRequest } from './observability/request-log.js';
import type { RequestTracer } from './observability/request-tracer.js';

interface HttpSettings extends ListenerSettings, RouteSettings {
  /** /metrics has a listener of its own. */
  separateMetrics: boolean;
  /** The first start makes a project and shows its token; the service is not ready before. */
  showsFirstToken: boolean;
  metricsByProject: boolean;
  /** Requests of one token within a window; null: unlimited. */
  rateLimit: Rate | null;
  /** Origins whose pages may call, or `*` alone; null: none. */
  corsOrigins: readonly string[] | null;
}

/** The documentation page. */
const DOCS = '/docs';

/** The server, not yet listening, and the metrics it fills. */
export async function httpServer(
  engine: Engine,
  settings: HttpSettings,
  logger: Logger,
  tracer: RequestTracer | null = null,
): Promise<{ app: FastifyInstance; metrics: Metrics }> {
  const metrics = new Metrics(engine, settings.metricsByProject);
  const cors = settings.corsOrigins === null ? null : new Cors(settings.corsOrigins);
  const app = createListener(settings, new ErrorExit(logger), {
    begin: (request, reply) => {
      if (tracer !== null) request.context.span = tracer.begin(request);
      // A path that cannot be decoded reaches no hook.
      if (cors !== null && request.routeOptions.url === undefined) cors.allow(request, reply);
    },
    close: (request, reply) => {
      metrics.count(request, reply);
      logRequest(logger, request, reply);
      request.context.span?.end(request, reply);
    },
    end: (request) => auditRequest(engine.audit, request),
  });
  // Before authentication: a preflight has no token.
  await cors?.register(app);

  const routes = [...ROUTES, ...ADMIN_ROUTES];
  const document = openApiDocument(routes);
  let docs: Promise<DocsPage> | undefined;
  const showDocs = async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
    docs ??= import('./api/docs-page.js').then(({ docsPage }) => docsPage(document, DOCS));
    return (await docs)(request, reply);
  };
  // Who types the address into a browser wants to read; a program has asked for a path that does not exist.
  app.get('/', (request, reply) => {
    if (request.headers.accept?.includes('text/html')) return reply.redirect(DOCS);
    reply.callNotFound();
    return reply;
  });
  // Below it most paths do not exist, whatever the method.
  app.get(`${DOCS}/*`, showDocs);
  defineRoutes(app, () => {
    app.get(DOCS, showDocs);
    const admission = new Admission(engine, settings.rateLimit);
    for (const route of routes) addRoute(app, engine, settings, admission, route);
    const { separateMetrics, showsFirstToken } = settings;
    operatorRoutes(app, engine, metrics, { document, separateMetrics, showsFirstToken });
  });
  return { app, metrics };
}

function addRoute(
  app: FastifyInstance,
  engine: Engine,
  settings: RouteSettings,
  admission: Admission,
  route: Route,
): void {
  const body = route.rawBody ? undefined : route.body;
  app.route({
    method: route.method,
    url: route.url,
    schema: {
      ...(body === undefined ? {} : { body }),
      ...(route.query === undefined ? {} : { querystring: route.query }),
    },
    onRequest: (request, reply) => admission.admit(request, reply, route),
    ...(body === undefined ? {} : { preValidation: parseJsonBody }),
    handler: async (request, reply) => {
      const { context } = request;
      const { caller, signal } = context;
      if (caller === null) throw new Error('A route with access was reached without a caller');
      context.parsed = performance.now();
      const answer = await route.handle({ engine, settings, caller, request, reply, signal });
      context.settle();
      if (answer.body !== null) sendResponse(request, reply, settings.streamStallMs, route.success.status, answer);
      return reply;
    },
  });
}
