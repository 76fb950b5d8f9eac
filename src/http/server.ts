/**
 * The HTTP server: every request passes authentication, body, schema, handler and error exit, in this order, and leaves
 * one line in the log.
 */
import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { Engine } from '../engine/engine.js';
import type { Project } from '../engine/project.js';
import { ADMIN_ROUTES } from './admin-routes.js';
import { type AppSettings, createApp, defineRoutes } from './app.js';
import { auditOperation, newTrail, requestSettled, responseClosed } from './audit.js';
import { authorize, identify } from './authenticate.js';
import { readJsonBody } from './body.js';
import { announcedBytes, ByteRoom } from './byte-room.js';
import { Cors, parseOrigins } from './cors.js';
import { Metrics } from './metrics.js';
import { openApiDocument } from './openapi.js';
import { operatorRoutes } from './operator-routes.js';
import { parseRate, RateLimit } from './rate-limit.js';
import { readBody } from './read-body.js';
import type { Context, Route, RouteSettings } from './route.js';
import { ROUTES } from './routes.js';
import { DOCS_CONTENT_POLICY } from './security-headers.js';

export interface HttpSettings extends AppSettings, RouteSettings {
  /** True where /metrics has a listener of its own. */
  separateMetrics: boolean;
  /** Requests of one token within a time, as {@link parseRate} reads them; null: any number. */
  rateLimit: string | null;
  /** Origins whose pages may call, as {@link parseOrigins} reads them; null: none. */
  corsOrigins: string | null;
  version: string;
}

/** The server, not yet listening, and the metrics it fills. */
export async function httpServer(
  engine: Engine,
  settings: HttpSettings,
  logger: Logger,
): Promise<{ app: FastifyInstance; metrics: Metrics }> {
  const metrics = new Metrics(engine);
  const room = new ByteRoom();
  /** Before its body is read: while it waits, its bytes stay with the client. */
  const takeRoom = async (project: Project, request: FastifyRequest, reply: FastifyReply) => {
    request.project = project;
    const place = await room.enter(project.id, announcedBytes(request), project.patience, request.gone);
    request.place = place;
    if (reply.raw.closed) place.leave();
    else reply.raw.once('close', () => place.leave());
  };
  const cors = settings.corsOrigins === null ? null : new Cors(parseOrigins(settings.corsOrigins));
  const rateLimit = settings.rateLimit === null ? null : new RateLimit(parseRate(settings.rateLimit));
  const app = createApp(settings, logger, {
    opened: (request, reply) => {
      request.trail = newTrail(request);
      // Unlike the hook for it, this also happens when the client has left before its answer.
      reply.raw.once('close', () => {
        logRequest(request, reply, metrics);
        responseClosed(engine.audit, request, reply);
      });
      // A path that cannot be decoded passes no hook.
      if (request.routeOptions.url === undefined) cors?.allow(request, reply);
    },
    refused: (request) => requestSettled(engine.audit, request),
  });
  app.decorateRequest('trail');
  app.addContentTypeParser('application/json', readBody);

  // Before authentication: a preflight has no token.
  await cors?.register(app);
  app.addHook('onRequest', async (request, reply) => {
    const { access } = request.routeOptions.config;
    if (access === undefined) return;
    request.caller = await identify(engine, request);
    const oneTooMany = rateLimit?.count(request.caller, reply) ?? null;
    authorize(request.caller, access);
    if (oneTooMany !== null) throw oneTooMany;
    request.gone = clientGone(request, reply);
    if (request.caller.project !== null) await takeRoom(engine.project(request.caller.project), request, reply);
    request.stages.authenticated = performance.now();
  });
  app.addHook('preValidation', async (request) => {
    const { schema, config } = request.routeOptions;
    if (schema?.body !== undefined && config.rawBody !== true) request.document = await readJsonBody(request);
  });
  app.addHook('preHandler', (request, _reply, done) => {
    request.stages.parsed = performance.now();
    done();
  });
  const routes = [...ROUTES, ...ADMIN_ROUTES];
  const document = openApiDocument(routes, settings.version);
  await app.register(swagger, { mode: 'static', specification: { document: document as never } });
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    uiConfig: { validatorUrl: null, supportedSubmitMethods: [] },
    staticCSP: DOCS_CONTENT_POLICY,
    logo: undefined as never,
  });
  defineRoutes(app, () => {
    for (const route of routes) addRoute(app, { engine, settings }, route);
    operatorRoutes(app, engine, metrics, { document, separateMetrics: settings.separateMetrics });
  });
  return { app, metrics };
}

function addRoute(app: FastifyInstance, shared: Pick<Context, 'engine' | 'settings'>, route: Route): void {
  app.route({
    method: route.method,
    url: route.url,
    config: {
      access: route.access,
      dataField: route.dataField,
      rawBody: route.rawBody,
      audit: auditOperation(route.operationId),
      successStatus: route.success.status,
    },
    schema: {
      ...(route.body === undefined || route.rawBody ? {} : { body: route.body }),
      ...(route.query === undefined ? {} : { querystring: route.query }),
    },
    handler: async (request, reply) => {
      const { caller } = request;
      if (caller === null) throw new Error('A route with access was reached without a caller');
      const answer = await route.handle({ ...shared, caller, request, reply, signal: request.gone });
      requestSettled(shared.engine.audit, request);
      if (Buffer.isBuffer(answer.body)) request.place?.resize(answer.body.length);
      if (answer.body === null) return reply;
      return reply
        .status(answer.status)
        .headers(answer.headers ?? {})
        .type('application/json')
        .send(answer.body);
    },
  });
}

/** Aborted when the connection ends before the answer is out. */
function clientGone(request: FastifyRequest, reply: FastifyReply): AbortSignal {
  const controller = new AbortController();
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) controller.abort();
  });
  // The client may have left while its body was read.
  if (request.raw.destroyed && !request.raw.complete) controller.abort();
  return controller.signal;
}

/** One line a request: no values, no names of the caller's tables, no token. */
function logRequest(request: FastifyRequest, reply: FastifyReply, metrics: Metrics): void {
  const seconds = (performance.now() - request.stages.started) / 1000;
  const route = request.routeOptions.url ?? 'unknown';
  const { errorCode, caller, rows, method } = request;
  const status = reply.raw.statusCode;
  const insertedRows = route === '/api/cdp/data/:table_name' && errorCode === null ? (rows ?? 0) : 0;
  metrics.observe({ route, method, status, code: errorCode ?? '', seconds, insertedRows });
  request.log.info(
    {
      method,
      route,
      status,
      address: request.trail.address,
      duration_ms: Math.round(seconds * 1e5) / 100,
      ...(errorCode === null ? {} : { error: errorCode }),
      ...(caller === null ? {} : { project: caller.project?.name, token: caller.id }),
      ...(rows === null ? {} : { rows }),
      ...(reply.raw.writableFinished ? {} : { aborted: true }),
    },
    'request',
  );
}
