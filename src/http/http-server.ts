/** Assembles the HTTP server from the operations of the API and its pages. Each request is logged, counted and audited once. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { Engine } from '../engine/engine.js';
import { ErrorExit } from './response/error-exit.js';
import { consolePage } from './api/console-files.js';
import type { DocsPage } from './api/docs-page.js';
import { openApiDocument } from './api/openapi.js';
import { monitoringRoutes } from './api/monitoring-routes.js';
import type { Operation } from './api/operation.js';
import type { RouteSettings } from './route.js';
import { OPERATIONS } from './api/operations.js';
import { type ListenerSettings, createListener } from './listener.js';
import { refuseOtherMethods } from './known-paths.js';
import { answerPagePreflight, Cors } from './edge/cors.js';
import { MCP } from './mcp/mcp-route.js';
import { Admission } from './admission.js';
import { serveRoute } from './serve-route.js';
import { auditRequest } from './observability/audit-request.js';
import { countUsage } from './observability/count-usage.js';
import { Metrics } from './observability/metrics.js';
import { requestLog } from './observability/log-lines.js';
import type { RequestSpans } from './observability/request-spans.js';

interface HttpSettings extends ListenerSettings, RouteSettings {
  /** /metrics has a separate listener. */
  separateMetrics: boolean;
  /** Whether the first start creates a project and shows its token; the service is not ready before. */
  showsFirstToken: boolean;
  metricsByProject: boolean;
  /** Serves the web console. */
  console: boolean;
  /** The address or name on which the service listens. */
  host: string;
}

const DOCS = '/docs';

const CONSOLE = '/console';

/** The server, not listening yet, and its metrics. @param operations of the API; a test adds some */
export async function httpServer(
  engine: Engine,
  settings: HttpSettings,
  logger: Logger,
  tracer: RequestSpans | null = null,
  operations: readonly Operation[] = OPERATIONS,
): Promise<{ app: FastifyInstance; metrics: Metrics }> {
  const metrics = new Metrics(engine, settings.metricsByProject);
  const log = requestLog(logger);
  const cors = settings.corsOrigins === null ? null : new Cors(settings.corsOrigins);
  const app = createListener(settings, new ErrorExit(logger, engine.corruption), {
    begin: (request, reply) => {
      if (tracer !== null) request.context.span = tracer.begin(request);
      // A path that cannot be decoded reaches no hook of CORS.
      if (cors !== null && request.routeOptions.url === undefined) cors.allow(request, reply);
    },
    close: (request, reply) => {
      metrics.count(request, reply);
      log(request, reply);
      request.context.span?.end(request, reply);
    },
    end: (request) => {
      auditRequest(engine.audit, request);
      countUsage(engine.usage, request);
    },
  });
  // Comes before authentication: a preflight has no token.
  const routes = [...operations, MCP];
  const fromPages = new Set(routes.filter((route) => route.fromPages).map(({ url }) => url));
  app.addHook('onRequest', async (request, reply) => {
    if (!fromPages.has(request.context.path?.url ?? '')) return;
    if (await answerPagePreflight(request, reply, (origin) => engine.authenticator.isPageOrigin(origin))) return reply;
  });
  await cors?.register(app);
  refuseOtherMethods(app);

  const document = openApiDocument(operations);
  let docs: Promise<DocsPage> | undefined;
  const showDocs = async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
    docs ??= import('./api/docs-page.js').then(({ docsPage }) => docsPage(document, DOCS));
    return (await docs)(request, reply);
  };
  // A person with a browser gets a page; for a program, the path does not exist.
  app.get('/', (request, reply) => {
    if (request.headers.accept?.includes('text/html')) return reply.redirect(settings.console ? `${CONSOLE}/` : DOCS);
    reply.callNotFound();
    return reply;
  });
  for (const path of [DOCS, `${DOCS}/*`]) app.get(path, showDocs);
  if (settings.console) {
    app.get(CONSOLE, (_request, reply) => reply.redirect(`${CONSOLE}/`));
    app.get(`${CONSOLE}/*`, consolePage(`${CONSOLE}/`));
  }
  const admission = new Admission(engine);
  for (const route of routes) serveRoute(app, engine, settings, admission, route);
  monitoringRoutes(app, engine, metrics, { ...settings, document });
  return { app, metrics };
}
