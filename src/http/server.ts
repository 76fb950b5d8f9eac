/**
 * The HTTP server: every request passes authentication, body, schema, handler and error exit, in this order, and leaves
 * one line in the log.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest, HookHandlerDoneFunction } from 'fastify';
import type { Logger } from 'pino';
import type { Engine } from '../engine/engine.js';
import { ADMIN_ROUTES } from './api/admin-routes.js';
import { Answers } from './answer/answers.js';
import { type AppSettings, createApp, defineRoutes } from './app.js';
import { requestSettled, responseClosed } from './watch/audit.js';
import { readJsonBody } from './body.js';
import { ByteRoom } from './gate/byte-room.js';
import { Cors } from './connection/cors.js';
import type { DocsPage } from './api/docs-page.js';
import { Gate } from './gate/gate.js';
import { Metrics } from './watch/metrics.js';
import { openApiDocument } from './api/openapi.js';
import { operatorRoutes } from './api/operator-routes.js';
import { Pieces } from './answer/pieces.js';
import { type Rate, RateLimit } from './gate/rate-limit.js';
import { readBody } from './connection/read-body.js';
import { RequestLog } from './watch/request-log.js';
import type { Context, Route, RouteSettings } from './api/route.js';
import { ROUTES } from './api/routes.js';
import type { RequestTracer } from './watch/request-tracer.js';

interface HttpSettings extends AppSettings, RouteSettings {
  /** True where /metrics has a listener of its own. */
  separateMetrics: boolean;
  /** The first start makes a project and shows its token: it is not ready before. */
  showsFirstToken: boolean;
  /** Metrics of each project, too. */
  metricsByProject: boolean;
  /** Requests of one token within a time; null: any number. */
  rateLimit: Rate | null;
  /** Origins whose pages may call, or `*` alone; null: none. */
  corsOrigins: readonly string[] | null;
}

/** The server, not yet listening, and the metrics it fills. */
export async function httpServer(
  engine: Engine,
  settings: HttpSettings,
  logger: Logger,
  tracer: RequestTracer | null = null,
): Promise<{ app: FastifyInstance; metrics: Metrics }> {
  const metrics = new Metrics(engine, settings.metricsByProject);
  const log = new RequestLog(logger);
  const cors = settings.corsOrigins === null ? null : new Cors(settings.corsOrigins);
  const rateLimit = settings.rateLimit === null ? null : new RateLimit(settings.rateLimit);
  const answers = new Answers(settings.streamStallMs, logger, cors !== null || rateLimit !== null);
  const gate = new Gate(engine, rateLimit, new ByteRoom());
  const app = createApp(settings, answers, {
    opened: (request, reply) => {
      if (tracer !== null) request.exchange.span = tracer.begin(request);
      // A path that cannot be decoded passes no hook.
      if (cors !== null && request.routeOptions.url === undefined) cors.allow(request, reply);
    },
    refused: (request) => requestSettled(engine.audit, request),
    closed: (request, reply) => {
      request.exchange.place?.leave();
      report(request, reply, metrics, log);
      responseClosed(engine.audit, request, reply);
    },
  });
  app.addContentTypeParser('application/json', readBody);

  // Before authentication: a preflight has no token.
  await cors?.register(app);
  const routes = [...ROUTES, ...ADMIN_ROUTES];
  const document = openApiDocument(routes);
  let docs: Promise<DocsPage> | undefined;
  const showDocs = async (request: FastifyRequest, reply: FastifyReply): Promise<unknown> => {
    docs ??= import('./api/docs-page.js').then(({ docsPage }) => docsPage(document, DOCS));
    return (await docs)(request, reply);
  };
  // Most of what could stand there does not, in no method.
  app.get(`${DOCS}/*`, showDocs);
  defineRoutes(app, () => {
    app.get(DOCS, showDocs);
    for (const route of routes) addRoute(app, { engine, settings }, gate, answers, route);
    const { separateMetrics, showsFirstToken } = settings;
    operatorRoutes(app, engine, metrics, { document, separateMetrics, showsFirstToken });
  });
  return { app, metrics };
}

/** Where the documentation has its page. */
const DOCS = '/docs';

function addRoute(
  app: FastifyInstance,
  { engine, settings }: Pick<Context, 'engine' | 'settings'>,
  gate: Gate,
  answers: Answers,
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
    onRequest: (request, reply, done) => {
      request.exchange.route = route;
      // A promise for each request would cost more than what is looked up.
      whenDone(gate.pass(request, reply, route), done);
    },
    ...(body === undefined
      ? {}
      : { preValidation: (request, _reply, done: HookHandlerDoneFunction) => whenDone(readJsonBody(request), done) }),
    handler: (request, reply) => {
      const { exchange } = request;
      const { caller } = exchange;
      if (caller === null) throw new Error('A route with access was reached without a caller');
      exchange.parsed = performance.now();
      const refuse = (error: unknown) => {
        answers.fail(error, request, reply);
        requestSettled(engine.audit, request);
      };
      // Fastify is told nothing of it: it would only wait for the end too. Nor is there a second promise.
      const context: Context = { engine, settings, caller, request, reply, signal: exchange.departure };
      route.handle(context).then(({ body, headers }) => {
        try {
          requestSettled(engine.audit, request);
          if (body === null) return;
          const isBytes = Buffer.isBuffer(body) || body instanceof Pieces;
          if (isBytes) exchange.place?.resize(body.length);
          answers.send(request, reply, route.success.status, isBytes ? body : JSON.stringify(body), headers);
        } catch (error) {
          refuse(error);
        }
      }, refuse);
    },
  });
}

/** Ends a hook, at once where there is nothing to wait for. */
function whenDone(work: Promise<void> | undefined, done: HookHandlerDoneFunction): void {
  if (work === undefined) done();
  else work.then(() => done(), done);
}

/** Of a request that is over: its line in the log, and its count. */
function report(request: FastifyRequest, reply: FastifyReply, metrics: Metrics, log: RequestLog): void {
  const { exchange, method } = request;
  const { caller, errorCode } = exchange;
  const duration = performance.now() - exchange.started;
  const route = exchange.route?.url ?? request.routeOptions.url ?? 'unknown';
  metrics.observe(route, method, reply.raw.statusCode, errorCode, duration / 1_000);
  const inserted = exchange.route?.audit === 'insert' && errorCode === null ? (exchange.rows ?? 0) : 0;
  metrics.inserted(inserted);
  if (metrics.byProject !== null && caller?.project != null) {
    metrics.byProject.count(caller.project.id, errorCode, inserted);
  }
  log.write(request, reply, route, duration);
  exchange.span?.end(request, reply);
}
